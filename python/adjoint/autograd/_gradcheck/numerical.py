"""Derivatives by central differences (Note [Step and tolerance] in ``tolerance``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .problem import Matrix, Moved, Problem, Vector, to_vector
from .tolerance import Tolerance


def jacobian(problem: Problem, which: int, tolerance: Tolerance) -> list[Matrix]:
    """d(output)/d(input ``which``) for every output: a row per coordinate of the input."""
    tensor = problem.inputs[which].tensor
    at = to_vector(tensor)
    steps = tolerance.steps(at)
    sizes = [to_vector(item.tensor).size for item in problem.outputs]
    columns = [np.zeros((at.size, size)) for size in sizes]
    with Moved(tensor) as move, np.errstate(all="ignore"):
        for j in range(at.size):
            moved = at.copy()
            moved[j] = at[j] + steps[j]
            right = move(moved)[j]
            above = problem.values()
            moved[j] = at[j] - steps[j]
            left = move(moved)[j]
            below = problem.values()
            distance = (right - left) or 2 * steps[j]
            for matrix, a, b in zip(columns, above, below, strict=True):
                matrix[j] = (a - b) / distance
    return columns


class Along(NamedTuple):
    """Half the change of each output for a move of an input by ``by``."""

    changes: list[Vector]
    by: Vector


def along(problem: Problem, which: int, direction: Vector, tolerance: Tolerance) -> Along:
    """Move the whole input ``which`` to and fro along ``direction`` (entries near 1)."""
    tensor = problem.inputs[which].tensor
    at = to_vector(tensor)
    step = tolerance.steps(at) * direction
    with Moved(tensor) as move, np.errstate(all="ignore"):
        right = move(at + step)
        above = problem.values()
        left = move(at - step)
        below = problem.values()
        changes = [(a - b) / 2 for a, b in zip(above, below, strict=True)]
    return Along(changes, (right - left) / 2)


class OneSided(NamedTuple):
    """Slopes of one output coordinate to the right and to the left of an input coordinate."""

    right: float
    left: float


def one_sided(
    problem: Problem, which: int, row: int, output: int, column: int, step: float
) -> OneSided:
    """The two slopes at one entry of the Jacobian; at a kink they differ."""
    tensor = problem.inputs[which].tensor
    at = to_vector(tensor)
    with Moved(tensor) as move, np.errstate(all="ignore"):
        values = []
        for shift in (-step, 0.0, step):
            moved = at.copy()
            moved[row] += shift
            reached = move(moved)[row]
            values.append((reached, problem.values()[output][column]))
        (x0, y0), (x1, y1), (x2, y2) = values
        return OneSided((y2 - y1) / ((x2 - x1) or step), (y1 - y0) / ((x1 - x0) or step))


class Numerical:
    """The differences of one check, each computed when it is first asked for."""

    def __init__(
        self, problem: Problem, tolerance: Tolerance, directions: Sequence[Vector]
    ) -> None:
        self.problem = problem
        self.tolerance = tolerance
        self.directions = directions
        self._jacobians: dict[int, list[Matrix]] = {}
        self._along: dict[int, Along] = {}

    def jacobian(self, input: int, output: int) -> Matrix:
        """The whole Jacobian of a pair."""
        if input not in self._jacobians:
            self._jacobians[input] = jacobian(self.problem, input, self.tolerance)
        return self._jacobians[input][output]

    def along(self, input: int) -> Along:
        """The changes of all outputs along the direction drawn for an input."""
        if input not in self._along:
            self._along[input] = along(self.problem, input, self.directions[input], self.tolerance)
        return self._along[input]
