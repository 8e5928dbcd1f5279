"""The steps of a plan, made again with everything recorded, and the states between them."""

from __future__ import annotations

from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import has_tangent, somewhere

from ._control import Plan
from ._methods import Method
from ._system import Held, System

__all__ = ["Piece", "Trajectory", "follow", "kept", "moved", "moved_marks", "raise_unless_inside"]


class Piece(NamedTuple):
    """The solution within one step."""

    method: Method
    t: Tensor
    h: Tensor
    y: Tensor
    between: tuple[Tensor, ...]

    def at(self, t: Tensor) -> Tensor:
        """The state at a time."""
        return self.part((t - self.t) / self.h)

    def part(self, theta: Tensor) -> Tensor:
        """The state after a part of the step."""
        return self.method.value(self.y, self.h, self.between, theta)

    def detached(self) -> Piece:
        """The same, with values alone."""
        between = tuple(b.detach() for b in self.between)
        return Piece(self.method, self.t.detach(), self.h.detach(), self.y.detach(), between)


class Trajectory:
    """States at the ends of steps, and what lies between.

    ``marks`` are the times as numbers, which are the same for all samples of a `vmap`.
    """

    def __init__(
        self,
        method: Method,
        marks: Tensor,
        times: Tensor,
        states: Tensor,
        between: tuple[Tensor, ...],
    ) -> None:
        self._method, self.times, self.states, self._between = method, times, states, between
        self._marks = marks  # to find the step of a time
        self.forward = bool(marks[-1] >= marks[0])

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
        return self.piece(k).at(t)

    def piece(self, k: Any) -> Piece:
        """Step k."""
        begin, h = _row(self.times, k), _row(self.times, k + 1) - _row(self.times, k)
        between = tuple(_row(b, k) for b in self._between)
        return Piece(self._method, begin, h, _row(self.states, k), between)


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
        return Trajectory(method, times, times, y[None], ())
    states = ad.cat([y[None], plan.rows.y[0]])
    return Trajectory(method, times, times, states, plan.rows.between)


def moved(plan: Plan, begin: Tensor, end: Tensor) -> Tensor:
    """The times of a plan, which move with the ends of the interval that are reached."""
    marks = ad.tensor(plan.times, dtype=begin.dtype)
    done = None if plan.watch is None else plan.watch.done
    if plan.steps == 0:
        done = ad.ones((), dtype=ad.bool)
    return moved_marks(marks, begin, end, done)


def moved_marks(marks: Tensor, begin: Tensor, end: Tensor, done: Tensor | None = None) -> Tensor:
    """Times between the ends of an interval, which move with it.

    Where an event ended the solution before the end, which ``done`` tells, all times move with the
    beginning.
    """
    if not (begin.requires_grad or end.requires_grad or has_tangent(begin, end)):
        return marks
    length = (end - begin).detach()
    share = (marks - begin.detach()) / ad.where(length == 0, 1.0, length)
    between = begin + share * (end - begin)
    if done is None:
        return between
    return ad.where(done, marks + (begin - begin.detach()), between)


def follow(
    method: Method, system: System, plan: Plan, times: Tensor, y: Tensor, options: dict[str, Any]
) -> Trajectory:
    """Make the steps of a plan; ``options`` are those of `adjoint.scan` about memory."""
    marks = ad.tensor(plan.times, dtype=y.dtype)
    if plan.rows is None:
        return Trajectory(method, marks, times, y[None], ())
    watch = plan.watch if plan.holds else None

    def step(carry: tuple[Tensor, Any], row: tuple[Tensor, ...]) -> Any:
        y, memory = carry
        k, t, h, *found = row
        if watch is None:
            made = method.step(system, t, y, h, memory, tuple(found))
            return (made.y, made.memory), (made.y, made.between)
        done = k > watch.until
        now = Held(system, done, watch.since, y.detach())
        made = method.step(now, t, y, h, memory, tuple(found))
        new = ad.where(done, y, made.y)
        return (new, made.memory), (new, made.between)

    h = times[1:] - times[:-1]
    start = y, method.start(system, times[0], y, h[0])
    rows = ad.arange(len(h)), times[:-1], h, *plan.rows.found
    _, (states, between) = ad.scan(step, start, rows, **options)
    return Trajectory(method, marks, times, ad.cat([y[None], states]), between)
