"""From a call that was recorded to its programs.

The backward part comes from a pass over the graph of the recorded call. Where that graph consists
of ops alone this waits until somebody needs it: the results of the call are results of one node,
which keeps the graph, and the first backward pass through it is taken down while it runs. If a
second call comes before that, or there is Python in the graph, or everything has to be known at
once (``fullgraph``, ``verify``), a pass with placeholders for the gradients is taken down instead.
Read next: _recorded.py.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from adjoint import _core, _tree
from adjoint._core import Tensor, default_generator
from adjoint._recording import placeholder_pass
from adjoint.autograd import grad as gradients

from ._native import prepare as prepare_native
from ._recorded import Recorded, Refused, differentiated, run_backward
from ._refusals import Stopped

__all__ = ["FirstCall"]

# Up to so many results with a gradient, each choice of those that get one has its own program.
MOST_CASES = 3
_PLAIN = (type(None), bool, int, float, complex, str, bytes, _core.dtype, _core.Size)
Arrived = tuple[bool, ...]  # by result with a gradient: whether one has arrived


@contextlib.contextmanager
def _collector_off() -> Iterator[None]:
    """Keep Python's collector from walking over a recording that grows, again and again."""
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _check(recording: Any) -> None:
    refused = recording.refused()
    if refused is not None:
        raise Refused(*refused)


