"""Two Jacobians of one output with respect to one input, compared entry by entry.

Here real coordinates become what PyTorch shows: a complex output is looked at twice, once for its
imaginary and once for its real part; an entry for a complex input is ∂/∂(real) + i ∂/∂(imaginary).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .problem import Matrix, Problem, to_vector
from .tolerance import Tolerance


@dataclass(frozen=True)
class Mismatch:
    """A pair of Jacobians that differ: rows are elements of the input, columns of the output."""

    input: int
    output: int
    part: str  # "", "real" or "imaginary": which part of a complex output
    numerical: Matrix
    analytical: Matrix
    atol: Matrix  # of one column: a bound per row
    rtol: float
    forward: bool = False

    @property
    def errors(self) -> Matrix:
        """Absolute errors; entries that are equal infinities have none, NaN counts as infinite."""
        with np.errstate(invalid="ignore"):
            error = np.abs(self.numerical - self.analytical)
        error[self.numerical == self.analytical] = 0.0
        return np.where(np.isnan(error), np.inf, error)

    @property
    def wrong(self) -> Matrix:
        """Where the error is more than allowed."""
        return ~close(self.numerical, self.analytical, self.atol, self.rtol)

    @property
    def worst(self) -> tuple[int, int]:
        """The wrong entry with the largest error, as (row, column)."""
        errors = np.where(self.wrong, self.errors, -1.0)
        row, column = np.unravel_index(int(np.argmax(errors)), errors.shape)
        return int(row), int(column)

    def coordinates(self, problem: Problem) -> tuple[int, int]:
        """The worst entry as coordinates of the input and the output."""
        row, column = self.worst
        if problem.inputs[self.input].tensor.is_complex():
            difference = self.numerical[row, column] - self.analytical[row, column]
            row = 2 * row + int(abs(difference.imag) > abs(difference.real))
        if problem.outputs[self.output].tensor.is_complex():
            column = 2 * column + int(self.part == "imaginary")
        return row, column


def close(numerical: Matrix, analytical: Matrix, atol: Matrix | float, rtol: float) -> Matrix:
    """Entries for which |analytical - numerical| ≤ atol + rtol·|numerical|."""
    with np.errstate(invalid="ignore", over="ignore"):
        bound = atol + rtol * np.abs(numerical)
        near: Matrix = (np.abs(analytical - numerical) <= bound) & np.isfinite(numerical)
    near |= numerical == analytical
    return near


def parts(is_complex: bool) -> tuple[str, ...]:
    """The parts of an output in the order in which they are compared."""
    return ("imaginary", "real") if is_complex else ("",)


def shown(matrix: Matrix, input_complex: bool, part: str) -> Matrix:
    """The entries a person sees, from one in real coordinates."""
    if part:
        matrix = matrix[:, int(part == "imaginary") :: 2]
    return matrix[0::2] + 1j * matrix[1::2] if input_complex else matrix


def find_mismatch(
    problem: Problem,
    input: int,
    output: int,
    numerical: Matrix,
    analytical: Matrix,
    tolerance: Tolerance,
    forward: bool = False,
) -> Mismatch | None:
    """The first part of the output for which the two Jacobians differ by more than allowed."""
    here, there = problem.inputs[input].tensor, problem.outputs[output].tensor
    from_complex = here.is_complex()
    bounds = tolerance.absolute(to_vector(there), to_vector(here))
    atol = (np.maximum(bounds[0::2], bounds[1::2]) if from_complex else bounds)[:, None]
    for part in parts(there.is_complex()):
        n, a = (shown(matrix, from_complex, part) for matrix in (numerical, analytical))
        if not close(n, a, atol, tolerance.rtol).all():
            return Mismatch(input, output, part, n, a, atol, tolerance.rtol, forward)
    return None
