"""The steps of a loop, forward and backward, and the gradients on their way.

Which steps run, and when, is decided by `_kept`. Read _step.py first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._surroundings import Surroundings
from adjoint._transforming import Transform

from ._memory import Memory
from ._progress import LoopBar
from ._states import State
from ._step import Step
from ._step_forms import Backward

__all__ = ["ENDLESS", "Gradients", "LoopRun"]

ENDLESS = 2**62


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
    one, scan
        The step as Python, ``one(carry, row)``, and `scan` with a memory: where the backward pass
        can be a loop that is differentiated again.
    before
        How many steps of the user's loop have run apart, before these.
    """

    def __init__(
        self,
        step: Step,
        carries: int,
        count: int | None,
        reverse: bool,
        memory: Memory,
        again: Callable[[list[Tensor], int, int], list[Tensor]],
        one: Callable[[list[Tensor], list[Tensor]], list[Tensor]] | None = None,
        scan: Callable[..., tuple[Any, Any]] | None = None,
        before: int = 0,
    ) -> None:
        self.step, self.memory, self.again, self.one = step, memory, again, one
        self._scan = scan
        self.has_length = count is not None
        self.count = count or 0
        self.carries = carries
        self.reverse = reverse
        self.before = before
        self.steps_again = 0  # that were run once more, besides those that were differentiated
        draws = step.forward.draws()
        self._generators = [_core.default_generator, *step.forward.generators()] if draws else []
        self._reached: list[Tensor] = step.reached
        self._rooms: list[tuple[tuple[int, ...], Any]] | None = None
        # Of what was made in the call: the plain loop keeps less of it, and what it does not keep
        # may be changed in place before the backward pass.
        self.keeps_copies = False
        self.bar: LoopBar | None = None
        self.transform: Transform | None = None  # in which it ran
        self._surroundings = Surroundings()

    def scan(self, step: Any, init: Any, xs: Any, count: int, reverse: bool) -> tuple[Any, Any]:
        """Another loop, that keeps as much."""
        assert self._scan is not None
        return self._scan(step, init, xs, count, reverse, self.memory.inside())

    @property
    def draws(self) -> bool:
        """Whether the steps draw random numbers."""
        return bool(self._generators)

    def can_be_scanned(self) -> bool:
        """Whether the backward pass can be a loop that is differentiated again."""
        return self.one is not None and self._scan is not None and not self._generators

    @contextmanager
    def step_again(self) -> Iterator[None]:
        """For the length of a ``with`` block, the step can be called as Python once more."""
        made = self.step.made
        with self._surroundings.again():
            if not made.hold(self.step.tensors):
                raise RuntimeError(
                    "the gradient of a loop is taken in a way that runs its step as Python again "
                    "(create_graph, a transform, gradients of other results than before), and what "
                    f"the step depends on has changed since: {made.guards.failed()}.\n"
                    "  fix: change it after the backward pass, or pass it as a part of the carry"
                )
            yield

    def on(self, reached: list[Tensor]) -> LoopRun:
        """The same loop, with these tensors in place of those that the recorded step reached."""
        other = object.__new__(LoopRun)  # which copy.copy takes five times as long for
        other.__dict__.update(self.__dict__)
        other._reached = reached
        return other

    @property
    def reached(self) -> list[Tensor]:
        """What the steps read from outside."""
        return self._reached

    def split(self, tensors: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """The carry, the inputs and what is reached, of all tensors of a loop."""
        end = len(tensors) - len(self.step.reached)
        return list(tensors[: self.carries]), list(tensors[self.carries : end]), list(tensors[end:])

    def stacks(self) -> list[Tensor]:
        """Room for all rows of each output."""
        if self._rooms is None:
            self._rooms = self.step.rooms(self.count) if self.has_length else []
        return [_core.empty(shape, dtype=dtype) for shape, dtype in self._rooms]

    # -- forward -----------------------------------------------------------------------------------

    def _rows(self, first: int, last: int) -> tuple[int, int, int]:
        """The rows of steps, from the first to the last, as the native loops count them.

        The third number is that of the first of them in the user's loop, for errors.
        """
        number = self.before + first
        ends = (self.count - first, self.count - last) if self.reverse else (first, last)
        return *ends, number

    def rows_between(self, stack: Tensor, first: int, last: int) -> Tensor:
        """The rows of the steps from the first to before the last."""
        return stack.narrow(0, self.count - last if self.reverse else first, last - first)

    def _held(self) -> list[Tensor]:
        return [self._reached[k] for k in self.step.held]

    def advance(
        self,
        carry: list[Tensor],
        xs: list[Tensor],
        ys: Sequence[Tensor | None],
        first: int,
        last: int,
        tape: Any = None,
        again: bool = False,
    ) -> list[Tensor]:
        """The carry after the steps from the first to before the last; maybe run `again`."""
        held = self._held()
        while first < last:
            start = time.monotonic()
            following = last if self.bar is None else min(first + self.bar.piece(), last)
            rows = self._rows(first, following)
            carry, _, _ = _core._loop_forward(
                self.step.forward, self.step.form, carry, xs, ys, rows, tape, held
            )
            if self.bar is not None:
                self.bar.ran(following - first, start, not again)
            first = following
        return carry

    def until(
        self, carry: list[Tensor], ys: list[Tensor | None], first: int, last: int, tape: Any = None
    ) -> tuple[list[Tensor], int, bool]:
        """The carry where the condition fails or after the last step, how many ran, which it is."""
        found: tuple[list[Tensor], int, bool] = _core._loop_forward(
            self.step.forward,
            self.step.form,
            carry,
            [],
            ys,
            (first, last, self.before + first),
            tape,
            self._held(),
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
        return state, state + tape.bytes([*carry, *xs, *self._reached])

    # -- backward ----------------------------------------------------------------------------------

    def back(self, g: Gradients, tape: Any, first: int, last: int) -> None:
        """Run the steps from the last to the first backward, whose values are on the tape."""
        at, each = last, self.step.kept
        while at > first:
            is_last, has_earlier = at == self.count, at > 1
            low = at - 1 if is_last else 1 if first == 0 and has_earlier else first
            first_sums = () if has_earlier else g.first_there()
            form = self.step.backward_for(*g.there(), is_last, has_earlier, first_sums)
            if form.program is None:
                g.carry[:] = [None] * len(g.carry)
                at = low
                continue
            start = time.monotonic()
            if self.bar is not None:
                low = max(low, at - self.bar.piece())
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
                g.ys if has_earlier else g.ys_and_first(self.count),
                g.xs,
                self._rows(low, at),
            )
            at -= done
            if self.bar is not None:
                self.bar.ran(done, start, True)

    def _values(self, form: Backward, tape: Any, place: int) -> tuple[Any, int, int]:
        """A tape with what one step backward reads, computed from the arguments of the step."""
        given = tape.arguments(self.step.forward, place)
        fresh = _core._Tape()
        fresh.extend(form.values.run(given, [self._reached[k] for k in form.held]))
        return fresh, 0, len(fresh)


class Gradients:
    """The gradients of a loop, on their way from the last step to the first.

    Parameters
    ----------
    carry, ys
        What arrives: for the last carry, and for the stacked outputs.
    xs
        Room for those of the inputs.
    first, reached
        The sums so far, from elsewhere, for the first carry and for what is read from outside.
    """

    def __init__(
        self,
        carry: list[Any],
        ys: list[Any],
        xs: list[Tensor | None],
        first: list[Tensor | None],
        reached: list[Tensor | None],
    ) -> None:
        self.carry, self.ys, self.xs = carry, ys, xs
        self._first, self.reached = first, reached
        self._written = [False] * len(xs)

    def arriving(self) -> list[Tensor | None]:
        """What arrived at the last step, before any has run backward, and room for inputs."""
        room = [None if x is None else x[:0] for x in self.xs]
        return [*self.carry, *self.ys, *self._first, *self.reached, *room]

    def so_far(self) -> tuple[list[Tensor | None], list[Tensor | None], list[bool]]:
        """Copies of those for the carry and for what is read from outside; inputs that have one."""
        carry, reached = (
            [None if t is None else t.clone() for t in some] for some in (self.carry, self.reached)
        )
        return carry, reached, list(self._written)

    def go_on(
        self, carry: list[Tensor | None], reached: list[Tensor | None], written: list[bool]
    ) -> None:
        """Be what another pass had so far."""
        self.carry[:], self.reached[:], self._written[:] = carry, reached, written

    def note(self, gives: list[bool]) -> None:
        """Know which inputs get a gradient from some step."""
        first = len(self.carry)
        for k in range(len(self.xs)):
            self._written[k] |= gives[first + k]

    def found(self) -> list[Tensor | None]:
        """The gradients of the first carry, of the inputs and of what was read from outside."""
        xs = [x if on else None for x, on in zip(self.xs, self._written, strict=True)]
        return [*self.carry, *xs, *self.reached]

    def first_there(self) -> tuple[bool, ...]:
        """For which carries there is a sum from elsewhere; none if there is none at all."""
        there = _which(self._first)
        return there if any(there) else ()

    def ys_and_first(self, count: int) -> list[Any]:
        """The gradients of outputs, and those sums as rows of further ones."""
        if not self.first_there():
            return self.ys
        return [*self.ys, *(t if t is None else t.expand(count, *t.shape) for t in self._first)]

    def there(self) -> tuple[tuple[bool, ...], tuple[bool, ...], tuple[bool, ...]]:
        """Which of them are there."""
        return _which(self.carry), _which(self.reached), _which(self.ys)


def _which(tensors: list[Tensor | None]) -> tuple[bool, ...]:
    return tuple([t is not None for t in tensors])  # of a list: twice as fast, before short loops
