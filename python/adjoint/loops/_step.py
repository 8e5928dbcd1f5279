"""One step of a loop, recorded: the program that runs it, and programs that run it backward.

A step takes the carry and a row of the inputs, and gives the next carry and a row of the outputs.
It is recorded once, as `compile` records a call; here the programs run many times, and gradients
come and go: a carry that the result does not depend on has none. For each choice of those that are
there a backward program is taken down, when it is first met, from the graph of the recorded call.
Once a tensor that it has read was changed in place (an optimiser's step), that graph is of no use
any more: the step is retired, and a new recording takes down what the old one was asked for.

Note [Sums in the order of the plain loop]: what a loop reads from outside gets a gradient from each
step. Added up in another order it would differ in the last bits, so the sum so far goes into the
backward program of a step as the gradient that has arrived there already, before anything of the
step is added. The same holds for an output that is also carried on, and for what has arrived from
elsewhere: the sums that the engine has so far for the first carry and for what is reached are taken
over (`_core._take_sum`), and handed back with the steps added.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._recording import placeholder_pass
from adjoint.autograd import grad as gradients
from adjoint.autograd.graph import get_gradient_edge
from adjoint.compiler._compile import CompileWarning, level_of_user
from adjoint.compiler._first_call import FirstCall, _Saved
from adjoint.compiler._recorded import Recorded, Refused, differentiated
from adjoint.compiler._walk import Walk

from ._drawn_numbers import DrawnNumbers
from ._step_forms import Backward, Flags, StepForms

__all__ = ["Step", "record", "record_inside", "tell"]


class Step(FirstCall, StepForms):
    """A recorded step.

    Attributes
    ----------
    forward
        The program.
    form
        Where the next carry and the outputs come from, output k of the program or ~k for its
        input k; how many of its outputs are results; which of `ys` ends the loop, or -1.
    kept
        How many values of a step its backward programs read.
    held
        What the program reads besides its arguments: places in `reached`.
    """

    forward: Any
    form: tuple[list[int], list[int], int, int]

    def prepare(self, carries: int, rows: int) -> None:
        """Make the forward program, and the backward program where all gradients are there.

        Parameters
        ----------
        carries, rows
            How many tensors are carried, and taken from the inputs.
        """
        made = self.made
        self.carries, self.rows = carries, rows
        self._saved = _Saved()
        self._programs: dict[tuple[Flags, Flags], Backward] = {}
        self._depends: dict[int, frozenset[int]] = {}
        self._flags: dict[Flags, list[bool]] = {}
        self._forms: dict[Any, Backward] = {}
        self._by = self.by = differentiated(self._known) if _core.is_grad_enabled() else []
        # Where they are in the graph now: one may be changed in place later, and be elsewhere then.
        self._edges = [get_gradient_edge(self._known[k]) for k in self._by]
        self.differentiable = made.differentiable
        if self._by:
            self._placeholders = [_core.ones_like(t) for t in self._outputs()]
            self._sums = [_core.ones_like(self._known[k]) for k in self._by]
            self._recording.add_inputs([*self._placeholders, *self._sums])
            every = (True,) * len(self._placeholders)
            reached = tuple(k >= carries + rows for k in self._by)
            self._saved.add(self._known)  # from which all else can be computed
            if any((*every, *reached)):
                self._program_for(every, reached)
        outputs = [*self.results, *self._saved.tensors.values()]
        self.forward = self._recording.program(0, self._end, self.tensors, outputs, True)
        refused = self._recording.refused()
        if refused is not None:
            raise Refused(*refused)
        if self.forward.changes():
            raise Refused("it changes tensors that are not its own", "")
        if self.forward.reads_gradients():
            raise Refused("it looks at the gradients of leaves", "")
        self.kept = len(self._saved.tensors)
        self.held = self._places_of(self.forward.held())
        self._find_sources()
        made.take(self.forward, None, self.tensors)
        self._versions = self._current_versions()
        self._asked: set[tuple[Flags, Flags]] = set()  # that could not be taken down

    def _places_of(self, held: list[Tensor]) -> list[int]:
        places = {id(t): k for k, t in enumerate(self.made.reached)}
        if any(id(t) not in places for t in held):
            raise Refused("its backward pass reads a tensor that the step does not read", "")
        return [places[id(t)] for t in held]

    def _find_sources(self) -> None:
        made, given = self.made, len(self.tensors)
        held = {id(t): given + k for k, t in enumerate(self.forward.held())}
        sources: dict[int, int] = dict(made.from_outputs)
        inputs = dict(sources)  # the same, by input of the program
        for place, k in made.from_inputs:
            at = k if k < given else held.get(id(made.reached[k - given]))
            if at is None:
                raise Refused("it returns a tensor from outside that it does not use", "")
            sources[place], inputs[place] = ~k, ~at
        self.leaves = len(made.values)
        order = sorted(sources)
        self.places = order  # of the tensors among all leaves of the result
        self.sources = [sources[place] for place in order]
        found = [inputs[place] for place in order]
        self.form = (found[: self.carries], found[self.carries :], made.count, -1)

    def ends_by_output(self) -> None:
        """Let the one output end the loop, where it is false."""
        self.form = (*self.form[:3], 0)

    def _inputs(self) -> int:
        return len(self._known)

    def rooms(self, count: int) -> list[tuple[tuple[int, ...], Any]]:
        """Shape and dtype of each output, for so many rows."""
        there = [*self.tensors, *self.reached]
        like = [self.results[k] if k >= 0 else there[~k] for k in self.sources[self.carries :]]
        return [((count, *t.shape), t.dtype) for t in like]

    def _current_versions(self) -> list[int]:
        return [t._version for t in (*self._known, *self.results)]

    def is_retired(self) -> bool:
        """Whether it was asked for a backward program that it cannot give any more."""
        return bool(self._asked)

    def expect(self, other: Step) -> None:
        """Take down what another recording of the same function was asked for."""
        for outputs, sums in (*other._programs, *other._asked):
            if len(outputs) == len(self.made.differentiable) and len(sums) == len(self._by):
                self._program_for(outputs, sums)

    def serves(self, tensors: list[Tensor]) -> bool:
        """Whether a call with these tensors would do the same."""
        made = self.made
        return not self.is_retired() and made.accepts(tensors) and made.hold(tensors)

    def has_history(self, stand_ins: list[Tensor]) -> bool:
        """Whether it keeps a graph from before the call, besides that of stand-ins."""
        own = set(map(id, stand_ins))
        return any(t.grad_fn is not None and id(t) not in own for t in self._known)

    @property
    def reached(self) -> list[Tensor]:
        """What it reads from outside, besides its arguments."""
        return self.made.reached

    def have_gradients(self, needs: Sequence[bool]) -> list[bool]:
        """By carry and output: whether it depends on an input that needs a gradient.

        In the loop as Python a carry that is computed from nothing but itself (a clock) needs none
        either, although a stand-in for it had one while the step was recorded.

        Parameters
        ----------
        needs
            By carry, row and what is reached.
        """
        key = tuple(needs)
        found = self._flags.get(key)
        if found is None:
            found = self._flags[key] = self._find_flags(key)
        return found

    def _find_flags(self, needs: Flags) -> list[bool]:
        depends = [self._dependences(k) for k in self.sources]
        on = list(needs)
        changed = True
        while changed:
            after = [
                was or any(on[k] for k in depends[j]) for j, was in enumerate(on[: self.carries])
            ]
            changed = after != on[: self.carries]
            on[: self.carries] = after
        return [any(on[k] for k in some) for some in depends]

    def _dependences(self, source: int) -> frozenset[int]:
        """The inputs that a result, named as in `sources`, has a gradient by."""
        if source < 0:
            return frozenset([~source]) if ~source in self._by else frozenset()
        if source not in self.made.differentiable:
            return frozenset()
        found = self._depends.get(source)
        if found is None:
            found = self._depends[source] = _core._unrecorded(lambda: self._walk_from(source))
        return found

    def given_by(self, sources: Sequence[int]) -> frozenset[int]:
        """The inputs that get a gradient where one arrives at these, whatever the values are.

        Parameters
        ----------
        sources
            As in `Arrivals`.
        """
        return frozenset[int]().union(*(self._dependences(k) for k in sources))

    def _walk_from(self, source: int) -> frozenset[int]:
        ends: dict[Any, set[int]] = {}
        for k, edge in zip(self._by, self._edges, strict=True):
            ends.setdefault(edge.node, set()).add(k)
        return _ends_of(self.results[source], ends)

    # -- backward ----------------------------------------------------------------------------------

    def _program_for(self, outputs: Flags, sums: Flags) -> Backward:
        """The backward program for gradients of these outputs, with sums for these inputs."""
        found = self._programs.get((outputs, sums))
        if found is None:
            with self._as_it_was():
                if hasattr(self, "_asked") and self._current_versions() != self._versions:
                    self._asked.add((outputs, sums))
                    raise Refused("a tensor that it read was changed since it was recorded", "")
                found = self._programs[outputs, sums] = self._take_down(outputs, sums)
        return found

    def may_get_copies(self, changed: list[Tensor]) -> bool:
        """Whether a step that changes tensors in place does the same with copies of them.

        It does not ask which they are, and reads nothing else that shares their memory.
        """
        if not changed:
            return True
        memory = {t.untyped_storage().data_ptr() for t in self.reached if t.numel()}
        apart = memory.isdisjoint(t.untyped_storage().data_ptr() for t in changed)
        return apart and not self._recording.asks_for_own()

    def keep(self, tensors: list[Tensor]) -> None:
        """Keep the values of some that it reads, which may be changed in place later.

        So backward programs can be taken down then, too.
        """
        self._kept_tensors = tensors
        self._kept_state = _core._keep_state(tensors) if tensors else None

    @contextmanager
    def _as_it_was(self) -> Iterator[None]:
        """For the length of a ``with`` block, what was kept has its values and versions again."""
        before = getattr(self, "_kept_state", None)
        if before is None or self._current_versions() == self._versions:
            yield
            return
        now = _core._keep_state(self._kept_tensors)
        try:
            _core._put_back(before)
            yield
        except RuntimeError as error:  # its memory has another size now
            raise Refused(str(error), "") from None
        finally:
            _core._put_back(now)

    def programs_in_use(self) -> dict[tuple[Flags, Flags], Backward]:
        """The backward programs that loops have asked for."""
        found = {}
        for key, form in self.used():
            if form.program is not None:
                arrivals = self.arrivals(*key)
                which = arrivals.outputs, arrivals.inputs
                found[which] = self._programs[which]
        return found

    def _take_down(self, outputs: Flags, sums: Flags) -> Backward:
        recording = self._recording
        pairs = [
            *zip(self._outputs(), self._placeholders, outputs, strict=True),
            *zip(self._edges, self._sums, sums, strict=True),
        ]
        asked = [(t, g) for t, g, there in pairs if there]
        token = placeholder_pass.set(True)
        start = recording.size()
        before = _core._walk_pause(False)
        numbers = DrawnNumbers()  # this pass must not draw
        try:
            recording.start(True)
            with numbers:
                found = gradients(
                    [t for t, _ in asked],
                    self._edges,
                    [g for _, g in asked],
                    retain_graph=True,
                    allow_unused=True,
                )
        except RuntimeError as error:
            first = str(error).partition("\n")[0]
            raise Refused(f"its backward pass raised {type(error).__name__}: {first}", "") from None
        finally:
            _core._walk_pause(before)
            recording.stop()
            placeholder_pass.reset(token)
            numbers.put_back()
        refused = recording.refused()
        if refused is not None:
            raise Refused(*refused)
        wanted: list[Tensor | None] = [None] * len(self._known)
        for k, g in zip(self._by, found, strict=True):
            wanted[k] = g
        if any(g is not None and not recording.knows(g) for g in found):
            # As of samples that it read from outside, which are batched anew on their way.
            raise Refused("its backward pass gives a tensor that no operation of it has made", "")
        given = [g for _, g in asked]
        there = [*self._known, *self._saved.tensors.values()]  # the least that more can be made of
        program = recording.program(start, recording.size(), given, wanted, False, there)
        held, gives = program.held(), [g is not None for g in wanted]
        program.forget_held()
        if hasattr(self, "forward") and any(id(t) not in self._saved.tensors for t in held):
            values = recording.program(0, self._end, self.tensors, held, True)
            if values.draws():
                raise Refused("its backward pass reads numbers that would be drawn once more", "")
            places = self._places_of(values.held())
            return Backward(program, [], list(range(len(held))), gives, values, places)
        return Backward(program, [], self._saved.add(held), gives)


def _ends_of(t: Tensor, ends: Mapping[Any, set[int]]) -> frozenset[int]:
    """Of which of these nodes, which have numbers, a tensor was computed."""
    nodes, seen, found = [t.grad_fn], {t.grad_fn}, set[int]()
    while nodes:
        node: Any = nodes.pop()
        if node in ends:
            found |= ends[node]
            continue
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                nodes.append(following)
    return frozenset(found)


def tell(loop: str, refused: Refused) -> None:
    """Say, at the user's line, why a loop runs as Python."""
    where = f"\n  at  {refused.where}" if refused.where else ""
    message = f"{loop} runs as Python: {refused.reason}{where}"
    warnings.warn(message, CompileWarning, stacklevel=level_of_user())


