"""The choice of steps: a pass without recording that finds which steps to take.

What is differentiated afterwards are these steps, of these lengths: the discrete adjoint. The
lengths have no derivative; the result depends on them by no more than its tolerance.

An attempt at a step, with the decision about it, is made of operations: many of them run as one
`adjoint.scan`, without Python between them.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import all_of, everywhere, is_batched, somewhere
from adjoint.loops._progress import bar_for

from ._methods import Method
from ._system import Held, System
from ._tolerance import Tolerance
from ._watch import Watch, Watcher

__all__ = ["Control", "Plan", "Rows", "State", "plan_steps"]

_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 10.0

# Attempts that run together. After the last step the rest of them are made for nothing: few at
# first, as many as seem to be needed then, and one by one where each takes so many seconds.
_FIRST = 8
_SLOW = 0.02


class State(NamedTuple):
    """Where the choice of steps is.

    Attributes
    ----------
    h
        The length of the next attempt, without its direction.
    again
        Whether the last attempt was rejected, and
    size
        the error of that, where one is the tolerance.
    """

    t: Tensor
    y: Tensor
    memory: tuple[Tensor, ...]
    h: Tensor
    again: Tensor
    size: Tensor


class Control(NamedTuple):
    """What decides about steps."""

    method: Method
    system: System
    tolerance: Tolerance
    t1: Tensor
    longest: float

    def start(self, t: Tensor, y: Tensor, first: float | None) -> State:
        """Before the first step."""
        h = self._first(t, y) if first is None else ad.full_like(t, first)
        memory = self.method.start(self.system, t, y, h * (self.t1 - t).sign())
        return State(t, y, memory, h, ad.zeros((), dtype=ad.bool), ad.zeros_like(h))

    def ended(self, s: State) -> Tensor:
        """Whether there is nothing to do: it has arrived, or the step is too short."""
        return (s.t == self.t1) | self.stuck(s)

    def stuck(self, s: State) -> Tensor:
        """Whether the step is too short to change the time."""
        far = ad.maximum(s.t.abs(), self.t1.abs())
        return ~(s.h >= 10 * float(ad.finfo(far.dtype).eps) * far) & (s.t != self.t1)

    def attempt(self, s: State, watch: Watch | None = None) -> tuple[State, Any, Tensor]:
        """Try a step: the state after it, the step, and whether it is taken.

        With a ``watch``, samples that an event has ended stay what they are.
        """
        system = self.system
        if watch is not None:
            system = Held(system, watch.done, watch.since, s.y)
        h = s.h.clamp(max=self.longest)
        left = self.t1 - s.t
        # The rest in one step, or in two of equal length rather than in a short one.
        share = h / left.abs()
        length = ad.where(share >= 1, left, ad.where(share > 1 / 1.1, left / 2, left * share))
        end = ad.where(share >= 1, self.t1, s.t + length)
        length = end - s.t
        step = self.method.step(system, s.t, s.y, length, s.memory)
        error, new = step.error, step.y
        if watch is not None:
            error, new = ad.where(watch.done, 0.0, error), ad.where(watch.done, s.y, new)
        size = self.tolerance.norm(error, s.y, new)
        taken = size <= 1  # not where it is NaN
        power = self.method.exponent(s.memory, h.dtype)
        factor = _SAFETY * size.clamp(min=1e-20) ** power
        grow = factor.clamp(max=_GROW) if step.grow is None else step.grow
        grow = ad.where(s.again, grow.clamp(max=1.0), grow)
        shrink = ad.where(ad.isfinite(size), factor.clamp(min=_SHRINK), _SHRINK)
        after = State(
            ad.where(taken, end, s.t),
            ad.where(taken, new, s.y),
            tuple(
                ad.where(taken, a, b)
                for a, b in zip(step.memory, self.method.rejected(s.memory), strict=True)
            ),
            length.abs() * ad.where(taken, grow, shrink),
            ~taken,
            size,
        )
        return after, step, taken

    def _first(self, t: Tensor, y: Tensor) -> Tensor:
        """Hairer, Norsett and Wanner, Solving ODEs I, II.4."""
        tolerance, span = self.tolerance, (self.t1 - t).abs()
        zero = ad.zeros_like(y)
        f = self.system.rate(t, y)
        d0, d1 = tolerance.norm(y, y, zero), tolerance.norm(f, y, zero)
        small = (d0 < 1e-5) | (d1 < 1e-5)
        h0 = ad.minimum(ad.where(small, 1e-6, 0.01 * d0 / d1).to(t.dtype), span)
        signed = h0 * (self.t1 - t).sign()
        there = self.system.rate(t + signed, y + signed * f)
        d2 = tolerance.norm(there - f, y, zero) / h0
        most = ad.maximum(d1, d2)
        h1 = ad.where(
            most <= 1e-15,
            (h0 * 1e-3).clamp(min=1e-6),
            (0.01 / most) ** (1 / (self.method.order + 1)),
        )
        h = ad.minimum(ad.minimum(100 * h0, h1.to(t.dtype)), span)
        return ad.where(ad.isfinite(h), h, ad.minimum(span, 1e-6 + 0 * span))


class Rows(NamedTuple):
    """Steps that were taken, in the order of time.

    Attributes
    ----------
    t, y
        Their ends.
    found, between
        See `Step`.
    watched
        Which events happen in them.
    """

    t: Tensor
    found: tuple[Tensor, ...]
    y: tuple[Tensor, ...]
    between: tuple[Tensor, ...]
    watched: tuple[Tensor, ...]


@dataclasses.dataclass
class Plan:
    """Steps from ``times[k]`` to ``times[k + 1]``, and why there are no more.

    ``watch`` is what was seen of events; ``holds`` whether samples of a `vmap` may end by them,
    each in a step of its own.
    """

    times: list[float]
    rows: Rows | None = None
    watch: Watch | None = None
    holds: bool = False
    rejected: int = 0
    status: int = 0
    message: str = "the end of the interval was reached"

    @property
    def steps(self) -> int:
        """How many there are."""
        return len(self.times) - 1

    def failed(self, message: str) -> Plan:
        """The same, with the reason why it ends too early."""
        self.status, self.message = -1, message
        return self


def plan_steps(
    control: Control,
    t: Tensor,
    y: Tensor,
    first: float | None,
    most: int,
    keep: bool,
    watcher: Watcher | None,
) -> Plan:
    """Find the steps.

    Parameters
    ----------
    keep
        Whether states are kept with the times.
    watcher
        Of events, which may end the steps; or None.
    """
    begin, end = float(t), float(control.t1)
    plan = Plan([begin])
    watch = plan.watch = None if watcher is None else watcher.start(t, y)
    if begin == end:
        return plan
    now = time.monotonic()
    f = control.system.slope(t, y)
    is_slow = time.monotonic() - now > _SLOW / control.method.slopes
    if not everywhere(ad.isfinite(f)):
        return plan.failed(f"the slope is not finite at t = {begin:g}: it is {_shown(f)}")
    state = start = control.start(t, y, first)
    if watcher is not None and watch is not None:
        plan.holds = watcher.may_end and is_batched(f, y, watch.values)
    holds = plan.holds

    def one(
        carry: tuple[State, Watch | None], _: None
    ) -> tuple[tuple[State, Watch | None], tuple[Tensor, Tensor, Rows]]:
        state, watch = carry
        ended = control.ended(state)
        if watch is not None:
            ended = ended | all_of(watch.done | watch.lost)
        at = state
        if control.method.implicit:
            # A step of no length has no matrix: what is left of a run repeats the first one, as
            # a slope that solves something itself must not meet numbers that are not finite.
            at = State(*_unless(ended, state, start))
        after, step, taken = control.attempt(at, watch if holds else None)
        after = State(*_unless(ended, after, state))
        hits: tuple[Tensor, ...] = ()
        if watcher is not None and watch is not None:
            watch, seen = watcher.after(watch, taken & ~ended, after.t, after.y)
            hits = (seen,)
        rows = Rows(
            after.t,
            step.found,
            (after.y,) if keep else (),
            step.between if keep else (),
            hits,
        )
        return (after, watch), (~ended, taken & ~ended, rows)

    length, parts = 1 if is_slow else _FIRST, []
    with bar_for("solve_ivp", 1000) as bar:
        while not bool(control.ended(state)):
            if plan.steps >= most or plan.rejected >= 10 * most:
                return plan.failed(f"{most} steps were not enough (max_steps)")
            now, before = time.monotonic(), plan.times[-1]
            (state, watch), (tried, taken, rows) = ad.scan(one, (state, watch), length=length)
            index = ad.nonzero(taken)[:, 0]
            plan.times += rows.t[index].tolist()
            plan.rejected += int(tried.sum()) - len(index)
            parts.append(Rows(*_chosen(index, rows)))
            if bar is not None:
                shares = [int(1000 * (t - begin) / (end - begin)) for t in (before, plan.times[-1])]
                bar.ran(shares[1] - shares[0], now, True)
            if watcher is not None and watch is not None:
                watcher.must_be_sound(watch)
                if everywhere(watch.done):
                    break
            is_slow = time.monotonic() - now > _SLOW * length
            left = abs(end - plan.times[-1]) / max(float(state.h), 1e-300)
            length = 1 if is_slow else int(min(1.1 * left + 2, 4 * max(length, _FIRST), 1024))
    if parts:
        plan.rows = Rows(*_joined(parts))
    plan.watch = watch
    if watch is not None and everywhere(watch.done):
        plan.status, plan.message = 1, "a terminal event occurred"
    elif plan.steps > most:
        plan.times = plan.times[: most + 1]
        return plan.failed(f"{most} steps were not enough (max_steps)")
    elif bool(control.stuck(state)):
        return plan.failed(_why_stuck(control, state))
    return plan


def _unless(ended: Tensor, new: Any, old: Any) -> list[Any]:
    return [
        tuple(_unless(ended, a, b)) if isinstance(a, tuple) else ad.where(ended, b, a)
        for a, b in zip(new, old, strict=True)
    ]


def _chosen(index: Any, rows: Any) -> list[Any]:
    return [tuple(_chosen(index, r)) if isinstance(r, tuple) else r[index] for r in rows]


def _joined(parts: list[Any]) -> list[Any]:
    return [
        tuple(_joined([*column])) if isinstance(column[0], tuple) else ad.cat(column)
        for column in zip(*parts, strict=True)
    ]


def _shown(f: Tensor) -> str:
    return "NaN or infinite for a sample" if is_batched(f) else str(f.tolist()[:6])


def _why_stuck(control: Control, state: State) -> str:
    """In words: a slope that is not finite, a singular matrix, or a solution that has no end."""
    t = f"t = {float(state.t):.9g}"
    method, system = control.method, control.system
    short = f"the step became too short at {t}"
    signed = state.h * (control.t1 - state.t).sign()
    near = system.slope(state.t + signed, state.y + signed * system.slope(state.t, state.y))
    if method.implicit:
        whole = system.mass_matrix(state.y) - signed * system.matrix(state.t, state.y)
        if somewhere(ad.linalg.lu_factor_ex(whole)[2] != 0):
            return (
                f"{short}, where the matrix M - h J is singular for every h; a system with a "
                "singular mass matrix must have index 1"
            )
    if not everywhere(ad.isfinite(near)):
        return f"{short}, where the slope is not finite: it is {_shown(near)}"
    if not math.isfinite(float(state.size)) and method.implicit:
        return (
            f"{short}, beyond which the slope is not finite, or the equations of a step have no "
            "solution that Newton's method finds"
        )
    if not math.isfinite(float(state.size)):
        return f"{short}, beyond which the slope is not finite"
    return short
