"""The text of a failed comparison."""

from __future__ import annotations

import numpy as np

from adjoint._tensor.creation import from_numpy

from .causes import Case, likely_cause
from .compare import Mismatch
from .problem import Matrix, Problem
from .tolerance import Tolerance

# Above this, a Jacobian is described by its size and extremes instead of being printed.
PRINTED = 400


def describe_mismatch(
    problem: Problem, found: Mismatch, tolerance: Tolerance, reached: bool
) -> str:
    """Where two Jacobians differ, by how much, and why that may be."""
    mine, yours = problem.inputs[found.input], problem.outputs[found.output]
    row, column = found.worst
    n, a = found.numerical[row, column], found.analytical[row, column]
    atol = float(found.atol[row, 0])
    error = float(found.errors[row, column])
    wrong = found.wrong
    way = "Jacobian computed with forward mode mismatch" if found.forward else "Jacobian mismatch"
    part = (
        f"While considering the {found.part} part of complex outputs only, " if found.part else ""
    )
    where = (
        f"output{_index(column, yours.tensor.shape)} with respect to "
        f"input{_index(row, mine.tensor.shape)}"
    )
    lines = [
        f"{part}{way} for output {yours.name} with respect to input {mine.name},",
        f"  worst entry   {where}: numerical {_number(n)}, analytical {_number(a)}",
        f"  error         {error:.3g}, allowed {atol + found.rtol * abs(n):.3g} "
        f"(atol {atol:.3g} + rtol {found.rtol:.3g} × |numerical|; step {tolerance.eps:.3g})",
        f"  wrong         {int(wrong.sum())} of {wrong.size} entries; rows are the elements of the "
        f"input {list(mine.tensor.shape)}, columns those of the output {list(yours.tensor.shape)}",
        f"  likely cause  {likely_cause(Case(problem, found, tolerance, reached))}",
        f"numerical:{_matrix(found.numerical)}",
        f"analytical:{_matrix(found.analytical)}",
    ]
    return "\n".join(lines)


def _number(value: complex) -> str:
    return f"{value:.7g}"


def _index(flat: int, shape: tuple[int, ...]) -> str:
    if not shape:
        return ""
    return str([int(k) for k in np.unravel_index(flat, tuple(shape))])


def _matrix(matrix: Matrix) -> str:
    if matrix.size <= PRINTED:
        return str(from_numpy(np.ascontiguousarray(matrix)))
    size = np.abs(matrix)
    return (
        f" {matrix.shape[0]} × {matrix.shape[1]}, {np.count_nonzero(matrix)} entries not zero, "
        f"magnitudes {np.nanmin(size):.4g} to {np.nanmax(size):.4g}"
    )
