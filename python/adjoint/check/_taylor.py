"""The Taylor test and the sweep over steps, from the evaluations of one line.

Taking away more terms of the Taylor series must leave remainders that fall faster: like t, t² and
t³ as the step t halves. A wrong gradient leaves t where t² should be, a wrong Hessian t².
"""

from __future__ import annotations

import math

import numpy as np

from ._line import LARGEST, Line
from ._results import Sweep, Taylor

__all__ = ["sweep", "taylor"]


def taylor(line: Line, w: int, curvature: float | None) -> Taylor:
    """Remainders along a line; ``curvature`` is d·H·d, or None to leave the second order out."""
    samples = [s for s in line.sweep() if math.isfinite(s.plus[w])]
    orders = 2 if curvature is None else 3
    remainders: list[list[float]] = [[] for _ in range(orders)]
    for s in samples:
        left = float(s.plus[w])
        remainders[0].append(abs(left))
        left -= float(s.plus_said[w])
        remainders[1].append(abs(left))
        if curvature is not None:
            remainders[2].append(abs(left - curvature * s.t**2 / 2))
    floor = float(line.noise[w])
    steps = [s.t for s in samples]
    return Taylor(steps, remainders, [_rate(r, steps, floor) for r in remainders], floor)


def _rate(remainders: list[float], steps: list[float], floor: float) -> float | None:
    """The exponent at the smallest steps at which the remainder is not yet rounding."""
    clear = 0
    while clear < len(remainders) and remainders[clear] > 12 * floor:
        clear += 1
    # Below a kink or a jump that the larger steps pass, nothing may be left at once: exact too.
    cliff = clear < len(remainders) and remainders[clear - 1] > 1e4 * max(floor, remainders[clear])
    if clear < 3 or cliff:
        return None
    used = slice(max(0, clear - 4), clear)
    logs = np.log2([max(r, 5e-324) for r in remainders[used]])
    return float(np.polyfit(np.log2(steps[used]), logs, 1)[0])


def sweep(line: Line, w: int, size: float) -> Sweep:
    """The V: errors relative to ``size``, the derivative along the line."""
    size = size or 1.0
    steps, errors = [], []
    for level, sample in enumerate(line.sweep(), LARGEST):
        steps.append(sample.t)
        errors.append(abs(line.errors(level, w, 0)) / size)
    best = line.bottom(w)
    if best is None:
        return Sweep(steps, errors, math.nan, math.nan, math.nan)
    return Sweep(steps, errors, 2.0**-best.level, abs(best.error) / size, best.doubt / size)
