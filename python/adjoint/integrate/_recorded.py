"""A solution inside a recording: `adjoint.compile`, or the step of a loop.

How many steps there are is known only when the program runs. So the choice of steps is a
`while_loop` that writes their times into a row of fixed length, and the steps are another one,
which is differentiated. Both are single instructions of the program around them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor

from ._control import Control, State
from ._methods import Step
from ._problem import Problem, stopped
from ._trajectory import moved_marks

__all__ = ["MOST", "can_be_recorded", "solved_in_recording"]

MOST = 4096  # steps, unless users ask for more


def can_be_recorded(problem: Problem, t_eval: Any, others: bool) -> bool:
    """Whether a call becomes a part of the recording around it; otherwise it refuses that."""
    if not _core._is_recording() or _core._loop_mode():
        return False
    if t_eval is None or others or problem.method.name == "BDF":
        _core._refuse_recording(
            "solve_ivp() is recorded with t_eval=, without events and dense output, and not by BDF"
        )
        return False
    return True


def solved_in_recording(
    problem: Problem, begin: Tensor, end: Tensor, y: Tensor, at: Tensor, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """The states at times, in rows, and the number of steps."""
    most = problem.max_steps or MOST
    with ad.no_grad():
        control = problem.control(end)
        marks, count = _planned(problem, control, begin.detach(), y.detach(), most)
    times = moved_marks(marks, begin, end)
    return _followed(problem, times, count, y, at, options), count


def _planned(
    problem: Problem, control: Control, begin: Tensor, y: Tensor, most: int
) -> tuple[Tensor, Tensor]:
    places = ad.arange(most + 1)

    def goes_on(state: State, count: Tensor, marks: Tensor) -> Tensor:
        return ~control.ended(state) & (count < most)

    def attempt(state: State, count: Tensor, marks: Tensor) -> tuple[State, Tensor, Tensor]:
        after, _, taken = control.attempt(state)
        count = count + taken.to(count.dtype)
        return after, count, ad.where((places == count) & taken, after.t, marks)

    zero = ad.zeros((), dtype=ad.int64)
    first = control.start(begin, y, problem.first_step)
    marks = begin.expand(most + 1).clone()
    state, count, marks = ad.while_loop(goes_on, attempt, (first, zero, marks))

    def arrived(tensors: Sequence[Tensor]) -> list[Tensor]:
        t, t1, count, size = tensors
        if not bool(t == t1):
            full = int(count) >= most
            why = (
                f"{most} steps were not enough (max_steps)"
                if full
                else "the step became too short"
                if bool(ad.isfinite(size))
                else "the slope is not finite, or the equations of a step have no solution"
            )
            raise stopped(problem.method, float(t), int(count), None, why)
        return [count.clone()]

    (count,) = _core._host_call(arrived, [state.t, control.t1, count, state.size])
    return marks, count


def _followed(
    problem: Problem, times: Tensor, count: Tensor, y: Tensor, at: Tensor, options: dict[str, Any]
) -> Tensor:
    method, system = problem.method, problem.system
    plain = system.without_history()
    forward = (at.detach()[-1:] >= times.detach()[:1]).all()

    def made(t: Tensor, y: Tensor, h: Tensor, memory: Any) -> Step:
        if not method.implicit:
            return method.step(system, t, y, h, memory)
        with ad.no_grad():
            search = method.step(
                plain, t.detach(), y.detach(), h.detach(), tuple(m.detach() for m in memory)
            )
        return method.step(system, t, y, h, memory, search.found)

    def step(k: Tensor, y: Tensor, memory: Any, out: Tensor) -> Any:
        t = times.index_select(0, k[None])[0]
        end = times.index_select(0, k[None] + 1)[0]
        h = end - t
        new = made(t, y, h, memory)
        if method.between:
            here = ad.where(forward, (at > t) & (at <= end), (at < t) & (at >= end))
            theta = ad.where(here, (at - t) / h, 0.5)
            rows = tuple(b.expand(len(at), *b.shape) for b in new.between)
            values = method.value(y.expand(len(at), -1), h.expand(len(at)), rows, theta)
            out = ad.where(here[:, None], values, out)
        return k + 1, new.y, new.memory, out

    start = method.start(system, times[0], y, times[1] - times[0])
    first = y.expand(len(at), -1).clone() if method.between else y[None][:0]
    zero = ad.zeros((), dtype=ad.int64)
    _, last, _, out = ad.while_loop(
        lambda k, *_: k < count, step, (zero, y, start, first), **options
    )
    if method.between:
        return out
    return ad.where((at == times[0].detach())[:, None], y, last)
