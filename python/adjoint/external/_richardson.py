"""Richardson extrapolation of central differences, adaptive, with an error estimate.

Ridders' method: central differences at steps that shrink by a constant factor, extrapolated to zero
in a Neville table. The best entry is the one that changed least, and that change is its error
estimate. Every round evaluates all inputs that are not done together. Read next: _methods.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._errors import EvaluationError
from ._evaluate import Point
from ._jacobian import Dense
from ._problem import Problem
from ._steps import Steps, quotient, slope
from ._tiny import choose, lost, sizes_of_rows, tiny_in_tiny, warn, widened

__all__ = ["ROUNDS", "richardson"]

ROUNDS = 8
_SHRINK = 2.0
_EXACT = 1e9  # roundings that a difference has to be, to be as exact as the method promises


def richardson(problem: Problem, steps: Steps) -> tuple[Dense, Any]:
    """The Jacobian and an estimate of the error of each entry."""
    size = _first_steps(steps)
    best, error = _table(problem, steps, np.arange(problem.inputs.size), size)
    wide = widened(steps)
    if wide is None:
        return Dense(best), error
    # Elements that are tiny in their array: again, as if they were not, where they are lost.
    whole = sizes_of_rows(steps, best.T)[:, None]
    bad = lost(steps, best, 2 * size, whole, _EXACT) & (wide.scale != steps.scale)
    unseen = (bad | ~problem.finite[:, None]).all(axis=0)
    bad &= unseen | ~tiny_in_tiny(steps, wide)
    columns = np.flatnonzero(bad.any(axis=0))
    if columns.size:
        far = _first_steps(wide)
        again = np.full_like(best, np.nan), error
        with contextlib.suppress(EvaluationError), np.errstate(all="ignore"):
            again = _table(problem, wide, columns, far)
        whole = np.fmax(whole, np.abs(again[0]) * wide.scale)
        for i in columns:
            found = choose(steps, best[:, i], 2 * size[i], whole[:, i], again[0][:, i])
            take, unsure = (bad[:, i] & mask for mask in found)
            warn(problem, int(i), unsure, far[i])
            best[take, i], error[take, i] = again[0][take, i], again[1][take, i]
    return Dense(best), error


def _table(problem: Problem, steps: Steps, active: Any, size: Any) -> tuple[Any, Any]:
    """The columns ``active`` of the Jacobian and of the errors, from first steps."""
    n, m = problem.inputs.size, problem.outputs.size
    best, error = np.zeros((m, n)), np.full((m, n), np.inf)
    row: list[Any] = []  # the last row of the table, one (m, n) matrix per column
    for level in range(ROUNDS):
        above, below = steps.both_sides(size)
        slopes = _slopes(problem, active, above, below)
        rounding = steps.rounding * np.abs(problem.y)[:, None] / np.abs(above - below)
        new = [np.full((m, n), np.nan)]
        new[0][:, active] = slopes
        # On both sides the error has powers 2, 4, 6, ...; on one, at a bound, 2, 3, 4, ...
        two_sided = (above > problem.x) != (below > problem.x)
        for j in range(level):
            factor = _SHRINK ** np.where(two_sided, 2 * j + 2, j + 2)
            new.append(new[j] + (new[j] - row[j]) / (factor - 1))
            change = np.maximum(np.abs(new[j + 1] - new[j]), np.abs(new[j + 1] - row[j]))
            change = np.maximum(change, rounding)  # rounded outputs may agree by luck
            better = change < error
            best[better], error[better] = new[j + 1][better], change[better]
        if level == 0:
            best[:, active] = slopes
        elif level >= 2:
            active = active[~_settled(new, row, error, best, active, problem, rounding)]
        row = new
        if not active.size:
            break
        size = size / _SHRINK
    return best, error


def _first_steps(steps: Steps) -> Any:
    """Large: extrapolation removes the truncation error, and large steps have little rounding."""
    rule = steps.rounding ** (1 / 9) * steps.length(2) * steps.scale
    size = np.where(np.isnan(steps.given), rule, steps.given)
    room = np.maximum(steps.high - steps.problem.x, steps.problem.x - steps.low)
    return np.minimum(size, room / 2)


def _slopes(problem: Problem, active: Any, above: Any, below: Any) -> Any:
    weights = slope(problem.x, above, below)

    def points() -> Iterator[Point]:
        for i in active:
            yield problem.moved(i, above[i])
            yield problem.moved(i, below[i])

    values = problem.values(points(), 2 * len(active))
    columns = []
    for i, (a, b) in zip(active, zip(values, values, strict=True), strict=True):
        wa, wb, w0 = (float(w[i]) for w in weights)
        columns.append(quotient((wa, wb, w0), a, b, problem.y))
    return np.stack(columns, 1) if columns else np.zeros((problem.outputs.size, 0))


def _settled(
    new: list[Any], row: list[Any], error: Any, best: Any, active: Any, p: Problem, rounding: Any
) -> Any:
    """Which inputs are done: their errors have reached rounding, or have begun to grow."""
    grown = np.abs(new[-1] - row[-1])[:, active] >= 2 * error[:, active]
    least = np.fmax(4 * p.epsilon() * np.abs(best), 2 * rounding)
    tiny = error[:, active] <= least[:, active]
    return (grown | tiny).all(axis=0)
