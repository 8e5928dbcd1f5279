"""The program between two steps of a loop, and whether the step in between was like any other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint.compiler._guards import ABSENT, is_value
from adjoint.compiler._walk import Walk

from . import _frames
from ._bytecode import ForLoop
from ._in_place import can_be_carried

__all__ = ["Between", "Form", "Unlike", "changeable", "facts"]


class Unlike(Exception):
    """A step is not like the one before it."""


class Form(NamedTuple):
    """What a variable held: a structure, and where in it are tensors that each step makes anew."""

    spec: _tree.Spec
    kinds: list[Any]  # of its nodes, with the order of keys
    leaves: list[Any]
    places: list[int]  # of those tensors

    @staticmethod
    def of(value: Any) -> Form:
        leaves, spec = _tree.flatten(value)
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
        return Form(spec, [kind for kind, _ in _nodes(value)], leaves, places)

    def since(self, before: Form) -> Form:
        """The same, without tensors that are what they were before."""
        places = [k for k in self.places if self.leaves[k] is not before.leaves[k]]
        return self._replace(places=places)

    def tensors(self) -> list[Tensor]:
        return [self.leaves[k] for k in self.places]

    def is_like(self, tensors: Sequence[Tensor]) -> bool:
        """Whether these could have the places of its tensors."""
        return all(map(_alike, self.tensors(), tensors))

    def with_tensors(self, tensors: Sequence[Tensor]) -> Any:
        leaves = list(self.leaves)
        for k, t in zip(self.places, tensors, strict=True):
            leaves[k] = t
        return _tree.unflatten(self.spec, leaves)

    def tensors_of(self, value: Any, known: bool = False) -> list[Tensor]:
        """Those of a value that must be like this one: where that is known, no one looks."""
        leaves, spec = _tree.flatten(value)
        if known:
            return [leaves[k] for k in self.places]
        if spec != self.spec or [kind for kind, _ in _nodes(value)] != self.kinds:
            raise Unlike("a structure changes")
        places = {*self.places}
        for k, (a, b) in enumerate(zip(self.leaves, leaves, strict=True)):
            if not (_alike(a, b) if k in places else a is b or _same(a, b)):
                raise Unlike("a tensor has another form, or another value is not a tensor")
        return [leaves[k] for k in self.places]


def _nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    """The nodes of a structure: what they are, and they themselves where they can be changed."""
    if not _tree.is_structure(value):
        return
    parts, entries = _tree.children(value)
    if not {*(_core._dict_of(value) or ())} <= {*entries}:
        raise Unlike("an object has attributes that are not among its parts")
    keys = [*value] if isinstance(value, dict) else None
    yield (type(value), keys), (None if isinstance(value, tuple) else value)
    for part in parts:
        yield from _nodes(part)


def changeable(value: Any) -> list[Any]:
    """What a structure consists of that can be changed."""
    return [one for _, one in _nodes(value) if one is not None]


def _alike(a: Tensor, b: Any) -> bool:
    return type(b) is type(a) is Tensor and not _marks(a) and not _marks(b) and facts(a) == facts(b)


def _marks(t: Tensor) -> bool:
    """Whether it has attributes, or hooks."""
    return bool(_core._dict_of(t) or _core._unrecorded(lambda: t._backward_hooks))


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and is_value(type(a)) and repr(a) == repr(b)


def facts(t: Tensor) -> tuple[Any, ...]:
    """All that a step can ask of a tensor, but its values."""
    found: tuple[Any, ...] = _core._unrecorded(
        lambda: (
            *(t.shape, t.dtype, t.requires_grad, t.is_leaf, t.stride(), t.layout),
            *(t.is_conj(), t.is_neg()),
        )
    )
    return found


def _state_of(t: Tensor) -> tuple[Any, ...]:
    """All that can be done to a tensor, as numbers that change with it."""

    def seen() -> tuple[Any, ...]:
        g = t.grad if t.is_leaf else None
        gradient = (id(g), g._version) if isinstance(g, Tensor) else (0, 0)
        return (t._version, *gradient, len(t._backward_hooks or ()), t.retains_grad)

    found: tuple[Any, ...] = _core._unrecorded(seen)
    return (*found, len(_core._dict_of(t) or ()))


class Between:
    """What there is between two steps.

    Attributes
    ----------
    values, shared
        The variables that the body reads, and those that functions inside share.
    appended
        How long the lists are that are only appended to.
    forms
        The variables that the body reads and then writes.
    size
        How many instructions have been recorded.
    changed
        The variables whose tensors the step has changed in place: known once it was checked.
    """

    def __init__(
        self, frame: FrameType, loop: ForLoop, walk: Walk | None, item: Sequence[Any] = ()
    ) -> None:
        """With the walk of the recording, begin to watch what the body reaches, and an item."""
        self.loop, self.size = loop, _core._recorded_size()
        # Others are let go of by the step, and may be finalized there.
        names = loop.read | loop.live
        self.values = {k: held for k, held in _frames.variables(frame).items() if k in names}
        self.shared = _frames.shared(frame)
        self.appended = {
            name: len(self.values[name])
            for name in loop.appended
            if type(self.values[name]) is list
        }
        self.forms = {
            name: Form.of(self.values[name])
            for name in sorted(loop.live)
            if self.values[name] is not ABSENT
        }
        self._walk = walk
        self._seen = None if walk is None else self._reached_from(frame, walk)
        given = [one for one in item if isinstance(one, Tensor)]
        tensors = [*self._tensors(), *given]
        self._states = [(t, _state_of(t)) for t in tensors]
        # Of tensors that may be changed in place by the step.
        self._facts = {} if walk is None else {id(t): facts(t) for t in tensors}
        self.changed: dict[str, Tensor] = {}

    def _reached_from(self, frame: FrameType, walk: Walk) -> Walk:
        """A walk over what the body may reach by variables: it must leave all that as it is."""
        read = sorted(self.loop.read | self.loop.live)
        held = [self.values[name] for name in read if name not in self.appended]
        held += self.shared.values()
        function = _core._frame_function(frame)
        seen = walk.of_variables(function, [one for one in held if one is not ABSENT])
        if seen.refusals:
            raise Unlike(seen.refusals[0].reason)
        if any(seen.knows(self.values[name]) for name in self.appended):
            raise Unlike("a list that it appends to can be reached otherwise")
        return seen

    def _tensors(self) -> list[Tensor]:
        found = [t for form in self.forms.values() for t in form.tensors()]
        return found + ([] if self._seen is None else self._seen.tensors())

    def is_kept(self) -> bool:
        """Whether nothing has been changed since of what the body reaches."""
        assert self._seen is not None
        same = all(_state_of(t) == state for t, state in self._states)
        return same and not self._seen.has_effects()

    def _find_changed(self) -> None:
        """Find variables whose tensors were changed in place, and are seen by no other way.

        These are told apart from what must stay as it is.
        """
        numbers = {id(t): (t, state, _state_of(t)) for t, state in self._states}
        for t, before, after in numbers.values():
            if before[0] != after[0] and before[1:] == after[1:]:
                self.changed[self._name_of(t)] = t
        if self.changed:
            if self._walk is None or self._walk.asks_for_addresses:
                raise Unlike("it changes a tensor in place, and may ask which tensor it is")
            changed = {id(t) for t in self.changed.values()}
            self._states = [pair for pair in self._states if id(pair[0]) not in changed]
            self._facts = {}

    def _name_of(self, t: Tensor) -> str:
        """The one variable that has a tensor which was changed, if that is all there is."""
        names = [name for name, held in self.values.items() if held is t]
        assert self._seen is not None
        seen = sum(one is t for one in self._seen.tensors())
        if len(names) != 1 or seen != 1 or self._facts[id(t)] != facts(t):
            raise Unlike("it changes a tensor that is not in one variable alone")
        if not can_be_carried(t):
            raise Unlike("it changes a tensor that is not its own, or a view")
        return names[0]

    def knew(self, thing: Any) -> bool:
        """Whether the body could reach an object before the step."""
        assert self._seen is not None
        return self._seen.knows(thing) or any(
            one is thing for value in self.values.values() for one in changeable(value)
        )

    def other_tensors(self) -> list[Tensor]:
        """The tensors that a step reaches, but for those it carries or changes."""
        carried = {id(t) for form in self.forms.values() for t in form.tensors()}
        return [t for t, _ in self._states if id(t) not in carried]

    def check(self, now: Between) -> None:
        """Raise Unlike if the step in between has done more than give variables other values."""
        self._find_changed()
        if not self.is_kept():
            raise Unlike("it changes what it reaches")
        if self.forms.keys() != now.forms.keys() or self.appended.keys() != now.appended.keys():
            raise Unlike("other variables have values")
        if any(self.values[name] is not now.values[name] for name in self.loop.read):
            raise Unlike("a variable changes that it does not write")
        if any(now.shared[place] is not held for place, held in self.shared.items()):
            raise Unlike("a variable changes that functions share")
        if any(now.values[name] is not t for name, t in self.changed.items()):
            raise Unlike("it changes a tensor that it lets go of")
        for name, form in self.forms.items():
            form.tensors_of(now.values[name])
        made = [now.values[name] for name in self.forms]
        for name, size in self.appended.items():
            made += now.values[name][size:]
        if any(self.knew(one) for value in made for one in changeable(value)):
            raise Unlike("it hands an object on that can be changed")
        if len({id(one) for value in made for one in changeable(value)}) < sum(
            len(changeable(value)) for value in made
        ):
            raise Unlike("it hands one object on several times")

    def forget(self) -> None:
        """Let go of the variables: what the body reaches is watched still."""
        self.values, self.shared, self.forms = {}, {}, {}
        self.changed, self._walk = {}, None
