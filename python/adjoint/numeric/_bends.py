"""Is the value at x where those on both sides lead? A kink, a jump or a bump between them is not.

A central difference does not look at x itself, so a pole, a narrow bump or a kink nearer than the
step goes unseen by it and by every longer step. But the value there is known: the second
difference costs nothing. That of a smooth function is next to nothing by steps that suit it. Where
one is larger, a much shorter pair tells a kink at x (whose slope is the mean of both sides) from
one nearby, whose entries are then settled on their own. Read next: _verification.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ._directional import direction_size
from ._errors import EvaluationError
from ._jacobians import Dense, Jacobian, Sparse
from ._point import Point
from ._sparse_jacobian import AnyPattern
from ._steps import Steps
from ._verification import SHORT, entries_of, settle

__all__ = ["Bends", "mended", "mended_along"]

_ROUNDINGS = 16.0
_WORSE = 300.0  # times what the steps are chosen for
_LONG = 30.0  # times the square of a step that is long, since slopes are straight
_LIKE = 3.0  # how far what grows as it should may be off


class _Bend(NamedTuple):
    """Of the outputs of one group of inputs that move together."""

    second: Any  # differences
    slopes: Any
    width: Any  # from x to either side


class Bends:
    """The groups of inputs (a column, a colour, an array) whose second differences are large."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self.seen: dict[int, _Bend] = {}

    def note(
        self,
        group: int,
        columns: Any,
        distances: Sequence[Any],
        values: Sequence[Any],
        slopes: Any,
        y: Any,
    ) -> None:
        """Look at the values on both sides of x."""
        if len(values) != 2 or np.any((distances[0] > 0) == (distances[1] > 0)):
            return  # at a bound
        width = np.abs(distances[0] - distances[1]) / 2
        e, scale = self._steps.rounding, self._steps.scale[columns]
        with np.errstate(all="ignore"):
            second = np.abs((values[0] - y) + (values[1] - y))
            share = _WORSE * e ** (2 / 3) + _LONG * (width / scale) ** 2
            if (second > share * (np.abs(y) + np.abs(slopes) * scale)).any():
                self.seen[group] = _Bend(second, np.copy(slopes), width)


def mended(
    point: Point, steps: Steps, pattern: AnyPattern | None, found: Jacobian, bends: Bends
) -> tuple[Jacobian, list[tuple[int, int]]]:
    """The Jacobian with the entries of kinks and bumps nearby settled; those that are not."""
    groups = [g for g in bends.seen if not _is_known(point, steps, pattern, g, bends.seen[g])]
    if not groups:
        return found, []
    whole = pattern is not None and not isinstance(found, Sparse)
    settled, unsettled, _ = settle(point, steps, pattern, None if whole else groups)
    if whole:
        return settled, unsettled
    if isinstance(found, Sparse) and isinstance(settled, Sparse) and pattern is not None:
        here = np.isin(pattern.colours[pattern.columns], groups)
        values = np.where(here, settled.values, found.values)
        return Sparse(found.rows, found.columns, values, found.shape), unsettled
    matrix = np.array(found.dense())
    matrix[:, groups] = settled.dense()
    return Dense(matrix), unsettled


def _is_known(
    point: Point, steps: Steps, pattern: AnyPattern | None, group: int, bend: _Bend
) -> bool:
    """Whether a much shorter pair finds the same slopes, or the same kink: one at x."""
    e = steps.rounding
    try:
        ends = steps.both_sides(e**SHORT * steps.scale)
    except ValueError:
        return True  # no room
    slopes, second, columns, rows = entries_of(point, pattern, ends, [group])
    short = (np.abs(ends[0] - ends[1]) / 2)[columns]
    with np.errstate(all="ignore"):
        ratio = short / bend.width
        size = np.abs(point.y[rows]) + np.abs(bend.slopes) * steps.scale[columns]
        rounding = _ROUNDINGS * e * size
        same = np.abs(slopes - bend.slopes) * short <= rounding + 1e-3 * np.abs(slopes) * short
        smooth = second <= _LIKE * bend.second * ratio**2 + rounding
        kink = (second <= _LIKE * bend.second * ratio) & (_LIKE * second >= bend.second * ratio)
        fine = (smooth & same) | (kink & same) | ~np.isfinite(second)
    return bool(fine.all())


class _Line:
    """A function along one direction, as a function of one number."""

    def __init__(self, point: Point, v: Any) -> None:
        self._point, self._v = point, v
        self.x, self.y = np.zeros(1), point.y
        self.inputs, self.outputs, self.finite = _One(), point.outputs, point.finite

    def values(self, moves: Any, total: int, checked: bool = True) -> Any:
        point, v = self._point, self._v
        there = [
            (point.representable(point.x + t * v), lambda: "x + a direction") for _, t in moves
        ]
        return point.values(there, total, checked)


class _One:
    size = 1


class _LineSteps:
    """Steps along a direction: on both sides, or none."""

    def __init__(self, steps: Steps, v: Any) -> None:
        self._steps, self._v = steps, v
        self.noise, self.rounding = steps.noise, steps.rounding
        length = direction_size(steps.by_rule(), v, 2) / steps.noise ** (1 / 3)
        self.scale = np.array([length])

    def both_sides(self, size: Any) -> tuple[Any, Any]:
        steps, x = self._steps, self._steps.point.x
        reach = np.abs(self._v) * size
        if not ((x - reach >= steps.low) & (x + reach <= steps.high)).all():
            raise ValueError("no room")
        return size, -size


def mended_along(
    point: Point, steps: Steps, v: Any, found: Any, bends: Sequence[tuple[Any, float]]
) -> tuple[Any, bool]:
    """The same for a product with a direction: it, and whether it has settled.

    ``bends`` are second differences along it and their steps, by two steps.
    """
    if len(bends) != 2:
        return found, True  # some elements were stepped apart, or at a bound
    (second, width), (nearer, less) = bends
    with np.errstate(all="ignore"):
        size = np.abs(point.y) + np.abs(found) * less / steps.noise ** (1 / 3)
        seen = nearer > _ROUNDINGS * steps.rounding * size
        if not (seen & (nearer / less**2 > 2 * second / width**2)).any():
            return found, True
    bend = second, found, width
    line: Any = _Line(point, v)
    along: Any = _LineSteps(steps, v)
    with contextlib.suppress(EvaluationError, ValueError):
        if _is_known(line, along, None, 0, _Bend(*bend)):
            return found, True
        settled, unsettled, _ = settle(line, along, None)
        return settled.dense()[:, 0], not unsettled
    return found, True
