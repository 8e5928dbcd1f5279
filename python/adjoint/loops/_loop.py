"""A loop of a recorded step as one node of the graph: what runs forward, and what backward.

The node is a custom function. Forward, all steps run natively; what their backward programs read is
kept for all of them, or only states are (`_memory`), and the steps between are run again when their
turn comes (`_schedule`). Derivatives of derivatives go by way of the plain loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd import Function, enable_grad
from adjoint.autograd import grad as gradients
from adjoint.compiler._recorded import Refused

from ._memory import Memory
from ._schedule import first_sweep, split
from ._states import State, States, states_in
from ._step import Backward, Step, tell

__all__ = ["LoopRun"]


_ENDLESS = 2**62


class LoopRun:
    """The steps of a loop, in both directions.

    Parameters
    ----------
    step
        What is run.
    carries, count
        How many tensors are carried, and how many steps there are: None where the step tells
        when the loop ends.
    reverse
        Whether the last row comes first.
    memory
        What is kept for the backward pass.
    again
        The loop as Python: ``again(tensors, carries, rows)``.
    """

    def __init__(
        self,
        step: Step,
        carries: int,
        count: int | None,
        reverse: bool,
        memory: Memory,
        again: Callable[[list[Tensor], int, int], list[Tensor]],
    ) -> None:
        self.step, self.memory, self.again = step, memory, again
        self.has_length = count is not None
        self.count = count or 0
        self.carries = carries
        self._reverse = reverse
        self.steps_again = 0  # that were run once more, besides those that were differentiated
        draws = step.forward.draws()
        self._generators = [_core.default_generator, *step.forward.generators()] if draws else []

    def __call__(self, carry: list[Tensor], xs: list[Tensor]) -> list[Tensor]:
        """The carry after all steps, and the stacked outputs."""
        tensors = [*carry, *xs, *self.step.reached]
        needs = _core.is_grad_enabled() and any(t.requires_grad for t in tensors)
        found: tuple[Tensor, ...] = Loop.apply(self, needs, *tensors)
        return list(found)

    # -- forward -----------------------------------------------------------------------------------

    def _rows(self, first: int, last: int) -> tuple[int, int]:
        """The rows of steps, from the first to the last, as the native loops count them."""
        return (self.count - first, self.count - last) if self._reverse else (first, last)

    def advance(
        self,
        carry: list[Tensor],
        xs: list[Tensor],
        ys: Sequence[Tensor | None],
        first: int,
        last: int,
        tape: Any = None,
    ) -> list[Tensor]:
        """The carry after the steps from the first to before the last."""
        rows = self._rows(first, last)
        found: list[Tensor]
        found, _, _ = _core._loop_forward(
            self.step.forward, self.step.form, carry, xs, ys, rows, tape
        )
        return found

    def until(
        self, carry: list[Tensor], ys: list[Tensor | None], first: int, last: int, tape: Any = None
    ) -> tuple[list[Tensor], int, bool]:
        """The carry where the condition fails or after the last step, how many ran, which it is."""
        found: tuple[list[Tensor], int, bool] = _core._loop_forward(
            self.step.forward, self.step.form, carry, [], ys, (first, last), tape
        )
        return found

    def state(self, carry: list[Tensor]) -> State:
        """What a later run of the next steps needs."""
        return State(carry, [g.get_state() for g in self._generators])

    def go_back_to(self, state: State) -> list[Tensor]:
        """The carry of a state, with the random numbers of that time."""
        for generator, numbers in zip(self._generators, state.numbers, strict=True):
            generator.set_state(numbers)
        return state.carry

    def sizes(self, carry: list[Tensor], xs: list[Tensor]) -> tuple[int, int]:
        """Bytes of a state, and of what a step saves."""
        tape = _core._Tape()
        now = self.state(carry)
        no_ys: list[Tensor | None] = [None] * len(self.step.form[1])
        self.advance(carry, xs, no_ys, 0, 1, tape)
        self.go_back_to(now)
        state = sum(t.nbytes for t in carry) + sum(n.nbytes for n in now.numbers)
        return state, state + tape.bytes([*carry, *xs, *self.step.reached])

    # -- backward ----------------------------------------------------------------------------------

    def back(self, g: Gradients, tape: Any, first: int, last: int) -> None:
        """Run the steps from the last to the first backward, whose values are on the tape."""
        at, each = last, self.step.kept
        while at > first:
            is_last, has_earlier = at == self.count, at > 1
            low = at - 1 if is_last else 1 if first == 0 and has_earlier else first
            form = self.step.backward_for(*g.there(), is_last, has_earlier)
            if form.program is None:
                g.carry[:] = [None] * len(g.carry)
                at = low
                continue
            g.note(form.gives)
            values = tape, (low - first) * each, each
            if form.values is not None:
                low = at - 1
                values = self._values(form, tape, (low - first) * each)
            done = _core._loop_backward(
                form.program,
                form.arriving,
                form.kept,
                values,
                g.carry,
                g.reached,
                g.ys,
                g.xs,
                self._rows(low, at),
            )
            at -= done

    def _values(self, form: Backward, tape: Any, place: int) -> tuple[Any, int, int]:
        """A tape with what one step backward reads, computed from the arguments of the step."""
        given = tape.arguments(self.step.forward, place)
        fresh = _core._Tape()
        fresh.extend(form.values.run(given))
        return fresh, 0, len(fresh)


class Gradients:
    """The gradients of a loop, on their way from the last step to the first."""

    def __init__(
        self, carry: list[Any], ys: list[Any], xs: list[Tensor | None], reached: int
    ) -> None:
        self.carry, self.ys, self.xs = carry, ys, xs
        self.reached: list[Tensor | None] = [None] * reached
        self._written = [False] * len(xs)

    def note(self, gives: list[bool]) -> None:
        """Know which inputs get a gradient from some step."""
        first = len(self.carry)
        for k in range(len(self.xs)):
            self._written[k] |= gives[first + k]

    def found(self) -> list[Tensor | None]:
        """The gradients of the first carry, of the inputs and of what was read from outside."""
        xs = [x if on else None for x, on in zip(self.xs, self._written, strict=True)]
        return [*self.carry, *xs, *self.reached]

    def there(self) -> tuple[tuple[bool, ...], tuple[bool, ...], tuple[bool, ...]]:
        """Which of them are there."""
        carry, reached, ys = (
            tuple(t is not None for t in ts) for ts in (self.carry, self.reached, self.ys)
        )
        return carry, reached, ys


class Kept:
    """What the forward run of a loop has left for the backward one."""

    def __init__(self, loop: LoopRun) -> None:
        self.loop = loop
        self.memory = loop.memory
        self.tape: Any = None
        self._first: State | None = None  # which the node keeps in any case
        self._states: States | None = None  # the others, until a backward pass has used them
        self._last: Any = None  # the tape of the last block, until then

    def forward(self, carry: list[Tensor], xs: list[Tensor], ys: list[Any]) -> list[Tensor]:
        """Run all steps, and keep what the memory allows."""
        loop = self.loop
        if self.memory.budget is not None:
            self.memory = self.memory.for_step(loop.count, *loop.sizes(carry, xs))
        if self.memory.keeps_all():
            self.tape = _core._Tape()
            return loop.advance(carry, xs, ys, 0, loop.count, self.tape)
        self._begin(carry)
        return self._sweep(carry, xs, ys)

    def _begin(self, carry: list[Tensor]) -> None:
        self._first = self.loop.state(carry)
        self._states = states_in(self.memory.folder)

    def forward_until(self, carry: list[Tensor]) -> list[Tensor]:
        """Run steps until the condition fails, and keep what the memory allows."""
        loop = self.loop
        no_ys: list[Tensor | None] = [None] * len(loop.step.form[1])
        if self.memory.budget is not None:
            self.memory = self.memory.for_step(_ENDLESS, *loop.sizes(carry, []))
        if self.memory.keeps_all():
            self.tape = _core._Tape()
            found, loop.count, _ = loop.until(carry, no_ys, 0, _ENDLESS, self.tape)
            return found
        self._begin(carry)
        return self._sweep_until(carry, no_ys)

    def _sweep_until(self, carry: list[Tensor], ys: list[Tensor | None]) -> list[Tensor]:
        """Keep a state every so many steps, twice as many whenever there is no more room.

        Of a loop whose length is not known these are spread evenly at any time; where memory goes
        with the root of the length, there are as many of them as steps between two.
        """
        loop, states, block = self.loop, self._states, self.memory.block
        assert states is not None
        spacing, at, done, ended = 1, 0, 0, False
        while not ended:
            room = (self.memory.states or max(spacing, 2)) - 1
            if at and len(states.places()) >= room:
                spacing *= 2
                for place in states.places():
                    if place % spacing:
                        states.drop(place)
            if at and at % spacing == 0 and len(states.places()) < room:
                states.put(at, loop.state(carry))
            following = at + spacing - at % spacing
            carry, more, ended = loop.until(carry, ys, done, following * block)
            at, done = following, done + more
        loop.count = done
        if not self.memory.states:
            states.rename(spacing)
            room = len(states.places()) + 1
            self.memory = Memory(spacing * block, room, None, self.memory.folder)
        return carry

    def _sweep(self, carry: list[Tensor], xs: list[Tensor], ys: list[Any]) -> list[Tensor]:
        assert self._states is not None and self.memory.states is not None
        places = first_sweep(self._blocks(), self.memory.states)
        last = self._blocks() - 1
        for place, following in zip(places, [*places[1:], last], strict=True):
            if place:
                self._states.put(place, self.loop.state(carry))
            carry = self.loop.advance(carry, xs, ys, self._start(place), self._start(following))
        # The backward pass begins there: nothing of that block has to be run again.
        self._last = _core._Tape()
        return self.loop.advance(carry, xs, ys, self._start(last), self.loop.count, self._last)

    def _blocks(self) -> int:
        return -(-self.loop.count // self.memory.block)

    def _start(self, block: int) -> int:
        return min(block * self.memory.block, self.loop.count)

    def backward(self, g: Gradients, xs: list[Tensor]) -> None:
        """Run all steps backward."""
        loop = self.loop
        if self.tape is not None:
            loop.back(g, self.tape, 0, loop.count)
            return
        now = loop.state([])
        nothing: list[Tensor | None] = [None] * len(loop.step.form[1])
        # A second pass starts with the first state alone.
        states, self._states = self._states or states_in(self.memory.folder), None
        last, self._last = self._last, None
        try:
            end = self._blocks()
            if last is not None:
                end -= 1
                loop.back(g, last, self._start(end), loop.count)
                del last
            for carry, block in self._blocks_backward(end, states, xs, nothing):
                first, to = self._start(block), self._start(block + 1)
                tape = _core._Tape()
                loop.advance(carry, xs, nothing, first, to, tape)
                loop.back(g, tape, first, to)
        finally:
            states.close()
            loop.go_back_to(now)

    def _blocks_backward(
        self, end: int, states: States, xs: list[Tensor], nothing: list[Tensor | None]
    ) -> Iterator[tuple[list[Tensor], int]]:
        """The carries at the starts of the blocks before `end`, the last one first."""
        room = self.memory.states
        assert self._first is not None and room is not None
        stack = [0, *states.places()]
        while stack:
            place = stack[-1]
            if place >= end:
                stack.pop()
                if place:
                    states.drop(place)
                continue
            state = states.get(place) if place else self._first
            free = room - len(stack)  # states that may still be kept
            if end - place > 1 and free > 0:  # keep one more on the way
                following = place + split(end - place, free + 1)
                carry = self._run_again(state, xs, nothing, place, following)
                states.put(following, self.loop.state(carry))
                stack.append(following)
                continue
            end -= 1
            yield self._run_again(state, xs, nothing, place, end), end

    def _run_again(
        self, state: State, xs: list[Tensor], nothing: list[Tensor | None], place: int, to: int
    ) -> list[Tensor]:
        carry = self.loop.go_back_to(state)
        first, last = self._start(place), self._start(to)
        if first == last:
            return carry
        self.loop.steps_again += last - first
        return self.loop.advance(carry, xs, nothing, first, last)


class Loop(Function):
    """A loop in the graph."""

    @staticmethod
    def forward(ctx: Any, loop: LoopRun, needs: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        carries, reached = loop.carries, len(loop.step.reached)
        carry = list(tensors[:carries])
        xs = list(tensors[carries : len(tensors) - reached])
        rows = loop.step.form[1] if loop.has_length else []
        ys = [_stack_for(loop, k) for k in rows]
        kept = Kept(loop) if needs else None
        ctx.start = loop.state([])
        if kept is not None:
            found = kept.forward(carry, xs, ys) if loop.has_length else kept.forward_until(carry)
        elif loop.has_length:
            found = loop.advance(carry, xs, ys, 0, loop.count)
        else:
            found, _, _ = loop.until(carry, [None], 0, _ENDLESS)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.loop, ctx.kept = loop, kept
        results = [*(t.detach() for t in found), *ys]
        ctx.mark_non_differentiable(
            *(
                t
                for t, k in zip(results, [*loop.step.form[0], *rows], strict=True)
                if not loop.step.output_is_differentiable(k)
            )
        )
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        tensors = list(ctx.saved_tensors)
        loop, carries = ctx.loop, ctx.loop.carries
        reached = len(loop.step.reached)
        rows = len(tensors) - reached - carries
        needs = ctx.needs_input_grad[2:]
        if _core.is_grad_enabled() or _core._is_unusual_mode():
            return (None, None, *_by_plain_loop(loop, ctx.start, tensors, rows, grads, needs))
        xs = tensors[carries : carries + rows]
        x_grads = [_core.zeros_like(x) if needs[carries + k] else None for k, x in enumerate(xs)]
        ys = [None if t is None else t.contiguous() for t in grads[carries:]]
        if not loop.has_length:
            ys = [None]  # the condition has none
        g = Gradients(list(grads[:carries]), ys, x_grads, reached)
        try:
            ctx.kept.backward(g, xs)
        except Refused as refused:  # the recording is too old for these gradients: see _step.py
            tell("the backward pass of a loop", refused)
            return (None, None, *_by_plain_loop(loop, ctx.start, tensors, rows, grads, needs))
        found = (t if on else None for t, on in zip(g.found(), needs, strict=True))
        return (None, None, *found)


def _stack_for(loop: LoopRun, source: int) -> Tensor:
    """Room for all rows of an output."""
    step = loop.step
    like = step.results[source] if source >= 0 else [*step.tensors, *step.reached][~source]
    return _core.empty((loop.count, *like.shape), dtype=like.dtype)


def _by_plain_loop(
    loop: LoopRun,
    start: State,
    tensors: list[Tensor],
    rows: int,
    grads: tuple[Any, ...],
    needs: tuple[bool, ...],
) -> list[Any]:
    """Gradients with a graph of their own."""
    made, graph = loop.step.made, _core.is_grad_enabled()
    if not made.hold(loop.step.tensors):
        raise RuntimeError(
            "the gradient of a loop is taken in a way that runs its step as Python again "
            "(create_graph, a transform, gradients of other results than before), and what the "
            f"step depends on has changed since: {made.guards.failed()}.\n"
            "  fix: change it after the backward pass, or pass it as a part of the carry"
        )
    now = loop.state([])
    loop.go_back_to(start)  # to the random numbers of the call
    try:
        with enable_grad():
            results = loop.again(tensors, loop.carries, rows)
    finally:
        loop.go_back_to(now)
    asked = [(t, g) for t, g in zip(results, grads, strict=True) if g is not None]
    wanted = [k for k, on in enumerate(needs) if on]
    found = gradients(
        [t for t, _ in asked],
        [tensors[k] for k in wanted],
        [g for _, g in asked],
        create_graph=graph,
        allow_unused=True,
    )
    result: list[Any] = [None] * len(tensors)
    for k, g in zip(wanted, found, strict=True):
        result[k] = g
    return result