class FirstCall:
    """A call that was recorded while it gave ``result``.

    Parameters
    ----------
    recording
        What was taken down.
    result
        What the function returned.
    tensors : list of Tensor
        The tensors among its arguments.
    made : Recorded
        What the call becomes.
    was_there : callable
        Says of a list, dict, ... whether it was there before the call.

    Attributes
    ----------
    plain : bool
        Whether the backward part can be recorded later.

    Raises
    ------
    Refused
        No program could do what the function does.
    """

    # What a node asks of a Recorded: here there is no program, and `gradients` has to say it all.
    backward = None
    partial: ClassVar[dict[Arrived, Any]] = {}
    check_backward = None

    def __init__(
        self,
        recording: Any,
        result: Any,
        tensors: list[Tensor],
        made: Recorded,
        was_there: Callable[[Any], bool],
    ) -> None:
        prepare_native()
        _check(recording)
        _refuse_known(result, was_there)
        leaves, made.spec = _tree.flatten(result)
        found = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        kinds = recording.outside(found)
        _check(recording)
        made.reached = recording.reached()
        self.results = _sort(made, leaves, dict(zip(map(id, found), kinds, strict=True)), tensors)
        made.count = len(self.results)
        made.single = made.spec.is_leaf() and made.from_outputs == [(0, 0)]
        self.made, self.tensors = made, tensors
        self.inner: list[int] = []
        self.plain = False
        self._recording, self._end = recording, recording.size()
        self._known = [*tensors, *made.reached]
        self._by: list[int] = []
        self._busy = threading.Lock()
        self._waits = False
        if _core.is_grad_enabled():
            made.differentiable = [k for k, t in enumerate(self.results) if t.requires_grad]
        if made.differentiable:
            self._look_at_graph()

    def _look_at_graph(self) -> None:
        made, outputs = self.made, self._outputs()
        self._by = differentiated(self._known)
        if not self._by or any(t.is_leaf for t in outputs):
            raise Refused("a result requires grad by itself, not because of an argument", "")
        inner, plain = self._recording.history(outputs)
        if len(outputs) > 1:  # states of loops that are scans: the ways between them are inside
            inner = sorted({*inner, *(k for k, t in enumerate(outputs) if _is_state_of_loop(t))})
        made.inner = self.inner = [made.differentiable[k] for k in inner]
        self.plain = plain and len(outputs) <= MOST_CASES

    def _outputs(self) -> list[Tensor]:
        return [self.results[k] for k in self.made.differentiable]

    # -- at once -----------------------------------------------------------------------------------

    def make_programs(self) -> None:
        """Make the programs, with a backward pass on placeholders.

        Raises
        ------
        Refused
            There can be none.
        """
        made = self.made
        backward, saved = None, _Saved()
        if made.differentiable:
            outputs = self._outputs()
            placeholders = [_core.ones_like(t) for t in outputs]  # lying as gradients mostly do
            self._recording.add_inputs(placeholders)
            cases = _arrivals(len(outputs))
            backward = self._record_cases(cases, placeholders, saved)
        self._make_forward(backward, saved)

    def _record_cases(self, cases: list[Arrived], placeholders: list[Tensor], saved: _Saved) -> Any:
        """Take down a pass for each case; the program where all gradients arrive."""
        backward = None
        for arrived in cases:
            found = self._placeholder_pass(arrived, placeholders)
            if found is None:
                saved.tensors.clear()
                return None
            program = self._backward_program(arrived, placeholders, found, saved)
            backward = program if all(arrived) else backward
        return backward

    def _placeholder_pass(self, arrived: Arrived, placeholders: list[Tensor]) -> Any:
        """The results of one backward pass, or None if the graph is gone."""
        numbers = default_generator.get_state()  # which this pass must not draw from
        token = placeholder_pass.set(True)
        try:
            return self._pass(self._recording, arrived, placeholders)
        except (Exception, Stopped) as error:
            _check(self._recording)
            if (
                self._waits
                or not isinstance(error, RuntimeError)
                or "second time" not in str(error)
            ):
                first = str(error).partition("\n")[0]
                reason = f"its backward pass raised {type(error).__name__}: {first}"
                raise Refused(reason, "") from error
            # The function has run backward itself, and freed its graph.
            self.made.no_backward = str(error)
            return None
        finally:
            placeholder_pass.reset(token)
            default_generator.set_state(numbers)

    def _pass(self, recording: Any, arrived: Arrived, grads: Sequence[Any]) -> Any:
        asked = [(t, g) for t, g, on in zip(self._outputs(), grads, arrived, strict=True) if on]
        self._start = recording.size()
        before = _core._walk_pause(False)
        try:
            recording.start(True)
            return gradients(
                [t for t, _ in asked],
                [self._known[k] for k in self._by],
                [g for _, g in asked],
                retain_graph=True,
                allow_unused=True,
            )
        finally:
            _core._walk_pause(before)
            recording.stop()

    def _backward_program(
        self, arrived: Arrived, grads: Sequence[Any], found: Sequence[Any], saved: _Saved
    ) -> Any:
        """The program of the pass that was taken down last."""
        _check(self._recording)
        wanted: list[Tensor | None] = [None] * len(self._known)
        for k, g in zip(self._by, found, strict=True):
            wanted[k] = g
        given = [g for g, on in zip(grads, arrived, strict=True) if on]
        program = self._recording.program(self._start, self._recording.size(), given, wanted)
        places = saved.add(program.held())
        program.forget_held()  # those of this call; every call has its own
        if not all(arrived):
            self.made.partial[arrived] = program, places
        return program

    def _make_forward(self, backward: Any, saved: _Saved) -> None:
        made = self.made
        outputs = [*self.results, *saved.tensors.values()]
        program = self._recording.program(0, self._end, self.tensors, outputs)
        _check(self._recording)
        if len(made.differentiable) > MOST_CASES and (program.draws() or program.changes()):
            raise Refused(
                "it draws random numbers, or changes tensors from outside, and returns more than "
                f"{MOST_CASES} tensors with a gradient: a backward pass through some of them only "
                "would have to run it again",
                "",
            )
        made.take(program, backward, self.tensors)
        self._recording = None  # and with it all that is no part of the graph

    # -- later -------------------------------------------------------------------------------------

    def wait(self, result: Any) -> Any:
        """The result of the function, as results of one node that keeps this call."""
        made = self.made
        made.first = weakref.ref(self)
        self._waits = True
        self._versions = [t._version for t in (*self._known, *self.results)]
        found = _core._as_node(self, self.results, self._known, made.differentiable)
        if made.single:
            return found[0]
        leaves, spec = _tree.flatten(result)
        for place, k in made.from_outputs:
            leaves[place] = found[k]
        return _tree.unflatten(spec, leaves)

    def looks_like(self, tensors: list[Tensor]) -> bool:
        """Whether a call with these tensors may be one for the same program."""
        return all(
            a.shape == b.shape and a.dtype == b.dtype and a.requires_grad == b.requires_grad
            for a, b in zip(tensors, self.tensors, strict=True)
        )

    def _is_intact(self) -> bool:
        """Whether nobody has changed what the call has read or given.

        A tensor that is frozen meanwhile, as a variable of a transform is at its end, has no
        gradient any more: a pass that is taken down now would lack it for good.
        """
        if self._recording is not None:
            versions = [t._version for t in (*self._known, *self.results)]
            if versions == self._versions and all(self._known[k].requires_grad for k in self._by):
                return True
            self._recording = None
        return False

    def is_open(self) -> bool:
        """Whether there still can be programs."""
        return self._recording is not None

    def finish(self) -> bool:
        """Make the programs now, with placeholders; whether there are some.

        If there can be none, for whatever reason, a later call is recorded, and tells why.
        """
        if self._is_intact() and self._busy.acquire(blocking=False):
            try:
                with contextlib.suppress(Refused), _collector_off():
                    self.make_programs()
            finally:
                self._recording = None
                self._busy.release()
        return self.made.is_ready()

    def gradients(
        self, given: list[Tensor], versions: Sequence[int], grads: Sequence[Any]
    ) -> list[Any]:
        """The gradients by way of the function's own graph, which is still there.

        Called by the node. The first pass is taken down, unless it is to be differentiated.
        """
        graph = _core.is_grad_enabled()
        if not graph and self._recording is not None and not _core._is_unusual_mode():
            if any(grads[k] is None for k in self.made.differentiable):
                self.finish()
            elif self._is_intact() and self._busy.acquire(blocking=False):
                try:
                    with _collector_off():
                        return self._first_pass(grads)
                finally:
                    self._busy.release()
        return run_backward(self.results, given, grads, True, graph)

    def _first_pass(self, grads: Sequence[Any]) -> list[Any]:
        """Run backward, take it down, and make the programs."""
        # Copies, as those that arrive may be any tensors. They lie as the next ones will, most
        # likely: sums run in the order of memory.
        outputs = zip(self._outputs(), self.made.differentiable, strict=True)
        copies = [_copy_of(grads[k], like=t) for t, k in outputs]
        recording, self._recording = self._recording, None
        recording.add_inputs(copies)
        every, *others = _arrivals(len(copies))
        found = self._pass(recording, every, copies)
        result: list[Any] = [None] * len(self._known)
        for k, g in zip(self._by, found, strict=True):
            result[k] = g
        # A pass inside many others runs in a thread of its own, where nothing is taken down.
        if all(g is None or recording.knows(g) for g in found):
            self._recording = recording
            saved = _Saved()
            with contextlib.suppress(Refused):
                backward = self._backward_program(every, copies, found, saved)
                self._record_cases(others, copies, saved)
                self._make_forward(backward, saved)
            self._recording = None
        return result


