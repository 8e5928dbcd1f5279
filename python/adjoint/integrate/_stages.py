"""The equations of an implicit step: Newton's method, and the derivative of its answer.

The search is a fixed number of iterations of which those after the last needed one change nothing,
so that it can be recorded. Its answer then gets its derivatives from steps of the chord method:

Note [Derivatives by chords]: let ``r(z, p) = 0`` define ``z`` for each ``p``, and let ``A`` be the
derivative of ``r`` by ``z`` at the answer, as a constant. Where ``z`` agrees with the answer up to
terms of order ``k`` in the change of ``p``, ``z - A⁻¹ r(z, p)`` agrees up to order ``k + 1``: the
factor ``1 - A⁻¹ ∂r/∂z`` is itself of first order. So three such steps from a ``z`` without history
have the first three derivatives of the answer, by any of what the residual reads, in reverse and in
forward mode, and nothing of how ``A`` came about is kept. They improve the value as well.
"""

from __future__ import annotations

from collections.abc import Callable

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import everywhere, largest_of

__all__ = ["Residual", "answered", "searched"]

Residual = Callable[[Tensor], Tensor]

_ORDERS = 3


def searched(
    residual: Residual, z: Tensor, matrix: Tensor, scale: Tensor, tolerance: float, most: int
) -> tuple[Tensor, Tensor]:
    """Newton's method with one matrix, and whether it arrived.

    Parameters
    ----------
    scale
        What an error of one means, by element.
    tolerance
        Of the error that is left, as its size and the rate of contraction say.
    """
    lu, pivots, _ = ad.linalg.lu_factor_ex(matrix)
    there = lost = ad.zeros((), dtype=ad.bool)
    before = ad.zeros((), dtype=z.dtype)
    for k in range(most):
        change = ad.linalg.lu_solve(lu, pivots, residual(z)[:, None])[:, 0]
        size = largest_of(((change / scale) ** 2).mean().sqrt())
        rate = size / before if k else ad.zeros_like(size)
        lost = lost | ~ad.isfinite(size) | ((rate >= 2) & ~there)
        z = ad.where(there | lost, z, z - change)
        left = size if k == 0 else ad.where(rate < 1, size * rate / (1 - rate), ad.inf)
        there = there | (~lost & ((left < tolerance) | (size == 0)))
        before = size
        if not _core._is_recording() and everywhere(there | lost):
            break
    return z, there


def answered(residual: Residual, z: Tensor, matrix: Tensor) -> Tensor:
    """An answer with its derivatives: see Note [Derivatives by chords]."""
    z = z.detach()
    lu, pivots, _ = ad.linalg.lu_factor_ex(matrix.detach())
    for _ in range(_ORDERS):
        z = z - ad.linalg.lu_solve(lu, pivots, residual(z)[:, None])[:, 0]
    return z
