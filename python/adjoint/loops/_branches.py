"""One of two branches, as an instruction of a program: `cond`.

A branch is a loop of one step, whose rows are the operands. Read _recorded_loop.py first; _cond.py
records the branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor

from ._kept import Kept
from ._loop import loop_backward, loop_forward
from ._run import LoopRun

__all__ = ["Branches"]


class Branches:
    """Two loops of one step; the one of `True` runs where the condition holds.

    Parameters
    ----------
    loops
        By whether the condition holds.
    operands
        How many tensors both are given.
    """

    def __init__(self, loops: dict[bool, LoopRun], operands: int) -> None:
        self.loops, self.operands = loops, operands

    def places(self, which: bool) -> list[int]:
        """Where the tensors of a branch stand among operands and what is reached."""
        first = self.operands
        before = len(self.loops[False].step.reached) if which else 0
        count = len(self.loops[which].step.reached)
        return [*range(first), *range(first + before, first + before + count)]

    def forward(self, needs: bool, tensors: Sequence[Tensor]) -> tuple[list[Tensor], Any]:
        """The results, and what is left for the backward pass."""
        pred, *others = tensors
        which = bool(pred)
        given = [others[k] for k in self.places(which)]
        rows = [t.unsqueeze(0) for t in given[: self.operands]]
        found, kept = loop_forward(self.loops[which], needs, [*rows, *given[self.operands :]])
        return [t[0] for t in found], (which, kept)

    def backward(
        self, left: Any, tensors: Sequence[Tensor], grads: Sequence[Any], needs: Sequence[bool]
    ) -> list[Tensor | None]:
        """The gradients of operands and of what is reached: zeros where a branch has none."""
        which, kept = left
        places = self.places(which)
        given = [tensors[k] for k in places]
        rows = [t.unsqueeze(0) for t in given[: self.operands]]
        stacked = [None if g is None else g.unsqueeze(0) for g in grads]
        wanted = [needs[k] for k in places]
        found = loop_backward(kept, [*rows, *given[self.operands :]], stacked, wanted)
        result: list[Tensor | None] = [
            _core.zeros_like(t) if on else None for t, on in zip(tensors, needs, strict=True)
        ]
        for k, (place, g) in enumerate(zip(places, found, strict=True)):
            if g is not None:
                result[place] = g[0] if k < self.operands else g
        return result

    @property
    def draws(self) -> bool:
        """Whether one of them draws random numbers."""
        return any(loop.step.forward.draws() for loop in self.loops.values())

    def has_left(self, left: Any) -> bool:
        """Whether this is what such branches leave."""
        if not isinstance(left, tuple) or not isinstance(left[1], Kept):
            return False
        return left[1].loop.step is self.loops[left[0]].step

    def meet_all(self, there: Sequence[bool]) -> None:
        """Have all backward programs of both, for gradients that arrive so."""
        for loop in self.loops.values():
            loop.step.meet_all(1, (), (False,) * len(loop.step.reached), tuple(there))
