"""The choice of steps: a pass without recording that finds which steps to take.

What is differentiated afterwards are these steps, of these lengths: the discrete adjoint. The
lengths have no derivative; the result depends on them by no more than its tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import everywhere, largest_value

from ._methods import Method, Slope
from ._radau import NoStages

__all__ = ["Plan", "Tolerance", "plan_steps"]

_SAFETY, _SHRINK, _GROW = 0.9, 0.2, 10.0


class Tolerance(NamedTuple):
    """SciPy's: the error allowed is ``atol + rtol * |y|``, in the root mean square."""

    rtol: float
    atol: Any

    def size(self, error: Tensor, y: Tensor, new: Tensor) -> float:
        """Of an error, relative to what is allowed; the largest of all samples."""
        scale = self.atol + self.rtol * ad.maximum(y.abs(), new.abs())
        return largest_value(((error / scale) ** 2).mean().sqrt())


class Plan(NamedTuple):
    """Steps from ``times[k]`` to ``times[k + 1]``, and why there are no more."""

    times: list[float]
    rejected: int
    status: int
    message: str


def plan_steps(
    method: Method,
    slope: Slope,
    t0: float,
    t1: float,
    y: Tensor,
    tolerance: Tolerance,
    first: float | None,
    longest: float,
    most: int,
    watch: Callable[..., bool] | None,
) -> Plan:
    """Find the steps. ``watch(t, h, y, step)`` is told of each, and may end the pass."""
    direction = 1.0 if t1 >= t0 else -1.0

    def number(v: float) -> Tensor:
        return ad.tensor(v, dtype=y.dtype)

    memory = method.start(slope, number(t0), y)
    if not everywhere(ad.isfinite(memory)):
        return Plan([t0], 0, -1, f"the slope is not finite at t = {t0:g}")
    h = first if first is not None else _first(method, slope, t0, t1, y, memory, tolerance)
    times, rejected, t = [t0], 0, t0
    after_rejection = False
    while t != t1:
        if len(times) > most:
            return Plan(times, rejected, -1, f"{most} steps were not enough (max_steps)")
        h = min(h, longest)
        if h < 10 * math.ulp(max(abs(t), abs(t1))):
            return Plan(times, rejected, -1, f"the step became too short at t = {t:.9g}")
        end = t + direction * h
        # The rest in one step, or in two of equal length rather than in a short one.
        if direction * (end - t1) >= 0:
            end = t1
        elif direction * (t1 - end) < 0.1 * h:
            end = t + (t1 - t) / 2
        length = end - t
        try:
            step = method.step(slope, number(t), y, number(length), memory)
            size = tolerance.size(step.error, y, step.y)
        except NoStages:
            size = math.inf
        if not size <= 1:  # NaN as well
            rejected += 1
            after_rejection = True
            factor = _SAFETY * size ** (-1 / method.order) if math.isfinite(size) else _SHRINK
            h = abs(length) * max(_SHRINK, factor)
            continue
        grow = _GROW if size == 0 else min(_GROW, _SAFETY * size ** (-1 / method.order))
        h = abs(length) * (min(1.0, grow) if after_rejection else grow)
        after_rejection = False
        times.append(end)
        if watch is not None and watch(t, length, y, step):
            return Plan(times, rejected, 1, "a terminal event occurred")
        t, y, memory = end, step.y, step.memory
    return Plan(times, rejected, 0, "the end of the interval was reached")


def _first(
    method: Method, slope: Slope, t0: float, t1: float, y: Tensor, f: Tensor, tolerance: Tolerance
) -> float:
    """Hairer, Norsett and Wanner, Solving ODEs I, II.4."""
    span = abs(t1 - t0)
    if span == 0 or y.numel() == 0:
        return span
    zero = ad.zeros_like(y)
    d0, d1 = tolerance.size(y, y, zero), tolerance.size(f, y, zero)
    h0 = 1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1
    h0 = min(h0, span)
    signed = math.copysign(h0, t1 - t0)
    there = slope(ad.tensor(t0 + signed, dtype=y.dtype), y + signed * f)
    d2 = tolerance.size(there - f, y, zero) / h0
    largest = max(d1, d2)
    if not math.isfinite(largest):
        return min(1e-6, span)
    h1 = max(1e-6, h0 * 1e-3) if largest <= 1e-15 else (0.01 / largest) ** (1 / (method.order + 1))
    return min(100 * h0, h1, span)
