"""Richardson extrapolation of central differences, adaptive, with an error estimate.

Ridders' method: central differences at steps that shrink by a constant factor, extrapolated to zero
in a Neville table. The best entry is the one that changed least, and that change is its error
estimate. Every round evaluates all inputs that are not done together. Read next: _methods.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._evaluate import Point
from ._jacobian import Dense
from ._problem import Problem
from ._steps import Steps

__all__ = ["ROUNDS", "richardson"]

ROUNDS = 8
_SHRINK = 2.0


def richardson(problem: Problem, steps: Steps) -> tuple[Dense, Any]:
    """The Jacobian and an estimate of the error of each entry."""
    n, m = problem.inputs.size, problem.outputs.size
    best, error = np.zeros((m, n)), np.full((m, n), np.inf)
    row: list[Any] = []  # the last row of the table, one (m, n) matrix per column
    active = np.arange(n)
    size = _first_steps(steps)
    for level in range(ROUNDS):
        above, below = steps.both_sides(size)
        slopes = _slopes(problem, active, above, below)
        new = [np.full((m, n), np.nan)]
        new[0][:, active] = slopes
        # On both sides the error has powers 2, 4, 6, ...; on one, at a bound, 2, 3, 4, ...
        two_sided = (above > problem.x) != (below > problem.x)
        for j in range(level):
            factor = _SHRINK ** np.where(two_sided, 2 * j + 2, j + 2)
            new.append(new[j] + (new[j] - row[j]) / (factor - 1))
            change = np.maximum(np.abs(new[j + 1] - new[j]), np.abs(new[j + 1] - row[j]))
            better = change < error
            best[better], error[better] = new[j + 1][better], change[better]
        if level == 0:
            best[:, active] = slopes
        elif level >= 2:
            active = active[~_settled(new, row, error, best, active, problem)]
        row = new
        if not active.size:
            break
        size = size / _SHRINK
    return Dense(best), error


def _first_steps(steps: Steps) -> Any:
    """Large: extrapolation removes the truncation error, and large steps have little rounding."""
    size = np.where(np.isnan(steps.given), steps.noise ** (1 / 9) * steps.scale, steps.given)
    room = np.maximum(steps.high - steps.problem.x, steps.problem.x - steps.low)
    return np.minimum(size, room / 2)


def _slopes(problem: Problem, active: Any, above: Any, below: Any) -> Any:
    from ._steps import slope

    wa, wb, w0 = slope(problem.x, above, below)

    def points() -> Iterator[Point]:
        for i in active:
            yield problem.moved(i, above[i])
            yield problem.moved(i, below[i])

    values = problem.values(points(), 2 * len(active))
    columns = []
    for i, (a, b) in zip(active, zip(values, values, strict=True), strict=True):
        if w0[i] == 0:
            columns.append(wa[i] * (a - b))
        else:
            columns.append(wa[i] * (a - problem.y) + wb[i] * (b - problem.y))
    return np.stack(columns, 1) if columns else np.zeros((problem.outputs.size, 0))


def _settled(new: list[Any], row: list[Any], error: Any, best: Any, active: Any, p: Problem) -> Any:
    """Which inputs are done: their errors have reached rounding, or have begun to grow."""
    grown = np.abs(new[-1] - row[-1])[:, active] >= 2 * error[:, active]
    tiny = error[:, active] <= 4 * p.epsilon() * np.abs(best[:, active])
    return (grown | tiny).all(axis=0)
