"""Equations with three diagonals."""

from __future__ import annotations

import adjoint as ad
from adjoint._core import Tensor

__all__ = ["solve_tridiagonal"]


def solve_tridiagonal(below: Tensor, diagonal: Tensor, above: Tensor, b: Tensor) -> Tensor:
    """Solve for columns of ``b``; the outer diagonals have one element less."""
    zero = diagonal.new_zeros(1)
    rows = ad.cat([zero, above]), diagonal, ad.cat([below, zero])
    return ad.linalg.solve_banded((1, 1), ad.stack(rows), b)
