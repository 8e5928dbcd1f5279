"""How far to step: options per argument, bounds, and the sizes that balance the two errors.

A difference has a truncation error, which grows with the step, and a rounding error, which
shrinks with it. For an output known to a relative error ``e`` the sum is smallest near a relative
step of ``e**(1/2)`` (forward) and ``e**(1/3)`` (central), relative to the distance over which the
function changes. That distance is not known; the magnitude of x stands for it until _step_choice.py
has looked. Read next: _method.py.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from ._point import Point

__all__ = ["Steps", "grouped", "root_mean_square"]


def spread(point: Point, option: Any, what: str, default: float) -> Any:
    """An option as one number per coordinate; NaN where it is not given."""
    vector = np.full(point.inputs.size, default)
    if option is None:
        return vector
    for k, value in enumerate(point.per_input(option, what)):
        if value is None:
            continue
        try:
            vector[point.inputs.part(k)] = point.inputs.spread(k, value)
        except ValueError:
            raise ValueError(
                f"{what}= for {point.inputs.names[k]} has shape {list(np.shape(value))}, "
                f"the input {list(point.inputs.shapes[k])}"
            ) from None
    return vector


def grouped(lengths: Any, decades: float) -> list[Any]:
    """The places of lengths, in groups: within so many powers of ten of the longest of a group."""
    with np.errstate(divide="ignore"):
        order, powers = np.argsort(-lengths, kind="stable"), np.log10(lengths)
    groups: list[list[int]] = []
    for k in order.tolist():
        if groups and powers[k] >= powers[groups[-1][0]] - decades:
            groups[-1].append(k)
        else:
            groups.append([k])
    return [np.array(group) for group in groups]


def root_mean_square(values: Any) -> float:
    """Of positive magnitudes whose squares may be too large for floats."""
    largest = float(np.max(values))
    if not 0 < largest < np.inf:
        return largest
    return largest * float(np.sqrt(np.mean((values / largest) ** 2)))


class Steps:
    """The steps of every coordinate of one point."""

    def __init__(
        self, point: Point, step: Any, scale: Any, bounds: Any, noise: float | None
    ) -> None:
        self.point = point
        self.given = spread(point, step, "step", np.nan)
        if (self.given <= 0).any():
            raise ValueError(f"step= must be positive, got {step!r}")
        self.low, self.high = self._bounds(bounds)
        self.noise = max(noise or 0.0, point.epsilon())
        # Of what differences are made: more than the noise, if _step_choice.py has seen more.
        self.rounding = self.noise
        self.scale = self._scale(scale)
        # Relative to the magnitude; what _step_choice.py finds takes the place of the rule (NaN).
        self.relative: Any = None
        self.suit = True  # whether one choice of them was found to suit the first derivatives here

    def _bounds(self, bounds: Any) -> tuple[Any, Any]:
        point = self.point
        pairs = point.per_input(bounds, "bounds") if bounds is not None else []
        for pair in pairs:
            if pair is not None and (not isinstance(pair, (tuple, list)) or len(pair) != 2):
                raise ValueError(
                    f"bounds= takes (low, high), with None for no bound, or a dict of such pairs "
                    f"by argument; got {pair!r}"
                )
        names = point.inputs.names
        low = {n: p[0] for n, p in zip(names, pairs, strict=False) if p and p[0] is not None}
        high = {n: p[1] for n, p in zip(names, pairs, strict=False) if p and p[1] is not None}
        lows = spread(point, low, "bounds", -np.inf) if low else np.full(point.x.size, -np.inf)
        highs = spread(point, high, "bounds", np.inf) if high else np.full(point.x.size, np.inf)
        # As the input's dtype has them: 0.1 is a number between two of float32.
        lows, highs = point.representable(lows), point.representable(highs)
        outside = (point.x < lows) | (point.x > highs)
        if outside.any():
            i = int(np.argmax(outside))
            raise ValueError(
                f"{point.inputs.label(i)} = {point.x[i]:.6g} is outside its bounds "
                f"[{lows[i]:.6g}, {highs[i]:.6g}]"
            )
        return lows, highs

    def _scale(self, scale: Any) -> Any:
        """The magnitude of each coordinate; a zero takes that of the others in its array."""
        point = self.point
        size = np.abs(point.x)
        given = spread(point, scale, "scale", np.nan)
        if (given <= 0).any():
            raise ValueError(f"scale= must be positive, got {scale!r}")
        self.free = np.isnan(given) & np.isnan(self.given)  # of what the user says of steps
        for k in range(len(point.inputs.shapes)):
            part = point.inputs.part(k)
            inside = size[part]
            used = inside[(inside > 0) & np.isfinite(inside)]
            typical = root_mean_square(used) if used.size else 1.0
            # A width between bounds says more about a zero than nothing does.
            width = np.minimum(self.high[part] - self.low[part], typical if used.size else 1.0)
            inside[inside == 0] = width[inside == 0]
        size = np.where(np.isfinite(size), size, 1.0)
        return np.where(np.isnan(given), size, np.maximum(given, 0))

    def by_rule(self) -> Steps:
        """The same without what was given or found out: relative to the magnitudes alone."""
        made = copy.copy(self)
        made.given, made.relative = np.full_like(self.given, np.nan), None
        return made

    def length(self, order: int) -> Any:
        """Over which distance the function changes, relative to the magnitudes: 1 or less."""
        if self.relative is None:
            return 1.0
        return np.fmin(self.relative / self.rounding ** (1 / (order + 1)), 1.0)

    def together(self) -> Steps:
        """The same for a direction: steps that suit each array may be too long for all at once."""
        if self.relative is None:
            return self
        made = copy.copy(self)
        made.relative = np.minimum(self.relative, self.rounding ** (1 / 3))
        return made

    def sizes(self, order: int) -> Any:
        """The step of every coordinate: e**(1/2) for order 1, e**(1/3) for order 2."""
        rule = self.noise ** (1.0 / (order + 1))
        relative = np.full(self.scale.size, rule)
        if self.relative is not None:
            relative = np.where(np.isnan(self.relative), rule, self.relative)
        return np.where(np.isnan(self.given), relative * self.scale, self.given)

    def both_sides(self, size: Any) -> tuple[Any, Any]:
        """Two more values of every coordinate: on both sides, or both inside at a bound.

        They are rounded to the dtype of the input, so that what is divided by is what was added.
        """
        x, point = self.point.x, self.point
        above, below = self.high - x, x - self.low
        room = np.minimum(above, below)
        narrow = room < size
        # Slightly nearer than a whole step is still better on both sides than on one.
        size = np.where(narrow & (room > 0.3 * size), room, size)
        upward = above >= below
        reach = np.minimum(size, np.where(upward, above, below) / 2) * np.where(upward, 1, -1)
        one_sided = narrow & (room < size)
        first = np.where(one_sided, x + reach, x + size)
        second = np.where(one_sided, x + 2 * reach, x - size)
        first = np.clip(point.representable(first), self.low, self.high)
        second = np.clip(point.representable(second), self.low, self.high)
        self._need_room(first, second)
        return first, second

    def one_side(self, size: Any) -> Any:
        """Another value of every coordinate: above, or below where there is more room."""
        x = self.point.x
        above, below = self.high - x, x - self.low
        down = (above < size) & (below > above)
        room = np.where(down, below, above)
        moved = x + np.minimum(size, room) * np.where(down, -1, 1)
        moved = np.clip(self.point.representable(moved), self.low, self.high)
        self._need_room(moved, moved)
        return moved

    def _need_room(self, first: Any, second: Any) -> None:
        x, point = self.point.x, self.point
        stuck = ((first == x) | (second == x)) & np.isfinite(x)
        if stuck.any():
            i = int(np.argmax(stuck))
            low, high = self.low[i], self.high[i]
            raise ValueError(
                f"there is no room to step {point.inputs.label(i)} = {x[i]:.6g} "
                f"({point.inputs.dtypes[point.inputs.owner(i)]}): "
                f"bounds [{low:.6g}, {high:.6g}], step {self.sizes(2)[i]:.3g}\n"
                "  fix: a larger step= or scale=, or make the argument static="
            )
