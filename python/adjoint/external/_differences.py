"""Jacobians by evaluating the function near the input: forward, central, along one direction.

Each method yields its points to be evaluated together and combines the values. Read next:
_complex_step.py, _richardson.py, _spsa.py, _elementwise.py, _colouring.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._errors import EvaluationError
from ._evaluate import Point
from ._jacobian import Dense
from ._problem import Problem
from ._steps import Steps, quotient, slope
from ._tiny import choose, lost, lost_below, recover, warn, widened

__all__ = ["central", "direction_steps", "directional", "forward", "shortened", "with_room"]


def forward(problem: Problem, steps: Steps) -> Dense:
    """One more evaluation per input; the error is of the order of the square root of the noise."""
    n = problem.inputs.size
    moved = steps.one_side(steps.sizes(1))
    matrix = np.empty((problem.outputs.size, n))
    points = (problem.moved(i, moved[i]) for i in range(n))
    for i, value in enumerate(problem.values(points, n)):
        matrix[:, i] = (value - problem.y) / (moved[i] - problem.x[i])
    recover(problem, steps, 1, matrix, np.abs(moved - problem.x))
    return Dense(matrix)


def central(problem: Problem, steps: Steps) -> Dense:
    """Two evaluations per input; the error is of the order of noise**(2/3)."""
    n = problem.inputs.size
    first, second = steps.both_sides(steps.sizes(2))
    matrix = np.empty((problem.outputs.size, n))
    weights = slope(problem.x, first, second)

    def points() -> Iterator[Point]:
        for i in range(n):
            yield problem.moved(i, first[i])
            yield problem.moved(i, second[i])

    values = problem.values(points(), 2 * n)
    for i, (a, b) in enumerate(zip(values, values, strict=True)):
        wa, wb, w0 = (float(w[i]) for w in weights)
        matrix[:, i] = quotient((wa, wb, w0), a, b, problem.y)
    recover(problem, steps, 2, matrix, np.abs(first - second))
    return Dense(matrix)


def _room(steps: Steps, v: Any) -> tuple[Any, Any]:
    """How far each coordinate can go along ``v`` and against it, in multiples of ``v``."""
    x, length = steps.problem.x, np.abs(v)
    with np.errstate(divide="ignore", invalid="ignore"):
        up, down = (steps.high - x) / length, (x - steps.low) / length
    return np.where(v > 0, up, down), np.where(v > 0, down, up)


def _size(steps: Steps, v: Any, order: int) -> float:
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
    size = 0.3 * _size(steps, v, 2)
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
    size = _size(steps, v, order)
    ahead, back = (float(np.min(room[used])) for room in _room(steps, v))
    if min(ahead, back) >= size:
        return size, -size
    if min(ahead, back) > 0.3 * size:
        size = min(ahead, back)
        return size, -size
    if ahead >= back:
        return min(size, ahead / 2), 2 * min(size, ahead / 2)
    return -min(size, back / 2), -2 * min(size, back / 2)


def directional(problem: Problem, steps: Steps, v: Any) -> Any:
    """The derivative along ``v`` by central differences: two evaluations, four in a corner.

    As many again if an element that is tiny in its array shortens the step.
    """
    found = _directional(problem, steps, v)
    width = 2 * _size(steps, v, 2) if v.any() else 1.0
    wide = shortened(steps, v, lost(steps, found, width, np.abs(problem.y)))
    if wide is None:
        return found
    try:
        with np.errstate(all="ignore"):
            again = _directional(problem, wide, v)
    except EvaluationError:
        again = np.full_like(found, np.nan)
    far = _size(wide, v, 2) / wide.noise ** (1 / 3)
    size = np.fmax(np.abs(problem.y), np.abs(again) * far)
    take, unsure = choose(steps, found, width, size, again)
    rows = lost(steps, found, width, size)
    index = int(np.argmax((wide.scale != steps.scale) & (v != 0)))
    warn(problem, index, rows & unsure, _size(wide, v, 2))
    return np.where(rows & take, again, found)


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
    size = _size(steps, v, 2) / longer
    return wide if size < enough or (size < 0.03 and np.any(unseen)) else None


def _directional(problem: Problem, steps: Steps, v: Any) -> Any:
    found = np.zeros(problem.outputs.size)
    for part in with_room(steps, v):
        found = found + _along(problem, steps, part)
    return found


def _along(problem: Problem, steps: Steps, v: Any) -> Any:
    a, b = direction_steps(steps, v, 2)
    if a == 0:
        raise ValueError(f"the bounds of {problem.name} leave no room to step along the direction")

    def point(t: float) -> Point:
        moved = np.clip(problem.representable(problem.x + t * v), steps.low, steps.high)
        return problem.moved_all(
            moved, lambda: f"x {'-' if t < 0 else '+'} {abs(t):.3g} * direction"
        )

    fa, fb = problem.values([point(a), point(b)], 2)
    return quotient(slope(np.float64(0), np.float64(a), np.float64(b)), fa, fb, problem.y)
