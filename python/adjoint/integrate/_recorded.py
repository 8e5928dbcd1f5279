"""A solution inside a recording: `adjoint.compile`, or the step of a loop.

How many steps there are is known only when the program runs. So the choice of steps is a
`while_loop` that writes their times into a row of fixed length, and the steps are another one,
which is differentiated. Both are single instructions of the program around them. Events have a
fixed number of places: the first loop notes in which steps they happen, and the second keeps these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._recording import CheckedCall
from adjoint._samples import all_of, is_batched
from adjoint.optimize._unknowns import Unknowns

from ._control import Control, State
from ._events import Found, Place, found_events
from ._methods import Method, Step
from ._problem import Problem, raise_unless_right, raise_unless_solved, stopped
from ._result import check_room, places_for
from ._system import Held, System
from ._trajectory import Piece, moved_marks, raise_unless_inside
from ._watch import Watch, Watcher

__all__ = ["MOST", "STEPS_DIFFER", "Recorded", "can_be_recorded"]

MOST = 4096  # steps, unless users ask for more

STEPS_DIFFER = (
    "solve_ivp() becomes a part of a program where t_eval= says how many states there are: the "
    "number of its steps depends on values"
)


def can_be_recorded(
    t_eval: Any, watcher: Watcher | None, max_events: int | None, dense: bool, gradient: Any
) -> bool:
    """Whether a call becomes a part of the recording around it; otherwise it refuses that."""
    if not _core._is_recording() or _core._loop_mode() == 2:
        return False
    why = ""
    if _core._loop_mode():
        why = "solve_ivp() inside a transform (vmap, jvp, jacfwd) is not a part of a program"
    elif gradient in ("continuous", "forward"):
        why = f"the gradient of solve_ivp() is discrete inside a program, not {gradient}"
    elif watcher is not None and None in places_for(watcher, max_events):
        name = watcher.names[places_for(watcher, max_events).index(None)]
        why = (
            f"how often the event {name} of solve_ivp() happens depends on values; fix: max_events="
            " says for how many there are places, or let it be terminal"
        )
    elif t_eval is None and watcher is None and not dense:
        why = STEPS_DIFFER
    if why:
        _core._refuse_recording(why)
    return not why


class Recorded:
    """A solution as a part of a program.

    Attributes
    ----------
    at, method
        The times of the states, and the name of the method.
    watcher, watch
        Of events.
    count
        The number of steps.
    """

    def __init__(
        self,
        problem: Problem,
        begin: Tensor,
        end: Tensor,
        y: Tensor,
        at: Tensor,
        options: dict[str, Any],
        watcher: Watcher | None,
        max_events: int | None,
        dense: bool,
    ) -> None:
        self._problem, self._y, self._options, self.watcher = problem, y, options, watcher
        self._most = problem.max_steps or MOST
        places = [] if watcher is None else places_for(watcher, max_events)
        self._places = [int(n or 0) for n in places]
        self._holds = False
        self.watch: Watch | None = None
        self._numbers: tuple[Tensor, ...] = ()
        self.at, self.method = at, problem.method.name
        # One loop does where nothing is differentiated, and nobody asks for other times.
        plain = watcher is None and not dense and len(at) > 0
        self._is_by_values = plain and not (ad.is_grad_enabled() or problem.method.implicit)
        with ad.no_grad():
            start = _checked(problem, begin.detach(), end.detach(), y.detach(), at.detach())
            self._control = problem.control(end)
            self._first = self._control.start(start, y.detach(), problem.first_step)
            if self._is_by_values:
                return
            self._plan(start, y.detach())
        self._times = moved_marks(self._marks, begin, end, self._done())

    def _done(self) -> Tensor | None:
        may_end = self.watcher is not None and self.watcher.may_end
        return self.watch.done if may_end and self.watch is not None else None

    def states(self) -> Tensor:
        """The states at the times that were given, in rows."""
        if not self._is_by_values:
            return self._followed(self.at, ())[0]
        with ad.no_grad():
            found, self.count = _by_values(
                self._problem, self._control, self._first, self.at.detach(), self._most
            )
        return found

    def states_at(self, at: Tensor) -> Tensor:
        """The same at others."""
        marks, count = self._marks, self.count

        def inside(tensors: Sequence[Tensor]) -> list[Tensor]:
            at, marks, count = tensors
            raise_unless_inside(at, marks[0], marks[int(count)])
            return []

        _core._host_call(inside, [at.detach(), marks, count])
        return self._followed(at, ())[0]

    def with_events(self, unknowns: Unknowns) -> tuple[Tensor, Found]:
        """The states at the times that were given, and the events."""
        watcher, watch, method = self.watcher, self.watch, self._problem.method
        assert watcher is not None and watch is not None
        check_room(watcher, watch, self._places)
        states, kept = self._followed(self.at, self._numbers)
        rows = []
        for e, numbers in enumerate(self._numbers):
            t, h, y, *between = kept[e]
            rows.append(
                [
                    Place(
                        Piece(method, t[j], h[j], y[j], tuple(b[j] for b in between)),
                        numbers[j],
                        watch.counts[e] > j,
                        numbers[j],
                    )
                    for j in range(self._places[e])
                ]
            )
        return states, found_events(watcher, rows, unknowns, True)

    # -- the choice of steps -----------------------------------------------------------------------

    def _plan(self, t: Tensor, y: Tensor) -> None:
        method, control, most, watcher = (
            self._problem.method,
            self._control,
            self._most,
            self.watcher,
        )
        index = ad.arange(most + 1)
        rooms = tuple(ad.arange(n) for n in self._places)
        watch = None if watcher is None else watcher.start(t, y)
        if watcher is not None and watch is not None and watcher.may_end:
            slope = _core._unrecorded(lambda: control.system.slope(t, y))
            self._holds = is_batched(slope, y, watch.values)
        holds = self._holds

        def goes_on(state: State, count: Tensor, watch: Watch | None, *rows: Any) -> Tensor:
            on = ~control.ended(state) & (count < most)
            return on if watch is None else on & ~all_of(watch.done | watch.lost)

        def attempt(
            state: State,
            count: Tensor,
            watch: Watch | None,
            marks: Tensor,
            orders: Tensor,
            numbers: Any,
        ) -> Any:
            after, step, taken = control.attempt(state, watch if holds else None)
            if watcher is not None and watch is not None:
                before = watch.counts
                watch, hits = watcher.after(watch, taken, after.t, after.y)
                numbers = tuple(
                    ad.where((room == before[e]) & hits[e], count, row)
                    for e, (room, row) in enumerate(zip(rooms, numbers, strict=True))
                )
            count = count + taken.to(count.dtype)
            here = (index == count) & taken
            if method.has_orders:
                orders = ad.where(here, step.found[-1], orders)
            return after, count, watch, ad.where(here, after.t, marks), orders, numbers

        zero = ad.zeros((), dtype=ad.int64)
        marks = self._first.t.expand(most + 1).clone()
        orders = ad.ones(most + 1 if method.has_orders else 1, dtype=ad.int64)
        numbers = tuple(ad.zeros_like(room) for room in rooms)
        state, count, watch, marks, orders, numbers = ad.while_loop(
            goes_on, attempt, (self._first, zero, watch, marks, orders, numbers)
        )
        done = ad.zeros((), dtype=ad.bool)
        if watcher is not None and watch is not None:
            watcher.must_be_sound(watch)
            done = all_of(watch.done)
        self._marks, self._orders, self.watch, self._numbers = marks, orders, watch, numbers
        self.count = _arrived(self._problem, control, state, count, most, done)

    # -- the steps ---------------------------------------------------------------------------------

    def _followed(self, at: Tensor, numbers: tuple[Tensor, ...]) -> tuple[Tensor, Any]:
        """States at times, and the steps of some numbers."""
        method, times, orders, count = self._problem.method, self._times, self._orders, self.count
        watch = self.watch if self._holds else None
        y = self._y

        def step(k: Tensor, y: Tensor, memory: Any, out: Tensor, kept: Any) -> Any:
            t = times.index_select(0, k[None])[0]
            end = times.index_select(0, k[None] + 1)[0]
            h = end - t
            if method.has_orders:
                memory = method.with_order(memory, orders.index_select(0, k[None] + 1)[0])
            system, done = self._problem.system, None
            if watch is not None:
                done = k > watch.until
                system = Held(system, done, watch.since, y.detach())
            made = _made(method, system, t, y, h, memory)
            new = made.y if done is None else ad.where(done, y, made.y)
            if method.between and len(at):
                out = _with_states(method, t, end, y, h, made, at, None, out)
            kept = tuple(
                _kept((row == k) | (k == 0), (t, h, y, *made.between), old)
                for row, old in zip(numbers, kept, strict=True)
            )
            return k + 1, new, made.memory, out, kept

        start = method.start(self._problem.system, times[0], y, times[1] - times[0])
        writes = method.between and len(at) > 0
        first = y.expand(len(at), -1).clone() if writes else ad.zeros(0, dtype=y.dtype)
        zero = ad.zeros((), dtype=ad.int64)
        kept = self._no_steps(start, numbers) if numbers else ()
        _, last, _, out, kept = ad.while_loop(
            lambda k, *_: k < count, step, (zero, y, start, first, kept), **self._options
        )
        if not len(at):
            return ad.zeros(0, y.numel(), dtype=y.dtype), kept
        if method.between:
            return out, kept
        return ad.where((at == times[0].detach())[:, None], y, last), kept

    def _no_steps(self, memory: Any, numbers: tuple[Tensor, ...]) -> Any:
        """Room for steps, of which a first one is written in any case."""
        method, plain, y = self._problem.method, self._problem.system.without_history(), self._y

        def between() -> list[Any]:
            with ad.no_grad():
                one = ad.ones((), dtype=y.dtype)
                before = tuple(m.detach() for m in memory)
                made = method.step(plain, self._marks[0], y.detach(), 1e-6 * one, before)
                return [b.shape for b in made.between]

        shapes = _core._unrecorded(between)
        made = []
        for row in numbers:
            n = len(row)
            t, h = self._marks[0].expand(n).clone(), ad.ones(n, dtype=y.dtype)
            parts = [ad.zeros(n, *shape, dtype=y.dtype) for shape in shapes]
            made.append((t, h, y.detach().expand(n, -1).clone(), *parts))
        return tuple(made)


def _made(method: Method, system: System, t: Tensor, y: Tensor, h: Tensor, memory: Any) -> Step:
    """A step; equations are solved without history first."""
    if not method.implicit:
        return method.step(system, t, y, h, memory)
    with ad.no_grad():
        plain, before = system.without_history(), tuple(m.detach() for m in memory)
        search = method.step(plain, t.detach(), y.detach(), h.detach(), before)
    return method.step(system, t, y, h, memory, search.found)


def _kept(here: Tensor, new: tuple[Tensor, ...], old: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(
        ad.where(here.reshape(-1, *[1] * n.ndim), n, o) for n, o in zip(new, old, strict=True)
    )


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
    count = _arrived(problem, control, state, count, most, ad.zeros((), dtype=ad.bool))
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


def _arrived(
    problem: Problem, control: Control, state: State, count: Tensor, most: int, done: Tensor
) -> Tensor:
    """The number of steps; it raises where the end is not reached, each time the program runs."""
    method = problem.method
    arrived = CheckedCall(
        "integrate.arrives", check_end, 2, most, method.name, bool(method.implicit)
    )
    (found,) = _core._host_call(arrived, [state.t, control.t1, count, state.size, done])
    return found


def check_end(tensors: Sequence[Tensor], most: int, name: str, implicit: bool) -> None:
    """Raise where the end is not reached."""
    t, t1, count, size, done = tensors
    if bool(t == t1) or bool(done):
        return
    why = (
        f"{most} steps were not enough (max_steps)"
        if int(count) >= most
        else "the step became too short"
        if bool(ad.isfinite(size))
        else "the slope is not finite, or the equations of a step have no solution"
    )
    raise stopped(name, implicit, float(t), int(count), None, why)
