"""One recorded kind of call: its programs, and the node they make in the graph.

The forward part of a recording gives the outputs, and the values that the backward part will read.
The backward part comes from a pass over the graph of the recorded call, with placeholders for the
gradients that will arrive. A replayed call is one node: its backward runs that part. Where the
backward itself is to be differentiated (create_graph), the function runs once more eagerly, and its
own graph gives what is asked for. Read next: _compile.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor, default_generator
from adjoint._recording import placeholder_pass, runs_again
from adjoint.autograd import enable_grad
from adjoint.autograd import grad as gradients

from ._guards import Guards
from ._listing import listing
from ._refusals import Stopped

__all__ = ["Recorded", "Refused", "record"]

# Up to so many results with a gradient, each choice of those that get one has its own program.
MOST_CASES = 3
_PLAIN = (type(None), bool, int, float, complex, str, bytes, _core.dtype, _core.Size)


class Refused(Exception):
    """Why a call cannot be recorded, and where."""

    def __init__(self, reason: str, where: str) -> None:
        super().__init__(reason, where)
        self.reason, self.where = reason, where


def _never(tensors: list[Tensor]) -> bool:
    return False


class Recorded:
    """What a kind of call became.

    Attributes
    ----------
    program
        What the forward part computes; ``program.code()`` has a tuple for each instruction.
    backward
        The same of the backward part; None if there is none.
    guards
        What was read of the program around; ``guards.describe()`` names it.

    Examples
    --------
    >>> import adjoint as ad
    >>> f = ad.compile(lambda a, b: a @ b @ a)
    >>> _ = f(ad.ones(2, 2), ad.ones(2, 2))
    >>> print(f.programs[0])
    forward: ...
      %2... = ...
    """

    def __init__(self, rebuild: Callable[[Sequence[Tensor]], Any]) -> None:
        self.rebuild = rebuild  # calls the function eagerly, with other tensors
        self.guards = Guards(())
        self.hold = self.guards.hold
        # Whether the program gives what the function would: by tensors, and by all else.
        self.accepts: Callable[[list[Tensor]], bool] = _never
        self.program: Any = None
        self.spec: Any = None
        self.values: list[Any] = []  # the leaves of the result; None where a tensor stands
        self.from_outputs: list[tuple[int, int]] = []  # (leaf, output of the program)
        self.from_inputs: list[tuple[int, int]] = []  # (leaf, argument, or tensor reached)
        self.single = False  # the result is one tensor, which the program computes
        self.count = 0  # outputs that are results; the others are for the backward part
        self.differentiable: list[int] = []  # which of them have a gradient
        self.inner: list[int] = []  # results that others of them are computed from
        self.reached: list[Tensor] = []
        self.backward: Any = None  # a program: a gradient for each argument and tensor reached
        # The same where some gradients do not arrive, by whether each does, and which of the values
        # that are kept it reads.
        self.partial: dict[tuple[bool, ...], tuple[Any, list[int]]] = {}
        self.no_backward = ""
        self.places: list[int] = []
        self.check_backward: Callable[[], None] | None = None
        self.calls_python = False  # an external may change what was compared before it ran
        self.memory: Guards | None = None  # and so may a change of a tensor

    def guard_by(self, guards: Guards, tensors: list[Tensor], containers: list[Any]) -> None:
        """Say what must hold, besides what the program compares of the arguments."""
        self.guards = guards
        self.places = guards.places(containers)
        self.hold = guards.hold
        # Where the program reads an argument that the function also finds by itself, it is not
        # known which was meant; and it may have asked whether they are the same.
        self.program.tell_apart(tensors, guards.tensors())
        if guards.arguments is not None:
            accepts, check = self.accepts, guards.arguments
            self.accepts = lambda given: accepts(given) and check(given)
        self.calls_python = self.program.calls_python() and not guards.steps
        self.memory = guards.memory if guards.memory and self.program.changes() else None
        if guards.later is not None:
            self.check_backward = self._check_backward

    def knows(self, containers: list[Any]) -> bool:
        """Whether lists, dicts, ... among the arguments are those that the function also reaches.

        They are, or are not, as they were.
        """
        return not containers or self.guards.places(containers) == self.places

    def _check_backward(self) -> None:
        later = self.guards.later
        if later is not None and not later.hold():
            raise RuntimeError(
                "a hook or a custom function inside a compiled function reads in its backward "
                f"pass what has changed since the call: {later.failed()}.\n"
                "  fix: change it after the backward pass, or leave the function uncompiled "
                "(disable=True)"
            )

    def __str__(self) -> str:
        """What it computes, an instruction per line; long programs are cut short."""
        return listing(self.program, self.backward)

    def mismatch(self, tensors: list[Tensor]) -> str | None:
        """Why not."""
        why: str | None = self.program.mismatch(tensors)
        return why or self.guards.failed()

    def __call__(self, tensors: list[Tensor]) -> Any:
        """The result of the function."""
        if self.differentiable and _core.is_grad_enabled():
            found = _core._replay(
                self, self.program, tensors, self.reached, self.count, self.differentiable
            )
        else:
            found = self.program.run(tensors)
        if self.calls_python and not self.hold(tensors):
            raise RuntimeError(
                "an external that a compiled function calls has changed what the function depends "
                f"on: {self.mismatch(tensors)}. The rest of the call was computed without it.\n"
                "  fix: return the new value from the external, or leave the function uncompiled "
                "(disable=True)"
            )
        if self.memory is not None and not self.memory.hold():
            raise RuntimeError(
                "a compiled function has changed a tensor that shares memory with an array whose "
                f"numbers it depends on: {self.memory.failed()}. The rest of the call was "
                "computed with the old ones.\n"
                "  fix: read the array by a tensor, or leave the function uncompiled (disable=True)"
            )
        if self.single:
            return found[0]
        leaves = list(self.values)
        for place, k in self.from_outputs:
            leaves[place] = found[k]
        for place, k in self.from_inputs:
            leaves[place] = tensors[k] if k < len(tensors) else self.reached[k - len(tensors)]
        return _tree.unflatten(self.spec, leaves)

    def gradients(
        self, given: list[Tensor], versions: Sequence[int], grads: Sequence[Any]
    ) -> list[Any]:
        """The gradients by way of the function's own graph: recorded like everything else.

        Called by the node of a replayed call where the backward part is not enough.
        """
        if self.backward is None:
            raise RuntimeError(self.no_backward)
        if self.program.draws():
            raise RuntimeError(
                "a compiled function that draws random numbers has no second derivative, none "
                "inside transforms, and none of some of its outputs only: the function would "
                "have to run again, with other numbers.\n"
                "  fix: draw outside it and pass the numbers, or leave it uncompiled "
                "(disable=True)"
            )
        if self.program.changes():
            raise RuntimeError(
                "a compiled function that changes tensors from outside it (running statistics, "
                "an argument, a gradient) has no second derivative, and none inside transforms: "
                "the function would have to run again, and change them again.\n"
                "  fix: leave it uncompiled (disable=True), or let it return the new values"
            )
        if self.program.reads_gradients():
            raise RuntimeError(
                "a compiled function that reads the gradient (`.grad`) of a tensor from outside "
                "has no second derivative, and none inside transforms: the function would have "
                "to run again, and read the gradient of another time.\n"
                "  fix: pass the gradient as an argument, or leave it uncompiled (disable=True)"
            )
        for tensor, version in zip(given, versions, strict=True):
            if tensor._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an "
                    f"inplace operation: an argument of a compiled function, {list(tensor.shape)}, "
                    f"is at version {tensor._version}; expected version {version} instead.\n"
                    "  fix: change a clone() of it"
                )
        count = len(given) - len(self.reached)
        if not (self.accepts(given[:count]) and self.hold(given[:count])):
            changed = self.mismatch(given[:count]) or "a value that it reads"
            raise RuntimeError(
                "the gradient of a compiled function is taken in a way that runs the function "
                "again (create_graph, a transform, some of many results), and what it depends on "
                f"has changed since the call: {changed}.\n"
                "  fix: change it after the backward pass, pass it as an argument, or leave the "
                "function uncompiled (disable=True)"
            )
        needs = _differentiated(given)
        graph = _core.is_grad_enabled()
        with enable_grad():
            again = runs_again.set(True)
            try:
                leaves, _ = _tree.flatten(self.rebuild(given[:count]))
            finally:
                runs_again.reset(again)
            results = {k: leaves[place] for place, k in self.from_outputs}
            asked = [(results[k], g) for k, g in enumerate(grads) if g is not None]
            # Where one argument was computed from another, the outer pass goes on from it.
            found = _core._run_backward(
                tuple(t for t, _ in asked),
                tuple(g for _, g in asked),
                graph,
                graph,
                tuple(given[k] for k in needs),
                True,
                False,
                True,
            )
        result: list[Any] = [None] * len(given)
        for k, g in zip(needs, found, strict=True):
            result[k] = g
        return result


def _differentiated(tensors: Sequence[Tensor]) -> list[int]:
    """The tensors that get a gradient: each once, wherever else it stands."""
    first = {id(t): k for k, t in reversed([*enumerate(tensors)])}
    return [k for k, t in enumerate(tensors) if t.requires_grad and first[id(t)] == k]


def _check(recording: Any) -> None:
    refused = recording.refused()
    if refused is not None:
        raise Refused(*refused)


def record(
    recording: Any,
    result: Any,
    tensors: list[Tensor],
    rebuild: Callable[[Sequence[Tensor]], Any],
    was_there: Callable[[Any], bool],
) -> Recorded:
    """Make programs of what was taken down while a function gave ``result``.

    `was_there` says of a list, dict, ... whether it was there before the call.

    Raises
    ------
    Refused
        No program could do what the function does.
    """
    _check(recording)
    made = Recorded(rebuild)
    _refuse_known(result, was_there)
    leaves, made.spec = _tree.flatten(result)
    found = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    kinds = recording.outside(found)
    _check(recording)
    made.reached = recording.reached()
    results = _sort(made, leaves, dict(zip(map(id, found), kinds, strict=True)), tensors)
    end = recording.size()
    saved: list[Tensor] = []
    if _core.is_grad_enabled():
        made.differentiable = [k for k, t in enumerate(results) if t.requires_grad]
        if made.differentiable:
            saved = _record_backward(recording, made, results, tensors)
    made.program = recording.program(0, end, tensors, [*results, *saved])
    _check(recording)
    made.accepts = made.program.accepts
    if len(made.differentiable) > MOST_CASES and (made.program.draws() or made.program.changes()):
        raise Refused(
            "it draws random numbers, or changes tensors from outside, and returns more than "
            f"{MOST_CASES} tensors with a gradient: a backward pass through some of them only "
            "would have to run it again",
            "",
        )
    made.count = len(results)
    made.single = made.spec.is_leaf() and made.from_outputs == [(0, 0)]
    return made


def _refuse_known(result: Any, was_there: Callable[[Any], bool]) -> None:
    """Refuse a result with a list, dict, ... that was there before: it would become another one."""
    stack, seen = [result], set()
    while stack:
        thing = stack.pop()
        if not isinstance(thing, Tensor) and _tree.is_structure(thing):
            stack += _tree.children(thing)[0]
            if isinstance(thing, tuple):
                continue
            if id(thing) in seen:
                kind = type(thing).__name__
                raise Refused(f"the result holds one {kind} twice; fix: return a copy", "")
            seen.add(id(thing))
            if was_there(thing):
                raise Refused(
                    f"the result holds a {type(thing).__name__} that was there before the call, "
                    "not one of its own; fix: return a copy",
                    "",
                )


def _sort(
    made: Recorded, leaves: list[Any], kinds: dict[int, int], tensors: list[Tensor]
) -> list[Tensor]:
    """Note where each leaf of the result comes from; the tensors that the program computes."""
    known = {id(t): k for k, t in enumerate([*tensors, *made.reached])}
    results: dict[int, tuple[int, Tensor]] = {}
    for place, leaf in enumerate(leaves):
        made.values.append(None if isinstance(leaf, Tensor) else leaf)
        if not isinstance(leaf, Tensor):
            if not isinstance(leaf, _PLAIN):
                raise Refused(f"the result holds an object of the class {type(leaf).__name__}", "")
        elif kinds[id(leaf)] == 2:
            made.from_inputs.append((place, known[id(leaf)]))
        elif kinds[id(leaf)] == 1 and leaf.requires_grad:
            raise Refused("a result shares memory with an argument or with another result", "")
        elif getattr(leaf, "__dict__", None):
            name = next(iter(leaf.__dict__))
            raise Refused(f"a result has an attribute of its own, `{name}`", "")
        else:
            k, _ = results.setdefault(id(leaf), (len(results), leaf))
            made.from_outputs.append((place, k))
    return [t for _, t in results.values()]


def _record_backward(
    recording: Any, made: Recorded, results: list[Tensor], tensors: list[Tensor]
) -> list[Tensor]:
    """Take down the backward pass; the values of the forward part that it reads."""
    outputs = [results[k] for k in made.differentiable]
    known = [*tensors, *made.reached]
    by = _differentiated(known)
    if not by or any(t.is_leaf for t in outputs):
        raise Refused("a result requires grad by itself, not because of an argument", "")
    made.inner = [made.differentiable[k] for k in recording.inner(outputs)]
    placeholders = [_core.ones_like(t) for t in outputs]  # in memory as gradients mostly are
    recording.add_inputs(placeholders)
    saved: dict[int, tuple[int, Tensor]] = {}
    for arrived in _arrivals(len(outputs)):
        asked = [
            (t, g) for t, g, there in zip(outputs, placeholders, arrived, strict=True) if there
        ]
        program = _record_pass(recording, made, asked, known, by)
        if program is None:
            return []
        held: list[Tensor] = program.held()
        program.forget_held()  # those of this call; every call has its own
        places = [saved.setdefault(id(t), (len(saved), t))[0] for t in held]
        if all(arrived):
            made.backward = program
        else:
            made.partial[arrived] = program, places
    return [t for _, t in saved.values()]


def _arrivals(count: int) -> list[tuple[bool, ...]]:
    """Which gradients may arrive in a backward pass: all of them, and then the other cases.

    Where there are many cases they are left to `Recorded.gradients`, which runs the function again.
    """
    if count <= MOST_CASES:
        return [*itertools.product((True, False), repeat=count)][:-1]
    return [(True,) * count]


def _record_pass(
    recording: Any,
    made: Recorded,
    asked: list[tuple[Tensor, Tensor]],
    known: list[Tensor],
    by: list[int],
) -> Any:
    """Take down one backward pass: a program, or None if the graph is gone."""
    start = recording.size()
    numbers = default_generator.get_state()  # which this pass must not draw from
    recording.start(True)
    token = placeholder_pass.set(True)
    try:
        found = gradients(
            [t for t, _ in asked],
            [known[k] for k in by],
            [g for _, g in asked],
            retain_graph=True,
            allow_unused=True,
        )
    except (Exception, Stopped) as error:
        _check(recording)
        if not isinstance(error, RuntimeError) or "second time" not in str(error):
            first = str(error).partition("\n")[0]
            reason = f"its backward pass raised {type(error).__name__}: {first}"
            raise Refused(reason, "") from error
        # The function has run backward itself, and freed its graph.
        made.no_backward = str(error)
        return None
    finally:
        placeholder_pass.reset(token)
        recording.stop()
        default_generator.set_state(numbers)
    _check(recording)
    wanted: list[Tensor | None] = [None] * len(known)
    for k, g in zip(by, found, strict=True):
        wanted[k] = g
    return recording.program(start, recording.size(), [g for _, g in asked], wanted)