def _copy_of(grad: Tensor, like: Tensor) -> Tensor:
    """A copy that lies as a gradient does; if elements of that share memory, as the result."""
    copy = _core.ones_like(grad)
    if copy.stride() != grad.stride() or copy.dtype != like.dtype:
        copy = _core.ones_like(like)
    return copy.copy_(grad)


class _Saved:
    """Values of the forward part that backward parts read, each once."""

    def __init__(self) -> None:
        self.tensors: dict[int, Tensor] = {}

    def add(self, tensors: list[Tensor]) -> list[int]:
        """Their places among all."""
        for t in tensors:
            self.tensors.setdefault(id(t), t)
        order = {key: place for place, key in enumerate(self.tensors)}
        return [order[id(t)] for t in tensors]


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
        elif own := _core._dict_of(leaf):
            raise Refused(f"a result has an attribute of its own, `{next(iter(own))}`", "")
        else:
            k, _ = results.setdefault(id(leaf), (len(results), leaf))
            made.from_outputs.append((place, k))
    return [t for _, t in results.values()]


def _arrivals(count: int) -> list[tuple[bool, ...]]:
    """Which gradients may arrive in a backward pass: all of them, and then the other cases.

    Where there are many cases they are left to `Recorded.gradients`, which runs the function again.
    """
    if count <= MOST_CASES:
        return [*itertools.product((True, False), repeat=count)][:-1]
    return [(True,) * count]


def _is_state_of_loop(t: Tensor) -> bool:
    return _core._unrecorded(lambda: getattr(t.grad_fn, "_state_of_loop", None)) is not None
