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
from adjoint._recording import CheckedCall

from ._control import Control, State
from ._methods import Method, Step
from ._problem import Problem, raise_unless_right, raise_unless_solved, stopped
from ._trajectory import moved_marks, raise_unless_inside

__all__ = ["MOST", "can_be_recorded", "solved_in_recording"]

MOST = 4096  # steps, unless users ask for more


def can_be_recorded(problem: Problem, t_eval: Any, others: bool) -> bool:
    """Whether a call becomes a part of the recording around it; otherwise it refuses that."""
    if not _core._is_recording() or _core._loop_mode():
        return False
    if t_eval is None or others:
        _core._refuse_recording(
            "solve_ivp() becomes a part of a program where t_eval= says how many states there are, "
            "and without events, dense output and gradients that are not discrete"
        )
        return False
    return True


def solved_in_recording(
    problem: Problem, begin: Tensor, end: Tensor, y: Tensor, at: Tensor, options: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """The states at times, in rows, and the number of steps."""
    most = problem.max_steps or MOST
    values_alone = not (ad.is_grad_enabled() or problem.method.implicit)
    with ad.no_grad():
        begin_now = _checked(problem, begin.detach(), end.detach(), y.detach(), at.detach())
        control = problem.control(end)
        first = control.start(begin_now, y.detach(), problem.first_step)
        if values_alone:
            return _by_values(problem, control, first, at.detach(), most)
        marks, orders, count = _planned(problem, control, first, most)
    times = moved_marks(marks, begin, end)
    return _followed(problem, times, orders, count, y, at, options), count


def _checked(problem: Problem, begin: Tensor, end: Tensor, y: Tensor, at: Tensor) -> Tensor:
    """The beginning; it raises for what is wrong with a call, each time the program runs."""
    system, nothing = problem.system.without_history(), ad.zeros_like(begin)
    matrix = problem.system.matrix_error(begin, y) if problem.system.has_given_matrix else nothing
    beside = system.beside(begin, y) if system.mass is not None else nothing
    check = CheckedCall("integrate.begins", check_beginning, 0)
    (found,) = _core._host_call(check, [begin, end, at, matrix, beside])
    return found


def check_beginning(tensors: Sequence[Tensor]) -> None:
    """Raise for what is wrong with a call."""
    begin, end, at, matrix, beside = tensors
    raise_unless_right(float(matrix))
    raise_unless_solved(float(beside))
    raise_unless_inside(at, begin, end)


def _planned(
    problem: Problem, control: Control, first: State, most: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The ends of steps and their orders, in rows of a fixed length, and their number."""
    method, places = problem.method, ad.arange(most + 1)

    def goes_on(state: State, count: Tensor, *rows: Tensor) -> Tensor:
        return ~control.ended(state) & (count < most)

    def attempt(state: State, count: Tensor, marks: Tensor, orders: Tensor) -> Any:
        after, step, taken = control.attempt(state)
        count = count + taken.to(count.dtype)
        here = (places == count) & taken
        if method.has_orders:
            orders = ad.where(here, step.found[-1], orders)
        return after, count, ad.where(here, after.t, marks), orders

    zero = ad.zeros((), dtype=ad.int64)
    marks = first.t.expand(most + 1).clone()
    orders = ad.ones(most + 1 if method.has_orders else 1, dtype=ad.int64)
    state, count, marks, orders = ad.while_loop(goes_on, attempt, (first, zero, marks, orders))
    return marks, orders, _arrived(problem, control, state, count, most)


def _by_values(
    problem: Problem, control: Control, first: State, at: Tensor, most: int
) -> tuple[Tensor, Tensor]:
    """The same without derivatives: one loop, of the attempts."""
    method = problem.method

    def attempt(state: State, count: Tensor, out: Tensor) -> Any:
        after, step, taken = control.attempt(state)
        if method.between:
            h = after.t - state.t
            out = _with_states(method, state.t, after.t, state.y, h, step, at, taken, out)
        return after, count + taken.to(count.dtype), out

    zero = ad.zeros((), dtype=ad.int64)
    start = first.y.expand(len(at), -1).clone() if method.between else first.y[None][:0]
    state, count, out = ad.while_loop(
        lambda state, count, _: ~control.ended(state) & (count < most),
        attempt,
        (first, zero, start),
    )
    count = _arrived(problem, control, state, count, most)
    if method.between:
        return out, count
    return ad.where((at == first.t)[:, None], first.y, state.y), count


def _with_states(
    method: Method,
    t: Tensor,
    end: Tensor,
    y: Tensor,
    h: Tensor,
    step: Step,
    at: Tensor,
    taken: Tensor | None,
    out: Tensor,
) -> Tensor:
    """Rows of states, with those written that lie within a step."""
    forward = end > t
    here = ad.where(forward, (at > t) & (at <= end), (at < t) & (at >= end))
    if taken is not None:
        here = here & taken
    theta = ad.where(here, (at - t) / ad.where(h == 0, 1.0, h), 0.5)
    rows = tuple(b.expand(len(at), *b.shape) for b in step.between)
    values = method.value(y.expand(len(at), -1), h.expand(len(at)), rows, theta)
    return ad.where(here[:, None], values, out)


def _arrived(problem: Problem, control: Control, state: State, count: Tensor, most: int) -> Tensor:
    """The number of steps; it raises where the end is not reached, each time the program runs."""
    method = problem.method
    arrived = CheckedCall(
        "integrate.arrives", check_end, 2, most, method.name, bool(method.implicit)
    )
    (found,) = _core._host_call(arrived, [state.t, control.t1, count, state.size])
    return found


def check_end(tensors: Sequence[Tensor], most: int, name: str, implicit: bool) -> None:
    """Raise where the end is not reached."""
    t, t1, count, size = tensors
    if bool(t == t1):
        return
    why = (
        f"{most} steps were not enough (max_steps)"
        if int(count) >= most
        else "the step became too short"
        if bool(ad.isfinite(size))
        else "the slope is not finite, or the equations of a step have no solution"
    )
    raise stopped(name, implicit, float(t), int(count), None, why)


def _followed(
    problem: Problem,
    times: Tensor,
    orders: Tensor,
    count: Tensor,
    y: Tensor,
    at: Tensor,
    options: dict[str, Any],
) -> Tensor:
    method, system = problem.method, problem.system
    plain = system.without_history()

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
        if method.has_orders:
            memory = method.with_order(memory, orders.index_select(0, k[None] + 1)[0])
        new = made(t, y, h, memory)
        if method.between:
            out = _with_states(method, t, end, y, h, new, at, None, out)
        return k + 1, new.y, new.memory, out

    start = method.start(system, times[0], y, times[1] - times[0])
    first = y.expand(len(at), -1).clone() if method.between else y[None][:0]
    zero = ad.zeros((), dtype=ad.int64)
    _, last, _, out = ad.while_loop(
        lambda k, *_: k < count, step, (zero, y, start, first), **options
    )
    found: Tensor = out if method.between else ad.where((at == times[0].detach())[:, None], y, last)
    return found
