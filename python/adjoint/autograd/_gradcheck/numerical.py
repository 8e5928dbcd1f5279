"""Derivatives by differences, with the methods of `adjoint.numeric`.

Note [Step and tolerance] in ``tolerance`` says how far they step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from adjoint.numeric._central import Central
from adjoint.numeric._forward import Forward
from adjoint.numeric._point import Move

from .problem import Matrix, Moved, Problem, Vector, to_tensor, to_vector
from .tolerance import Tolerance

CENTRAL, FORWARD = Central(), Forward()


class Near:
    """What a difference method sees of a problem: one input moves, all outputs answer."""

    def __init__(self, problem: Problem, which: int) -> None:
        self.problem = problem
        self.tensor = problem.inputs[which].tensor
        self.x = to_vector(self.tensor)
        self.outputs = [to_vector(item.tensor) for item in problem.outputs]
        self.y = _join(self.outputs)

    def __enter__(self) -> Near:
        self._move = Moved(self.tensor)
        self._quiet = np.errstate(all="ignore")
        self._quiet.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._quiet.__exit__(None, None, None)
        self._move.__exit__()

    def representable(self, x: Vector) -> Vector:
        """The coordinates that the dtype can hold."""
        return to_vector(to_tensor(x, self.tensor.detach()))

    def values(self, moves: Iterable[Move], total: int, checked: bool = True) -> Iterator[Vector]:
        """All outputs after each move, as one vector; they may be anything."""
        for move in moves:
            if isinstance(move[0], np.ndarray):
                self._move(move[0])
            else:
                moved = self.x.copy()
                moved[move[0]] = move[1]
                self._move(moved)
            yield _join(self.problem.values())

    def split(self, joined: Matrix) -> list[Matrix]:
        """One array for each output."""
        ends = np.cumsum([v.size for v in self.outputs])
        return [joined[end - v.size : end] for v, end in zip(self.outputs, ends, strict=True)]


def _join(vectors: Sequence[Vector]) -> Vector:
    return np.concatenate(vectors) if vectors else np.zeros(0)


def _here() -> str:
    return ""


def jacobian(problem: Problem, which: int, tolerance: Tolerance) -> list[Matrix]:
    """d(output)/d(input ``which``) for every output: a row per coordinate of the input."""
    with Near(problem, which) as near:
        step = tolerance.steps(near.x)
        asked = np.array([near.x + step, near.x - step])
        ends = np.array([near.representable(end) for end in asked])
        # A step that is lost in rounding shows no change; it must not be divided by either.
        ends = np.where(ends[0] == ends[1], asked, ends)
        matrix = CENTRAL.columns(near, list(ends), checked=False)
        return [np.ascontiguousarray(part.T) for part in near.split(matrix)]


class Along(NamedTuple):
    """Half the change of each output for a move of an input by ``by``."""

    changes: list[Vector]
    by: Vector


def along(problem: Problem, which: int, direction: Vector, tolerance: Tolerance) -> Along:
    """Move the whole input ``which`` to and fro along ``direction`` (entries near 1)."""
    with Near(problem, which) as near:
        step = tolerance.steps(near.x) * direction
        ends = [near.representable(near.x + step), near.representable(near.x - step)]
        values = list(near.values([(end, _here) for end in ends], 2))
        sides = (1.0, -1.0)
        return Along(near.split(CENTRAL.combine(sides, values, 0)), CENTRAL.combine(sides, ends, 0))


class OneSided(NamedTuple):
    """Slopes of one output coordinate to the right and to the left of an input coordinate."""

    right: float
    left: float


def one_sided(
    problem: Problem, which: int, row: int, output: int, column: int, step: float
) -> OneSided:
    """The two slopes at one entry of the Jacobian; at a kink they differ."""
    with Near(problem, which) as near:
        place = sum(v.size for v in near.outputs[:output]) + column
        shifts = (-step, 0.0, step)
        moves: list[Move] = [(row, near.x[row] + shift) for shift in shifts]
        left, here, right = (float(value[place]) for value in near.values(moves, 3))
        x0, x1, x2 = (near.representable(near.x + shift)[row] for shift in shifts)
        return OneSided(
            FORWARD.combine([(x2 - x1) or step], [right], here),
            FORWARD.combine([(x1 - x0) or step], [here], left),
        )


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
