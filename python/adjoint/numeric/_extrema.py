"""Is an input next to an extremum? There a slope goes to zero, and its own size says little.

At the end of a fit the value and the slopes are next to nothing, so that all roundings look large
beside them: like few digits, or slopes that do not settle. What an error there has to be compared
with are the slopes over the length on which the function bends. Along one direction, second
differences that grow with the square of the step, over some decades, show a function that is smooth
there (a jump, a kink, noise and a staircase do not have them); slopes over the same steps then tell
whether the derivative is right. It is looked at only before a warning would be given. Read next:
_verification.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._point import Move, Point
from ._steps import Steps
from ._tiny_elements import attempts

__all__ = ["EXTREMUM", "right_at_extremum"]

_LENGTHS = 10.0 ** (-np.arange(1, 9) / 2)
_RUN = 4  # lengths in a row at which the function has to be seen to be a parabola
_ALIKE = 0.2  # how far second differences over the square of the step may be apart
_SEEN = 16.0  # roundings
_PART = 0.015  # times noise**(1/5), of the slope at the end of the longest step of a run
_FLAT = 1.0  # of the same: a slope that is no larger is one next to an extremum
EXTREMUM = 4 * len(_LENGTHS)  # evaluations, at most


def right_at_extremum(
    point: Point, steps: Steps, v: Any, found: Any, beyond: bool
) -> tuple[Any, Any]:
    """Which outputs are next to an extremum along ``v``, and have the slope ``found`` there.

    Outputs that no step moves count as well, if their slope is zero. And how far each input may
    move there, where that is farther than its magnitude (it is looked so far only if ``beyond``);
    else None.
    """
    right = np.zeros(point.outputs.size, bool)
    for direction, factor in _directions(steps, v, beyond):
        here, length = _right(point, steps, direction, factor * found)
        right |= here
        if right.all() and (np.abs(direction) > steps.scale).any():
            return right, np.abs(direction) * length
        if right.all():
            break
    return right, None


def _directions(steps: Steps, v: Any, beyond: bool) -> Iterator[tuple[Any, float]]:
    """The direction by the magnitudes of the inputs; the same as if 1.0 were among small ones."""
    used = (v != 0) & (steps.scale > 0)
    if not used.any() or not np.isfinite(v).all():
        return
    factor = float(np.min(steps.scale[used] / np.abs(v[used])))
    yield factor * v, factor
    longest = float(np.max(np.abs(factor * v)))
    if beyond and longest < 1 and steps.free[used].all():
        yield factor / longest * v, factor / longest


def _right(point: Point, steps: Steps, v: Any, found: Any) -> tuple[Any, float]:
    """Which outputs have the slope ``found``; the length over which all of these are parabolas."""
    slopes, bends, seen = _parabolas(point, steps, v)
    still = np.isnan(slopes) | ((slopes == 0) & (bends == 0))
    right = still.all(axis=0) & (np.isfinite(slopes).sum(axis=0) >= _RUN) & (found == 0)
    length = np.full(right.shape, np.nan)
    with np.errstate(all="ignore"):
        for k in range(len(_LENGTHS) - _RUN + 1):
            run = bends[k : k + _RUN]
            parabola = seen[k : k + _RUN].all(axis=0)
            apart = np.max(run, axis=0) - np.min(run, axis=0)
            parabola &= apart <= _ALIKE * np.min(np.abs(run), axis=0)
            size = np.abs(run[-1]) * _LENGTHS[k]
            # Of two pairs of lengths: the slopes of a jump, or noise, are others by other steps.
            later = slopes[k + 1 : k + _RUN]
            without_cubes = later[1:] + (later[1:] - later[:-1]) / 9  # by the root of ten apart
            slope = without_cubes[-1]
            allowed = _PART * steps.noise**0.2 * size
            near = (np.abs(found - without_cubes) <= allowed).all(axis=0)
            mine = parabola & near & (np.abs(slope) <= _FLAT * size)
            length = np.where(mine, np.fmax(length, _LENGTHS[k]), length)
            right |= mine
    return right, float(np.nanmin(length)) if np.isfinite(length).any() else 0.0


def _parabolas(point: Point, steps: Steps, v: Any) -> tuple[Any, Any, Any]:
    """Slopes and second derivatives along ``v`` by steps of all lengths, and which are seen."""
    ends = [point.representable(point.x + s * t * v) for t in _LENGTHS for s in (1, -1)]
    inside = [bool(((steps.low <= end) & (end <= steps.high)).all()) for end in ends]
    moves: list[Move] = [
        (end, lambda: "x + a direction") for end, fits in zip(ends, inside, strict=True) if fits
    ]
    there = attempts(point, moves)
    values = [next(there) if fits else None for fits in inside]
    next(there, None)  # lets the evaluations finish
    slopes = np.full((len(_LENGTHS), point.outputs.size), np.nan)
    bends, seen = slopes.copy(), np.zeros_like(slopes, bool)
    for k, t in enumerate(_LENGTHS):
        up, down = values[2 * k : 2 * k + 2]
        if up is not None and down is not None:
            with np.errstate(all="ignore"):
                slopes[k] = (up - down) / (2 * t)
                second = (up - point.y) + (down - point.y)
                bends[k] = second / t**2
                seen[k] = np.abs(second) > _SEEN * steps.noise * np.abs(point.y)
    return slopes, bends, seen