def record(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    tensors: list[Tensor],
    carries: int,
    finish: Callable[[Any], Any],
    users: Callable[..., Any] | None = None,
) -> tuple[Any, Step | Refused]:
    """Call a step, and take down what it does.

    Parameters
    ----------
    function, arguments
        The step, and what it is called with.
    tensors
        The tensors in the arguments: the carry, then rows of inputs.
    carries
        How many of them are carried.
    finish
        Makes a flat list of tensors of what it returned, the next carry first.
    users
        The user's function that it calls, where it is not that itself.

    Returns
    -------
    result
        That list.
    step
        The recorded step, or why it cannot be recorded.
    """
    recording = _core._Recording(tensors)
    with Walk(users or function, (tuple(arguments), {})) as walk:
        try:
            recording.start()
            result = finish(function(*arguments))
        finally:
            recording.stop()
            _core._walk_pause(True)
        walk.settle()
        try:
            if walk.refusals and recording.refused() is None:
                raise Refused(*walk.refusals[0])
            step = Step(recording, result, tensors, Recorded(lambda given: None), walk.knows)
            step.prepare(carries, len(tensors) - carries)
        except Refused as refused:
            return result, refused
    if walk.refusals:
        return result, Refused(*walk.refusals[0])
    step.made.guard_by(walk.guards(), tensors, [])
    return result, step


def record_inside(
    function: Callable[..., Any],
    arguments: Sequence[Any],
    tensors: list[Tensor],
    carries: int,
    finish: Callable[[Any], Any],
    may_draw: bool = False,
) -> tuple[Any, Step | Refused]:
    """The same inside a recording, which takes nothing down meanwhile.

    What the step depends on is noted by the walk of that recording. It may draw random numbers, of
    the default generator, where the caller says so.
    """
    recording = _core._Recording(tensors)
    try:
        recording.start()
        result = finish(function(*arguments))
    finally:
        recording.stop()
    try:
        step = Step(recording, result, tensors, Recorded(lambda given: None), lambda thing: False)
        step.prepare(carries, len(tensors) - carries)
    except Refused as refused:
        return result, refused
    if step.forward.draws() and (not may_draw or step.forward.generators()):
        return result, Refused("it draws random numbers", "")
    if step.forward.is_pinned():
        return result, Refused("it asks which tensor it was given", "")
    return result, step
