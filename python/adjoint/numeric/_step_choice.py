"""Looks at how the function behaves along one direction, to choose the step of each input array.

The difference between central differences at two steps falls with the step while the function's
curvature dominates and rises while noise does. Walking downhill from the rule's step finds the
bottom of that V without knowing either; a few pairs of evaluations per input array (and as many for
elements at a bound), once per function. Read next: _steps.py.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ._errors import EvaluationError
from ._point import Point
from ._steps import Steps, root_mean_square

if TYPE_CHECKING:
    from ._plan import Plan

__all__ = ["MOST_PAIRS", "PAIRS", "ROUGH", "forget", "known_step", "probe"]

PAIRS = 5  # evaluated for a smooth function, per input array
MOST_PAIRS = 13  # one for each power of ten: of linear functions, constants, noise
_RATIO = 10.0
_LARGEST, _SMALLEST = 0.3, 1e-13
ROUGH = 1e-3  # noise of which all slopes are made, but for those of the longest steps
_NOISY = 100.0  # roundings, from which on it is asked what they are
_NEAR = -2  # the longest of the steps by which that is seen
_ALIKE, _TIMES = 0.2, 2  # second differences that follow one another
_UNSETTLED = 0.03  # slopes further apart than this, relative to their size, have not converged


def probe(plan: Plan, point: Point, steps: Steps) -> None:
    """Set ``steps.relative``: what an earlier probe found, or a new one."""
    if not plan.method.probe or not np.isnan(steps.given).any():
        return
    if steps.noise >= ROUGH or steps.relative is not None:
        return  # luck would choose; or they are chosen
    order = plan.method.order
    rule = steps.noise ** (1 / (order + 1))
    relative = np.full(point.inputs.size, rule)
    for k, name in enumerate(point.inputs.names):
        part = point.inputs.part(k)
        size = float(np.max(steps.scale[part], initial=0))
        for direction in _directions(steps, part):
            key = _key(name, point.inputs.dtypes[k], steps.noise) + direction.where
            known = plan.steps_found.get(key)
            if known is None or not known[0] / 10 <= size <= 10 * known[0]:
                try:
                    found = _search(point, steps, part, direction, order)
                except EvaluationError:
                    return  # it hangs, and may at every step: do not wait for each of them
                known = (size, *found[:2])
                if found[2]:
                    plan.steps_found[key] = known
            relative[direction.v != 0] = known[1]
            steps.rounding = max(steps.rounding, known[2])
    steps.relative = relative


def forget(plan: Plan, point: Point, steps: Steps) -> None:
    """Let the next probe choose anew: what was found elsewhere does not suit this point."""
    for k, name in enumerate(point.inputs.names):
        key = _key(name, point.inputs.dtypes[k], steps.noise)
        for found in [f for f in plan.steps_found if f.startswith(key)]:
            del plan.steps_found[found]
    steps.relative, steps.rounding = None, steps.noise


def _key(name: str, dtype: Any, noise: float) -> str:
    return f"{name} {dtype} {noise:.0e}"


def known_step(plan: Plan, name: str, dtype: Any, noise: float) -> tuple[int, float, float]:
    """The order of the differences, the relative step, and the magnitude it was found for.

    The rule and NaN, if none was.
    """
    order = plan.method.order
    size, relative, _ = plan.steps_found.get(_key(name, dtype, noise), (np.nan, 0.0, 0.0))
    return order, relative or noise ** (1 / (order + 1)), size


def _search(
    point: Point, steps: Steps, part: slice, direction: _Direction, order: int
) -> tuple[float, float, bool]:
    """The relative step, the noise that was seen, and whether that is so elsewhere."""
    slopes: dict[int, Any] = {}
    bends: dict[int, Any] = {}

    def gap(k: int) -> float:
        """How far the slopes at 10**k and 10**(k-1) are apart, relative to the outputs."""
        a, b = (_slope(point, direction, j, slopes, bends) for j in (k, k - 1))
        # Slopes of exactly zero are steps too small to be seen in rounded outputs.
        if a is None or b is None or not (a.any() or b.any()):
            return float("inf")
        return _relative(a - b, np.maximum(np.abs(a), np.abs(b)), point.y)

    def bend(k: int) -> float:
        """The second derivative, of the outputs that change."""
        moved = (slopes[k] != 0) | (bends[k] != 0)
        if not moved.any():
            return float("inf")  # nothing to see at any length: a short step does no harm
        return _relative(bends[k][moved], np.abs(slopes[k][moved]), point.y[moved])

    def doubt(k: int) -> float:
        """The gap, or what smaller steps say of the noise: by luck one gap may be nothing."""
        return max(gap(k), gap(k - 1) / 10)

    middle = round(np.log10(steps.noise ** (1 / 3)))
    lowest = int(np.ceil(np.log10(max(_SMALLEST, 10 * _input_eps(point, part)))))
    k = min(middle, -1)
    here = doubt(k)
    top = round(np.log10(_LARGEST))
    while k < top and (not np.isfinite(here) or doubt(k + 1) < here):  # noise dominates: go up
        k, here = k + 1, doubt(k + 1)
    while k - 3 >= lowest and doubt(k - 1) < here:  # curvature dominates: go down
        k, here = k - 1, doubt(k - 1)
    if here > _UNSETTLED:
        # Steps that are far too long look like noise, too: the slopes of a fast wave are random.
        # But a wave is straight over a short step, and where there is noise a long one is.
        smaller = range(min(middle, -1) - 1, lowest + 2, -1)
        tried = [j for j in (k, *smaller) if np.isfinite(doubt(j))]
        straight = [j for j in tried if _is_straight(slopes, bends, (j, j - 1, j - 2))]
        longer = [j for j in range(min(middle, -1), top + 1) if np.isfinite(doubt(j))]
        k = min(straight or longer or [k], key=doubt)
    best, noise = _balance(gap, k, lowest, steps)
    if noise > _NOISY * steps.noise:
        nearer = [gap(j) for j in range(k, max(k - 4, lowest), -1)]
        if _is_calm(nearer) or _is_kinked(point, slopes, bends):
            # Not noise: the entries that it is about will be settled (_bends.py).
            return float(steps.noise ** (1 / (order + 1))), steps.noise, False
    if order == 1 and np.isfinite(gap(k)):
        # Where rounding and the second derivative, seen at the step k, do the same harm.
        # But not much less than the length over which the slope changes: values may be zero here.
        least = 0.01 * noise**0.5 * min(best / noise ** (1 / 3), 1.0)
        best = float(np.clip(2 * np.sqrt(noise / max(bend(k), 1e-300)), least, _LARGEST))
    elif order == 1:
        best = float(steps.noise**0.5)
    elif order > 2:
        # The length over which the slope changes stays; steps of a higher order are longer.
        best = min(best / noise ** (1 / 3), 1.0) * noise ** (1 / (order + 1))
    # Not farther than the function was seen to be there.
    seen = [10.0**j for j, found in slopes.items() if found is not None]
    return min(best, max(seen, default=best)), noise, True


def _is_straight(slopes: dict[int, Any], bends: dict[int, Any], steps: Sequence[int]) -> bool:
    """Whether the value at x is about between those on both sides, by each of some steps."""
    with np.errstate(all="ignore"):
        return all(np.nansum((bends[k] * 10.0**k) ** 2) <= np.nansum(slopes[k] ** 2) for k in steps)


def _is_calm(gaps: list[float]) -> bool:
    """Whether slopes by shorter steps than some are alike again: noise grows as steps shrink."""
    return any(
        np.isfinite(gaps[j]) and max(gaps[j + 1 : j + 3]) < gaps[j] for j in range(len(gaps) - 2)
    )


def _is_kinked(point: Point, slopes: dict[int, Any], bends: dict[int, Any]) -> bool:
    """Whether second differences fall with the step, as those of a kink do and noise does not."""
    there = sorted(k for k, found in slopes.items() if found is not None and k <= _NEAR)
    alike = 0
    for low, high in itertools.pairwise(there):
        size = np.abs(point.y) + np.abs(slopes[high]) + 1e-300
        with np.errstate(all="ignore"):
            near, far = (bends[k] * 100.0**k / size for k in (low, high))
            near = near * 10.0 ** (high - low)
            off, whole = np.nansum((far - near) ** 2), np.nansum(far**2)
        alike = alike + 1 if whole > 0 and off < _ALIKE**2 * whole else 0
        if alike == _TIMES:
            return True
    return False


def _relative(found: Any, slopes: Any, y: Any) -> float:
    """The typical size of what was found for some outputs, relative to those and their slopes."""
    size = np.hypot(y, slopes)
    size += 1e-2 * root_mean_square(size) + 1e-300
    with np.errstate(invalid="ignore", over="ignore"):
        shares = (found / size) ** 2
        # All NaN: the outputs are. There is nothing to choose a step by.
        return float(np.sqrt(np.nanmean(shares))) if not np.isnan(shares).all() else float("inf")


def _balance(gap: Any, k: int, lowest: int, steps: Steps) -> tuple[float, float]:
    """The step where both errors are equal, from the gaps on both sides of the bottom; the noise.

    Above it a gap is about c h**2, with h the larger step; below it, e / h, with h the smaller.
    """
    above, here = gap(k + 1) if k + 1 <= -1 else np.inf, gap(k)
    if not np.isfinite(here):
        return float(steps.noise ** (1 / 3)), steps.noise
    below = gap(k - 1) if k - 2 >= lowest else np.inf
    noise = steps.noise
    if np.isfinite(below) and below > 0:
        # Two estimates: one alone may by luck be far too small.
        further = gap(k - 2) if k - 3 >= lowest else np.inf
        found = [below * 10.0 ** (k - 2), further * 10.0 ** (k - 3)]
        known = [n for n in found if np.isfinite(n)]
        noise = max(noise, float(np.sqrt(np.mean(np.square(known)))))
    elif here > 0:
        noise = max(noise, min(here * 10.0 ** (k - 1), 1.0))
    if np.isfinite(above) and above > 30 * here:
        curvature = above / 10.0 ** (2 * (k + 1))
    else:
        curvature = max(here, 1e-300) / 10.0 ** (2 * k)
    best = (noise / (2 * curvature)) ** (1 / 3)
    return float(np.clip(best, 10.0 ** (k - 1), min(10.0 ** (k + 1), _LARGEST))), noise


class _Direction(NamedTuple):
    """Where to look: some coordinates of one array, by their scale."""

    v: Any
    inward: bool  # from a bound: there is room on one side only

    @property
    def where(self) -> str:
        return " at a bound" if self.inward else ""


def _directions(steps: Steps, part: slice) -> Iterator[_Direction]:
    """The coordinates with room on both sides, with mixed signs; those with room on one side."""
    x, scale = steps.point.x[part], steps.scale[part]
    above, below = steps.high[part] - x, x - steps.low[part]
    mixed = np.where(np.arange(x.size) * 2654435761 % 2**32 < 2**31, 1.0, -1.0)
    inside = np.minimum(above, below) >= _LARGEST * scale
    edge = ~inside & (np.maximum(above, below) >= 2 * _LARGEST * scale)
    for chosen, signs, inward in (
        (inside, mixed, False),
        (edge, np.where(above >= below, 1.0, -1.0), True),
    ):
        v = np.zeros(steps.scale.size)
        v[part] = np.where(chosen, signs * scale, 0.0)
        if v.any():
            yield _Direction(v, inward)


def _slope(
    point: Point,
    direction: _Direction,
    k: int,
    known: dict[int, Any],
    bends: dict[int, Any],
) -> Any:
    """The difference along a direction with the step 10**k; None where the function fails.

    Its error falls with the square of the step, on one side as well.
    """
    if k not in known:
        t = 10.0**k
        ends = [
            point.representable(point.x + s * t * direction.v)
            for s in ((1, 2) if direction.inward else (1, -1))
        ]
        moves = [(e, lambda: f"x + {t:.0e} * scale (choosing steps)") for e in ends]
        try:
            with np.errstate(all="ignore"):
                first, second = point.values(moves, 2)
                a, b = first - point.y, second - point.y
            known[k] = (4 * a - b if direction.inward else first - second) / (2 * t)
            bends[k] = (b - 2 * a if direction.inward else a + b) / t**2
        except EvaluationError as error:
            if error.hung:
                raise
            # Far steps may leave the domain; near ones are judged by the differences themselves.
            known[k] = None
    return known[k]


def _input_eps(point: Point, part: slice) -> float:
    k = point.inputs.owner(part.start) if part.stop > part.start else 0
    return float(np.finfo(point.inputs.dtypes[k]).eps)
