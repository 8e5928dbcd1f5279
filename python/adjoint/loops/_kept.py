"""What the forward run of a loop leaves for the backward one, and how that uses it.

Everything that steps save is on one tape; or states are kept (`_states`), and the backward pass
runs the steps between them again, block by block, at the places that `_schedule` says. Where states
outlive the process (`_resumed`), both passes begin where an earlier process was.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.compiler._compile import CompileWarning, level_of_user
from adjoint.compiler._recorded import Refused

from ._memory import Memory
from ._resumed import GradientFiles, ResumedStates, resumed_states
from ._run import ENDLESS, Gradients, LoopRun
from ._schedule import first_sweep, split
from ._states import State, States, states_in

__all__ = ["Kept"]


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
        self._begin(carry, xs)
        try:
            return self._sweep(carry, xs, ys)
        except BaseException:
            if self._states is not None:
                self._states.leave()
            raise

    def drop(self) -> None:
        """Let go of what is kept: there is no backward pass."""
        if self._states is not None:
            self._states.close()

    def _begin(self, carry: list[Tensor], xs: list[Tensor]) -> None:
        self._first = self.loop.state(carry)
        if self.memory.resume:
            given = [*carry, *xs, *self.loop.reached]
            self._states, why_not = resumed_states(self.loop, given, self.memory)
            if self._states is not None:
                return
            message = f"a loop with resume=True begins anew, and leaves nothing: {why_not}"
            warnings.warn(message, CompileWarning, stacklevel=level_of_user())
        self._states = states_in(self.memory)

    def forward_until(self, carry: list[Tensor]) -> list[Tensor]:
        """Run steps until the condition fails, and keep what the memory allows."""
        loop = self.loop
        no_ys: list[Tensor | None] = [None] * len(loop.step.form[1])
        if self.memory.budget is not None:
            self.memory = self.memory.for_step(ENDLESS, *loop.sizes(carry, []))
        if self.memory.keeps_all():
            self.tape = _core._Tape()
            found, loop.count, _ = loop.until(carry, no_ys, 0, ENDLESS, self.tape)
            return found
        self._begin(carry, [])
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
        at = 0
        if isinstance(self._states, ResumedStates):
            at, carry = self._take_up(self._states, [*places, last + 1], carry, ys)
        if at > last:
            return carry
        for k, (place, following) in enumerate(pairwise([*places, last])):
            if place > at:
                self._keep_rows(ys, places[k - 1], place)
                self._states.put(place, self.loop.state(carry))
            if place >= at:
                carry = self.loop.advance(carry, xs, ys, self._start(place), self._start(following))
        # The backward pass begins there: nothing of that block has to be run again.
        self._last = _core._Tape()
        carry = self.loop.advance(carry, xs, ys, self._start(last), self.loop.count, self._last)
        self._keep_rows(ys, places[-1], last + 1)
        if isinstance(self._states, ResumedStates):
            self._states.finish(self.loop.state(carry))
        return carry

    def _keep_rows(self, ys: list[Any], place: int, following: int) -> None:
        if isinstance(self._states, ResumedStates) and ys:
            rows = [self._rows(t, place, following).clone() for t in ys]
            self._states.write(f"rows-{following}", rows=[*rows])

    def _take_up(
        self, states: ResumedStates, stops: list[int], carry: list[Tensor], ys: list[Any]
    ) -> tuple[int, list[Tensor]]:
        """Go on where an earlier process was: the place, and the carry there."""
        there = [0]
        for place, following in pairwise(stops):
            found = states.read(f"rows-{following}") if ys else {"rows": []}
            if found is None:
                break
            for t, rows in zip(ys, found["rows"], strict=True):
                self._rows(t, place, following).copy_(rows)
            there.append(following)
        at, state = states.take_up(there, stops[-1])
        if self.loop.bar is not None:
            self.loop.bar.begin_at(self._start(at))
        return at, carry if state is None else self.loop.go_back_to(state)

    def _rows(self, stack: Tensor, place: int, following: int) -> Tensor:
        return self.loop.rows_between(stack, self._start(place), self._start(following))

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
        states, self._states = self._states or states_in(self.memory), None
        last, self._last = self._last, None
        try:
            end, files = self._blocks(), None
            if isinstance(states, ResumedStates):
                stops = first_sweep(end, self.memory.states or 1)
                files = GradientFiles(states, loop, g, [end, *stops[:0:-1]], self._rows)
                end = files.take_up()
                if self.loop.bar is not None:
                    self.loop.bar.begin_at(loop.count - self._start(end))
            if last is not None and end == self._blocks():
                end -= 1
                loop.back(g, last, self._start(end), loop.count)
                if files is not None:
                    files.note(end)
            del last
            for carry, block in self._blocks_backward(end, states, xs, nothing):
                first, to = self._start(block), self._start(block + 1)
                tape = _core._Tape()
                loop.advance(carry, xs, nothing, first, to, tape, again=True)
                loop.back(g, tape, first, to)
                if files is not None:
                    files.note(block)
        except Refused:  # it goes another way from here
            states.close()
            raise
        except BaseException:
            states.leave()
            raise
        finally:
            loop.go_back_to(now)
        states.close()

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
        return self.loop.advance(carry, xs, nothing, first, last, again=True)
