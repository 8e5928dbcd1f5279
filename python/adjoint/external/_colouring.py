"""Sparse Jacobians: inputs that share no output are perturbed together.

Columns of the pattern are coloured (`adjoint._colouring`); each colour costs what one input costs.
That the pattern misses nothing is verified at the first Jacobian along one random direction. Read
next: _methods.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from adjoint._colouring import Pattern

from ._differences import directional
from ._errors import ExternalError
from ._evaluate import Point
from ._jacobian import Sparse
from ._problem import Problem
from ._steps import Steps, slope

__all__ = ["ColouredPattern", "coloured", "verify_pattern"]


class ColouredPattern:
    """The entries that may be nonzero, and a colour for each column."""

    def __init__(self, given: Any, shape: tuple[int, int], name: str) -> None:
        pattern = Pattern.of(given)
        if pattern.shape != shape:
            raise ValueError(
                f"sparsity= has shape {list(pattern.shape)}; the Jacobian of {name} has "
                f"{list(shape)} (coordinates of the outputs by those of the inputs)"
            )
        self.rows, self.columns, self.shape = pattern.rows, pattern.columns, shape
        self.colours = pattern.column_colours
        self.count = int(self.colours.max(initial=-1)) + 1


def coloured(problem: Problem, steps: Steps, pattern: ColouredPattern, order: int) -> Sparse:
    """As many (pairs of) evaluations as there are colours."""
    if order == 1:
        first = second = steps.one_side(steps.sizes(1))
    else:
        first, second = steps.both_sides(steps.sizes(2))
    x, entries = problem.x, pattern.colours[pattern.columns]
    values = np.zeros(len(pattern.rows))
    wa, wb, w0 = slope(x, first, second)
    sides = (first,) if order == 1 else (first, second)

    def points() -> Iterator[Point]:
        for colour in range(pattern.count):
            chosen = pattern.colours == colour
            for moved in sides:
                what = f"{problem.inputs.label(int(np.argmax(chosen)))} and others of its colour"
                yield problem.moved_all(np.where(chosen, moved, x), lambda what=what: what)  # type: ignore[misc]

    found = problem.values(points(), len(sides) * pattern.count)
    for colour in range(pattern.count):
        here = entries == colour
        rows, columns = pattern.rows[here], pattern.columns[here]
        a = next(found)[rows] - problem.y[rows]
        if order == 1:
            values[here] = a / (first - x)[columns]
            continue
        b = next(found)[rows] - problem.y[rows]
        inside = wa[columns] * (a - b)
        edge = wa[columns] * a + wb[columns] * b
        values[here] = np.where(w0[columns] == 0, inside, edge)
    next(found, None)
    return Sparse(pattern.rows, pattern.columns, values, pattern.shape)


def verify_pattern(problem: Problem, steps: Steps, found: Sparse, rng: Any) -> None:
    """Compare the Jacobian along one random direction with a difference along it."""
    v = (
        rng.choice([-1.0, 1.0], problem.inputs.size)
        * steps.scale
        * rng.uniform(0.5, 1, problem.inputs.size)
    )
    ours, theirs = found.push(v), directional(problem, steps, v)
    size = Sparse(found.rows, found.columns, np.abs(found.values), found.shape).push(np.abs(v))
    wrong = np.abs(ours - theirs) > 1e3 * steps.noise**0.5 * (
        size + np.abs(problem.y) + np.abs(theirs)
    )
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ExternalError(
            f"sparsity= misses entries: {problem.outputs.label(k)} of {problem.name} changes by "
            f"{theirs[k]:.6g} along a random direction, the Jacobian with that pattern says "
            f"{ours[k]:.6g}. fix: mark every input that row {k} depends on"
        )
