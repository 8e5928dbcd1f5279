"""Which gradients meet in a step of a loop backward, and which program they need.

A carry that the result does not depend on has no gradient, the last step has none of a later one:
for each choice of those that are there the step has a backward program. That is the same for a step
that was recorded here (_step.py) and for one from a file (_loaded_step.py).
"""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["Arrivals", "Backward", "Flags", "StepForms"]

Flags = tuple[bool, ...]


@dataclasses.dataclass
class Backward:
    """How a step is run backward, where certain gradients are there.

    Attributes
    ----------
    program
        What runs; None where no gradient is there.
    arriving
        By input of the program the gradients it is the sum of: the sum so far of something reached,
        carries, and rows of outputs (of output k, or ~k for the row of the step before).
    kept
        Which of the values of a step it reads.
    gives
        By input of the step: whether it gets a gradient.
    values
        A program that computes them from the arguments of the step, where they are not on the
        tape.
    held
        What that program reads besides: places among the tensors that the step reached.
    """

    program: Any
    arriving: list[tuple[int, list[int], list[int]]]
    kept: list[int]
    gives: list[bool]
    values: Any = None
    held: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Arrivals:
    """Which gradients arrive in a step backward.

    Attributes
    ----------
    outputs, inputs
        Whether one arrives, for each result with a gradient, and each input.
    sources
        Where one does: result k, or ~k for input k.
    sums
        The sums that they are: see `Backward.arriving`.
    """

    outputs: Flags
    inputs: Flags
    sources: list[int]
    sums: list[tuple[int, list[int], list[int]]]


class StepForms:
    """A step, as far as its gradients are concerned.

    Attributes
    ----------
    carries, rows
        How many tensors are carried, and taken from the inputs.
    by
        The inputs that it is differentiated by: of carry, row and what is reached, in order.
    sources
        Where the next carry and the outputs come from: output k of the program, or ~k for input k
        of the step.
    differentiable
        The outputs of the program that have a gradient.
    """

    carries: int
    rows: int
    by: list[int]
    sources: list[int]
    differentiable: list[int]
    _forms: dict[Any, Backward]

    def _program_for(self, outputs: Flags, sums: Flags) -> Backward:
        """The backward program for gradients of these outputs, with sums for these inputs."""
        raise NotImplementedError

    def _inputs(self) -> int:
        """How many inputs there are: carry, row and what is reached."""
        raise NotImplementedError

    def backward_for(
        self,
        carry: Flags,
        reached: Flags,
        ys: Flags,
        last: bool,
        earlier: bool,
        first: Flags = (),
    ) -> Backward:
        """How to run it backward where these gradients are there.

        Parameters
        ----------
        carry, reached, ys
            Which gradients are there: of the next carry, of what is read from outside, of outputs.
        last
            Whether it is the last step of all.
        earlier
            Whether there is a step before it, whose outputs have gradients too.
        first
            In the first step, for which carries a sum from elsewhere is there: it stands among
            outputs, after the others.
        """
        key = carry, reached, ys, last, earlier, first
        found = self._forms.get(key)
        if found is None:
            found = self._forms[key] = self._make_form(*key)
        return found

    def used(self) -> list[tuple[Any, Backward]]:
        """What `backward_for` was asked for so far, and has told."""
        return list(self._forms.items())

    def _make_form(
        self,
        carry: Flags,
        reached: Flags,
        ys: Flags,
        last: bool,
        earlier: bool,
        first: Flags,
    ) -> Backward:
        arrivals = self.arrivals(carry, reached, ys, last, earlier, first)
        if not arrivals.sums:
            return Backward(None, [], [], [False] * self._inputs())
        found = self._program_for(arrivals.outputs, arrivals.inputs)
        return dataclasses.replace(found, arriving=arrivals.sums)

    def arrivals(
        self,
        carry: Flags,
        reached: Flags,
        ys: Flags,
        last: bool,
        earlier: bool,
        first: Flags = (),
    ) -> Arrivals:
        """Which gradients arrive in a step backward, where these are there: see `backward_for`."""
        carried, rows = self.sources[: self.carries], self.sources[self.carries :]
        also_carried = {y for y, k in enumerate(rows) if k >= 0 and k in carried}
        arriving: list[tuple[int, list[int], list[int]]] = []

        def arrive(source: int, total: int, before: list[int]) -> bool:
            of_carry = [j for j, k in enumerate(carried) if k == source and carry[j]]
            of_ys = [
                y
                for y, k in enumerate(rows)
                if k == source and ys[y] and (last or y not in also_carried)
            ]
            # The newest first: so the stacks of the plain loop run.
            of_ys = sorted([*of_ys, *before], key=lambda y: -max(y, ~y))
            there = bool(of_ys or of_carry or total >= 0)
            if there:
                arriving.append((total, of_carry, of_ys))
            return there

        outputs = tuple(arrive(k, -1, []) for k in self.differentiable)
        sources = [k for k, on in zip(self.differentiable, outputs, strict=True) if on]
        sums = []
        for k in self.by:
            before: list[int] = []
            total = -1
            if k < self.carries and earlier and carried.index(carried[k]) == k:
                before = [~y for y in also_carried if ys[y] and rows[y] == carried[k]]
            if k < len(first) and first[k]:
                before = [len(rows) + k]
            if k >= self.carries + self.rows and reached[k - self.carries - self.rows]:
                total = k - self.carries - self.rows
            sums.append(arrive(~k, total, before))
        sources += [~k for k, on in zip(self.by, sums, strict=True) if on]
        return Arrivals(outputs, tuple(sums), sources, arriving)

    def meet_all(
        self, count: int | None, carry: Flags, reached: Flags, ys: Flags, first: Flags = ()
    ) -> None:
        """Have a program for every step of a backward pass that begins with these gradients.

        A step whose length depends on values, or that a condition leaves out, meets some of them in
        later calls only: when what it has read may have changed, or in another process.

        Parameters
        ----------
        count
            How many steps there are; None if that is not known.
        carry, reached, ys, first
            Which gradients are there: see `backward_for`.
        """
        if count is None or count == 1:
            self.backward_for(carry, reached, ys, True, False, first)
        if count == 1:
            return
        there = self._after(self.backward_for(carry, reached, ys, True, True), reached)
        seen: set[tuple[Flags, Flags]] = set()
        while there not in seen and (count is None or len(seen) < count - 1):
            seen.add(there)
            self.backward_for(*there, ys, False, False, first)
            if len(seen) + 1 != count:
                there = self._after(self.backward_for(*there, ys, False, True), there[1])

    def _after(self, form: Backward, reached: Flags) -> tuple[Flags, Flags]:
        """Which gradients are there after a step backward: of the carry, and of what is reached."""
        if form.program is None:
            return (False,) * self.carries, reached
        return tuple(form.gives[: self.carries]), tuple(form.gives[self.carries + self.rows :])
