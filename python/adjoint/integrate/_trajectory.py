"""The steps of a plan, made again with everything recorded, and the states between them."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import somewhere

from ._control import Plan
from ._methods import Method
from ._system import System

__all__ = ["Trajectory", "follow", "kept", "moved", "moved_marks", "raise_unless_inside"]


class Trajectory:
    """States at the ends of steps, and what lies between."""

    def __init__(
        self, method: Method, times: Tensor, states: Tensor, between: tuple[Tensor, ...]
    ) -> None:
        self._method, self.times, self.states, self._between = method, times, states, between
        # Where steps begin and end as numbers, to find the step of a time.
        self._marks = times.detach()
        self.forward = bool(self._marks[-1] >= self._marks[0])

    def at(self, t: Tensor) -> Tensor:
        """The state at a time, or in rows at several."""
        if self.times.numel() == 1:
            return self.states[0].expand(*t.shape, -1)
        raise_unless_inside(t.detach(), self._marks[0], self._marks[-1])
        return self.inside(t)

    def inside(self, t: Tensor) -> Tensor:
        """The same for times that lie in the interval, by operations alone."""
        marks = self._marks if self.forward else -self._marks
        place = t.detach() if self.forward else -t.detach()
        k = ad.searchsorted(marks, place.contiguous(), right=True) - 1
        return self.at_step(k.clamp(0, marks.shape[0] - 2), t)

    def at_step(self, k: Any, t: Tensor) -> Tensor:
        """The state at a time within step k."""
        begin, h = _row(self.times, k), _row(self.times, k + 1) - _row(self.times, k)
        between = tuple(_row(b, k) for b in self._between)
        return self._method.value(_row(self.states, k), h, between, (t - begin) / h)


def raise_unless_inside(t: Tensor, begin: Tensor, end: Tensor) -> None:
    """Raise for times that lie outside of an interval."""
    outside = (t < ad.minimum(begin, end)) | (t > ad.maximum(begin, end))
    if somewhere(outside):
        wrong = float(t[outside].flatten()[0])
        raise ValueError(
            f"solve_ivp(): the time {wrong:g} lies outside of the interval from "
            f"{float(begin):g} to {float(end):g}"
        )


def _row(rows: Tensor, k: Any) -> Tensor:
    """Rows by number; a tensor of numbers is not looked at."""
    if isinstance(k, int):
        return rows[k]
    return rows.index_select(0, k.reshape(-1)).reshape((*k.shape, *rows.shape[1:]))


def kept(method: Method, plan: Plan, y: Tensor) -> Trajectory:
    """The steps of a plan as they were found: values alone."""
    times = ad.tensor(plan.times, dtype=y.dtype)
    if plan.rows is None:
        return Trajectory(method, times, y[None], ())
    return Trajectory(method, times, ad.cat([y[None], plan.rows.y[0]]), plan.rows.between)


def moved(plan: Plan, begin: Tensor, end: Tensor) -> Tensor:
    """The times of a plan, which move with the ends of the interval that are reached."""
    marks = ad.tensor(plan.times, dtype=begin.dtype)
    if plan.status == 0 and plan.steps > 0:
        return moved_marks(marks, begin, end)
    # An event ended it before the end: all steps move with the beginning.
    return marks + (begin - begin.detach()) if begin.requires_grad or _moves(begin) else marks


def moved_marks(marks: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """Times between the ends of an interval, which move with it."""
    if not (begin.requires_grad or end.requires_grad or _moves(begin, end)):
        return marks
    share = (marks - begin.detach()) / (end - begin).detach()
    return begin + share * (end - begin)


def follow(
    method: Method, system: System, plan: Plan, times: Tensor, y: Tensor, options: dict[str, Any]
) -> Trajectory:
    """Make the steps of a plan; ``options`` are those of `adjoint.scan` about memory."""
    if plan.rows is None:
        return Trajectory(method, times, y[None], ())

    def step(carry: tuple[Tensor, Any], row: tuple[Tensor, ...]) -> Any:
        y, memory = carry
        t, h, *found = row
        made = method.step(system, t, y, h, memory, tuple(found))
        return (made.y, made.memory), (made.y, made.between)

    h = times[1:] - times[:-1]
    start = y, method.start(system, times[0], y, h[0])
    rows = times[:-1], h, *plan.rows.found
    _, (states, between) = ad.scan(step, start, rows, **options)
    return Trajectory(method, times, ad.cat([y[None], states]), between)


def _moves(*tensors: Tensor) -> bool:
    return any(ad._core._has_tangent(t) for t in tensors)
