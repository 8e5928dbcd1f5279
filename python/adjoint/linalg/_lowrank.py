"""Singular values and vectors of matrices of low rank, from a random sample of their columns.

Halko, Martinsson and Tropp, Finding structure with randomness, SIAM Review 53 (2011): algorithms
4.4 and 5.1. Written with ops, so results have derivatives wherever the singular values are
distinct.
"""

from __future__ import annotations

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.arguments import require_tensor

__all__ = ["pca_lowrank", "svd_lowrank"]


def _range(a: Tensor, q: int, niter: int) -> Tensor:
    """Orthonormal columns whose span nearly holds that of ``a``; powers sharpen the decay."""
    dtype = a.dtype if a.is_floating_point() or a.is_complex() else _core.get_default_dtype()
    basis: Tensor = _core.linalg_qr(a @ _core.randn(a.shape[-1], q, dtype=dtype))[0]
    for _ in range(niter):
        other = _core.linalg_qr(a.mH @ basis)[0]
        basis = _core.linalg_qr(a @ other)[0]
    return basis


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V with ``A - M`` nearly ``U @ diag(S) @ V.mH``, of rank ``q``.

    Parameters
    ----------
    A : Tensor
        Matrices of shape [..., m, n].
    q : int
        How many singular values are wanted: a little more than the rank of ``A``.
    niter : int
        How many times the sample is multiplied by ``A`` and its adjoint, which sharpens it.
    M : Tensor, optional
        What is subtracted from ``A``, such as its mean; it broadcasts.

    Returns
    -------
    tuple of Tensor
        U [..., m, q], S [..., q], V [..., n, q].
    """
    require_tensor("svd_lowrank", "A", 1, A)
    rows, columns = A.shape[-2:]
    a = A if M is None else A - M.broadcast_to(A.shape)
    wide = rows < columns
    if wide:
        a = a.mH
    basis = _range(a, 6 if q is None else q, 2 if niter is None else niter)
    u, s, vh = _core.linalg_svd(basis.mH @ a, full_matrices=False)
    u, v = basis @ u, vh.mH
    return (v, s, u) if wide else (u, s, v)


def pca_lowrank(
    A: Tensor, q: int | None = None, center: bool = True, niter: int = 2
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the principal components of the rows of ``A``: U, S and V of the centred matrix.

    Parameters
    ----------
    A : Tensor
        Matrices of shape [..., m, n]: m observations of n variables.
    q : int, optional
        How many components; at most 6 by default.
    center : bool
        Whether the mean of each column is subtracted first.
    niter : int
        As in `svd_lowrank`.

    Returns
    -------
    tuple of Tensor
        U [..., m, q], S [..., q], V [..., n, q]: the columns of V are the principal directions.
    """
    require_tensor("pca_lowrank", "A", 1, A)
    rows, columns = A.shape[-2:]
    if q is None:
        q = min(6, rows, columns)
    elif not 0 <= q <= min(rows, columns):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)="
            f"{min(rows, columns)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter)
