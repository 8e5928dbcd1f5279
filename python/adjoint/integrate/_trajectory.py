"""The steps of a plan, made again with everything recorded, and the states between them."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint._core import Tensor

from ._control import Plan
from ._methods import Method, Slope

__all__ = ["Trajectory", "follow"]


class Trajectory:
    """States at the ends of steps, and what lies between."""

    def __init__(self, method: Method, times: Tensor, states: Tensor, between: Tensor) -> None:
        self._method, self.times, self.states, self._between = method, times, states, between
        # Where steps begin and end as numbers, to find the step of a time.
        self._marks = times.detach()
        self._forward = bool(self._marks[-1] >= self._marks[0])

    def at(self, t: Tensor) -> Tensor:
        """The state at a time, or in rows at several."""
        if self.times.numel() == 1:
            return self.states[0].expand(*t.shape, -1)
        marks = self._marks if self._forward else -self._marks
        place = t.detach() if self._forward else -t.detach()
        outside = (place < marks[0]) | (place > marks[-1])
        if bool(outside.any()):
            raise ValueError(
                f"solve_ivp(): a time lies outside of the interval from {float(self.times[0]):g} "
                f"to "
                f"{float(self.times[-1]):g}"
            )
        k = (ad.searchsorted(marks, place.contiguous(), right=True) - 1).clamp(0, len(marks) - 2)
        begin, end = self.times[k], self.times[k + 1]
        h = end - begin
        return self._method.value(self.states[k], h, self._between[k], (t - begin) / h)

    def at_step(self, k: int, t: Tensor) -> Tensor:
        """The state at a time within step k."""
        h = self.times[k + 1] - self.times[k]
        return self._method.value(self.states[k], h, self._between[k], (t - self.times[k]) / h)


def follow(
    method: Method, slope: Slope, plan: Plan, begin: Tensor, end: Tensor, y: Tensor, memory: Any
) -> Trajectory:
    """Make the steps of a plan. Their ends move with those of the interval."""
    first, last = plan.times[0], plan.times[-1]
    marks = ad.tensor(plan.times, dtype=y.dtype)
    times = marks
    if plan.status == 0 and (begin.requires_grad or end.requires_grad or _moves(begin, end)):
        share = (marks - first) / (last - first if last != first else 1.0)
        times = begin + share * (end - begin)
    carry = y, method.start(slope, times[0], y)
    if len(plan.times) == 1:
        return Trajectory(method, times, y[None], y[None, None])

    def step(carry: tuple[Tensor, Tensor], ends: tuple[Tensor, Tensor]) -> Any:
        y, kept = carry
        t, h = ends
        made = method.step(slope, t, y, h, kept)
        return (made.y, made.memory), (made.y, made.between)

    ends = times[:-1], times[1:] - times[:-1]
    if method.scans:
        _, (states, between) = ad.scan(step, carry, ends, memory=memory)
    else:
        rows = []
        for k in range(len(plan.times) - 1):
            carry, row = step(carry, (ends[0][k], ends[1][k]))
            rows.append(row)
        states, between = (ad.stack(column) for column in zip(*rows, strict=True))
    return Trajectory(method, times, ad.cat([y[None], states]), between)


def _moves(*tensors: Tensor) -> bool:
    return any(ad._core._has_tangent(t) for t in tensors)
