"""The derivative along one direction, by central differences; and how far to go along it.

Read next: _plan.py, which uses it for jvps and to verify what was found otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._central import Central
from ._errors import EvaluationError
from ._point import Move, Point
from ._steps import Steps, grouped
from ._tiny_elements import choose, lost, lost_below, warn, widened

__all__ = [
    "ALIKE",
    "CENTRAL",
    "alike",
    "along_parts",
    "common_size",
    "direction_size",
    "direction_steps",
    "directional",
    "shortened",
    "with_room",
]

CENTRAL = Central()
ALIKE = 2.0  # powers of ten, between the steps of elements that go together


def _room(steps: Steps, v: Any) -> tuple[Any, Any]:
    """How far each coordinate can go along ``v`` and against it, in multiples of ``v``."""
    x, length = steps.point.x, np.abs(v)
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = (steps.high - x) / length, (x - steps.low) / length
    return np.where(v > 0, up, down), np.where(v > 0, down, up)


def direction_size(steps: Steps, v: Any, order: int) -> float:
    used = v != 0
    sizes = steps.sizes(order)[used] / np.abs(v[used])
    # One input that happens to be near zero must not shorten the step of all.
    return float(min(np.exp(np.mean(np.log(sizes))), 1e3 * np.min(sizes)))


def with_room(steps: Steps, v: Any) -> list[Any]:
    """Directions that add up to ``v``, each of which can be gone along, or against.

    In a corner of the bounds ``v`` itself may lead outside both ways.
    """
    used = v != 0
    if not used.any():
        return []
    ahead, back = _room(steps, v)
    size = 0.3 * direction_size(steps, v, 2)
    if max(np.min(ahead[used]), np.min(back[used])) >= 2 * size:
        return [v]
    forwards = ahead >= back
    parts = [np.where(forwards, v, 0.0), np.where(forwards, 0.0, v)]
    return [part for part in parts if part.any()]


def direction_steps(steps: Steps, v: Any, order: int) -> tuple[float, float]:
    """How far to go along ``v`` forwards and backwards (negative); inside the bounds."""
    used = v != 0
    if not used.any():
        return 1.0, -1.0
    size = direction_size(steps, v, order)
    ahead, back = (float(np.min(room[used])) for room in _room(steps, v))
    if min(ahead, back) >= size:
        return size, -size
    if min(ahead, back) > 0.3 * size:
        size = min(ahead, back)
        return size, -size
    if ahead >= back:
        return min(size, ahead / 2), 2 * min(size, ahead / 2)
    return -min(size, back / 2), -2 * min(size, back / 2)


def alike(steps: Steps, v: Any) -> list[Any]:
    """Directions that add up to ``v``, each of elements that steps of about one length suit.

    One step for elements of very different sizes would be too long for some of them, or lost in
    rounding for others.
    """
    used = np.flatnonzero(v)
    if used.size < 2:
        return [v]
    parts = []
    for group in grouped(steps.sizes(2)[used] / np.abs(v[used]), ALIKE):
        part = np.zeros_like(v)
        part[used[group]] = v[used[group]]
        parts.append(part)
    return parts


def directional(point: Point, steps: Steps, v: Any, bends: list[Any] | None = None) -> Any:
    """The derivative along ``v`` by central differences: two evaluations, four in a corner.

    So many for each group of elements that are of about one size, and as many again if an element
    that is tiny in its array shortens the step.
    """
    found = np.zeros(point.outputs.size)
    for part in alike(steps, v):
        found = found + _of_alike(point, steps, part, bends)
    return found


def _of_alike(point: Point, steps: Steps, v: Any, bends: list[Any] | None) -> Any:
    found = along_parts(point, steps, v, bends)
    width = 2 * direction_size(steps, v, 2) if v.any() else 1.0
    wide = shortened(steps, v, lost(steps, found, width, np.abs(point.y)))
    if wide is None:
        return found
    try:
        with np.errstate(all="ignore"):
            again = along_parts(point, wide, v)
    except EvaluationError:
        again = np.full_like(found, np.nan)
    far = direction_size(wide, v, 2) / wide.noise ** (1 / 3)
    size = np.fmax(np.abs(point.y), np.abs(again) * far)
    take, unsure = choose(steps, found, width, size, again)
    rows = lost(steps, found, width, np.abs(point.y))
    index = int(np.argmax((wide.scale != steps.scale) & (v != 0)))
    warn(point, index, rows & unsure, direction_size(wide, v, 2))
    return np.where(rows & take, again, found)


def common_size(steps: Steps, v: Any) -> float:
    """The one step that `directional` takes along ``v``; infinite if it may take several."""
    alone = len(alike(steps, v)) == 1 and shortened(steps, v, np.ones(1, bool)) is None
    return direction_size(steps, v, 2) if alone else float("inf")


def shortened(steps: Steps, v: Any, unseen: Any) -> Steps | None:
    """Steps as if no element were tiny, if tiny elements make that along ``v`` far too short.

    ``unseen`` tells which outputs show too little of it. What an output near zero shows may be
    the rounding of what it is made of: very short steps are not trusted at all.
    """
    wide, used = widened(steps, bool(np.all(unseen))), v != 0
    if wide is None or not used.any():
        return None
    longer = float(np.min(wide.sizes(2)[used] / np.abs(v[used])))
    enough = lost_below(steps.noise) * steps.noise ** (2 / 3)
    size = direction_size(steps, v, 2) / longer
    return wide if size < enough or (size < 0.03 and np.any(unseen)) else None


def along_parts(point: Point, steps: Steps, v: Any, bends: list[Any] | None = None) -> Any:
    """The derivative along ``v``; ``bends`` are given second differences, and their steps."""
    found = np.zeros(point.outputs.size)
    for part in with_room(steps, v):
        found = found + _along(point, steps, part, bends)
    return found


def _along(point: Point, steps: Steps, v: Any, bends: list[Any] | None) -> Any:
    a, b = direction_steps(steps, v, 2)
    if a == 0:
        raise ValueError(f"the bounds of {point.name} leave no room to step along the direction")

    def move(t: float) -> Move:
        x = np.clip(point.representable(point.x + t * v), steps.low, steps.high)
        return x, lambda: f"x {'-' if t < 0 else '+'} {abs(t):.3g} * direction"

    values = list(point.values([move(a), move(b)], 2))
    if bends is not None and a == -b:
        with np.errstate(all="ignore"):
            bends.append((np.abs((values[0] - point.y) + (values[1] - point.y)), abs(a)))
    return CENTRAL.combine((np.float64(a), np.float64(b)), values, point.y)
