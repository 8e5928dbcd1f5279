"""Events: zeros of functions along a solution, and the derivatives of their times."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import is_batched
from adjoint.optimize._implicit import answer
from adjoint.optimize._unknowns import Unknowns

from ._control import Rows
from ._methods import Method

__all__ = ["Events"]


class Events:
    """The events of a call: what is watched for, and what was seen."""

    def __init__(
        self, given: Any, unknowns: Unknowns, args: tuple[Any, ...], method: Method, y: Tensor
    ) -> None:
        events = [given] if callable(given) or not isinstance(given, (list, tuple)) else given
        events = [] if given is None else list(events)
        for e in events:
            if not callable(e):
                raise TypeError(f"solve_ivp(): an event is a function, not {type(e).__name__}")
        self._functions = [_flat(e, unknowns, args) for e in events]
        self._names = [getattr(e, "__name__", repr(e)) for e in events]
        self._directions = [float(getattr(e, "direction", 0)) for e in events]
        self._most = [int(getattr(e, "terminal", 0) or 0) for e in events]
        self._method, self._unknowns = method, unknowns
        self._seen: list[list[tuple[int, float]]] = [[] for _ in events]
        self._before: list[float] = []
        self._t, self._y = 0.0, y
        self.steps = 0
        self.ended, self._ended_by = False, -1

    @classmethod
    def none(cls, method: Method, y: Tensor) -> Events:
        """No events."""
        return cls(None, Unknowns(y, "solve_ivp"), (), method, y)

    def __bool__(self) -> bool:
        return bool(self._functions)

    def start(self, t: Tensor, y: Tensor) -> None:
        """Look at the beginning."""
        if self._functions:
            self._t, self._y = float(t), y
            self._before = self._numbers(self.values(t, y))

    def values(self, t: Tensor, y: Tensor) -> Tensor:
        """Of all events."""
        return ad.stack([f(t, y) for f in self._functions])

    def _numbers(self, values: Tensor) -> Any:
        if is_batched(values):
            raise NotImplementedError(
                "solve_ivp(): the samples of vmap have events at different times, so that they "
                "need steps of their own\n  fix: solve them one by one in a loop"
            )
        return values.tolist()

    def look(self, rows: Rows) -> bool:
        """Look for zeros within steps; whether one of them ends the solution."""
        ends, values = rows.t.tolist(), self._numbers(rows.watched[0])
        for k, (end, after) in enumerate(zip(ends, values, strict=True)):
            between = tuple(b[k] for b in rows.between)
            self._look_at(end, after, between)
            self.steps += 1
            if self.ended:
                return True
            self._t, self._y, self._before = end, rows.y[0][k], after
        return False

    def _look_at(self, end: float, after: list[float], between: tuple[Tensor, ...]) -> None:
        t, y, h = self._t, self._y, end - self._t
        length = ad.tensor(h, dtype=y.dtype)

        def at(theta: float, which: int) -> float:
            state = self._method.value(y, length, between, ad.tensor(theta, dtype=y.dtype))
            return float(self._functions[which](ad.tensor(t + theta * h, dtype=y.dtype), state))

        here: list[tuple[float, int]] = []
        for k, direction in enumerate(self._directions):
            a, b = self._before[k], after[k]
            if not math.isfinite(b):
                raise ValueError(
                    f"solve_ivp(): the event {self._names[k]} is {b} at t = {end:g}\n"
                    "  fix: an event is finite along the solution"
                )
            up, down = a <= 0 < b, a >= 0 > b
            if a == 0 and (self.steps > 0 or b == 0):
                continue  # it was found at the end of the step before, or it stays zero
            if (up and direction >= 0) or (down and direction <= 0):
                here.append((_bisected(functools.partial(at, which=k), a, b), k))
            elif b == 0 and a != 0 and direction * (b - a) >= 0:
                here.append((1.0, k))
        for theta, k in sorted(here):
            self._seen[k].append((self.steps, t + theta * h))
            if self._most[k] and len(self._seen[k]) >= self._most[k]:
                self.ended, self._ended_by = True, k
                break

    def found(self, path: Any) -> tuple[Any, Any]:
        """Times and states of the events, with their derivatives; None without events."""
        if not self._functions:
            return None, None
        times, states = [], []
        for function, seen, name in zip(self._functions, self._seen, self._names, strict=True):
            t = [self._time(path, function, k, at, name) for k, at in seen]
            y = [self._unknowns.tree(path.at_step(k, s)) for (k, _), s in zip(seen, t, strict=True)]
            times.append(ad.stack(t) if t else ad.empty(0, dtype=path.times.dtype))
            plain = y and all(isinstance(state, Tensor) for state in y)
            states.append(ad.stack(y) if plain else y)
        return times, states

    def _time(
        self, path: Any, function: Callable[..., Tensor], k: int, at: float, name: str
    ) -> Tensor:
        def residual(t: Tensor) -> Tensor:
            return function(t[0], path.at_step(k, t[0])).reshape(1)

        found = answer(residual, ad.tensor([at], dtype=path.times.dtype))[0]
        if found.requires_grad or ad._core._has_tangent(found):
            ends = [ad.tensor([float(path.times[j])], dtype=path.times.dtype) for j in (k, k + 1)]
            self._warn_if_it_grazes(residual, at, ends, name)
        return found

    def _warn_if_it_grazes(
        self, residual: Callable[[Tensor], Tensor], at: float, ends: list[Tensor], name: str
    ) -> None:
        """The derivative of the time divides by how fast the event passes zero."""
        near = 1e-3 * (ends[1] - ends[0])
        with ad.no_grad():
            first, last = (residual(t).detach() for t in ends)
            here = ad.tensor([at], dtype=near.dtype)
            beside = residual(here + near).detach() - residual(here - near).detach()
        if float(beside.abs()) <= 1e-5 * float((last - first).abs()):
            warnings.warn(
                f"solve_ivp(): the event {name} hardly passes zero at t = {at:.6g}, but grazes it: "
                "the derivative of its time is not defined there, or lost in rounding\n"
                "  fix: an event whose value changes where it is zero",
                stacklevel=2,
            )

    def missed(self, t0: float, t1: float) -> list[str]:
        """That an event did not happen again, in words, for each."""
        return [
            f"the event {name} was not met between t = {t0:g} and {t1:g}, where its value is "
            f"{value:.6g}"
            for name, value in zip(self._names, self._before, strict=True)
        ]

    def last(self, times: list[Tensor]) -> Tensor:
        """The time of the event that ended the solution."""
        return times[self._ended_by][-1]

    def before_end(self, times: Tensor, path: Any) -> int:
        """How many of the times lie before the event that ended the solution."""
        last = self._seen[self._ended_by][-1][1]
        forward = bool(path.times[-1] >= path.times[0])
        return int((times <= last).sum() if forward else (times >= last).sum())


def _flat(
    event: Callable[..., Any], unknowns: Unknowns, args: tuple[Any, ...]
) -> Callable[..., Tensor]:
    def flat(t: Tensor, v: Tensor) -> Tensor:
        return ad.as_tensor(event(t, unknowns.tree(v), *args)).reshape(())

    return flat


def _bisected(f: Callable[[float], float], before: float, after: float) -> float:
    """Where a function that changes its sign in [0, 1] is zero, to rounding.

    By the secant where that stays inside and helps, else by halves (Dekker's method).
    """
    low, high, f_low, f_high = 0.0, 1.0, before, after
    for _ in range(200):
        if f_high == 0 or high - low <= 4 * math.ulp(1.0):
            break
        middle = (low + high) / 2
        secant = high - f_high * (high - low) / (f_high - f_low)
        guess = secant if low < secant < high else middle
        for s in (guess, middle):
            if not low < s < high:
                continue
            value = f(s)
            if (value > 0) == (f_high > 0) and value != 0:
                high, f_high = s, value
            elif value == 0:
                return s
            else:
                low, f_low = s, value
    return high
