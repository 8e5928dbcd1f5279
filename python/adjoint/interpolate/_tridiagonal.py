"""Equations with three diagonals."""

from __future__ import annotations

import adjoint as ad
from adjoint._core import Tensor

__all__ = ["solve_tridiagonal"]

_DENSE = 128  # rows up to which the whole matrix is solved at once


def solve_tridiagonal(below: Tensor, diagonal: Tensor, above: Tensor, b: Tensor) -> Tensor:
    """Solve for columns of ``b``; the outer diagonals have one element less.

    Two sweeps of `adjoint.scan` (Thomas); the matrix must dominate by its diagonal, or nearly.
    """
    n = diagonal.numel()
    if n <= _DENSE:
        matrix = ad.diag(diagonal) + ad.diag(below, -1) + ad.diag(above, 1)
        return ad.linalg.solve(matrix, b)
    zero = ad.zeros(1, dtype=diagonal.dtype)

    def down(carry: tuple[Tensor, Tensor], row: tuple[Tensor, ...]) -> tuple[object, object]:
        ratio, value = carry
        low, mid, high, right = row
        pivot = mid - low * ratio
        made = high / pivot, (right - low * value) / pivot
        return made, made

    start = zero[0], ad.zeros_like(b[0])
    rows = ad.cat([zero, below]), diagonal, ad.cat([above, zero]), b
    _, (ratios, values) = ad.scan(down, start, rows)

    def up(after: Tensor, row: tuple[Tensor, Tensor]) -> tuple[object, object]:
        ratio, value = row
        made = value - ratio * after
        return made, made

    _, found = ad.scan(up, ad.zeros_like(b[0]), (ratios, values), reverse=True)
    solved: Tensor = found
    return solved
