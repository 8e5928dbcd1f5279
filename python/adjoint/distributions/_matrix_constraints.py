"""Constraints on square matrices: symmetric, triangular, positive."""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor
from adjoint.distributions._constraint import Constraint

# How far apart an element and its mirror image may be.
_MIRROR_TOLERANCE = 1e-6


class _Matrix(Constraint):
    event_dim = 2


class _Square(_Matrix):
    """As many rows as columns."""

    def check(self, value: Tensor) -> Tensor:
        rows, columns = value.shape[-2:]
        return ad.full(value.shape[:-2], rows == columns, dtype=ad.bool)


class _Symmetric(_Square):
    """Equal to its transpose."""

    def check(self, value: Tensor) -> Tensor:
        inside = super().check(value)
        if value.shape[-1] != value.shape[-2]:
            return inside
        return ad.isclose(value, value.mT, atol=_MIRROR_TOLERANCE).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    """Symmetric, without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        inside = super().check(value)
        return inside & (ad.linalg.eigvalsh(value) >= 0).all(-1) if inside.all() else inside


class _PositiveDefinite(_Symmetric):
    """Symmetric, with positive eigenvalues only: such a matrix has a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        inside = super().check(value)
        return inside & (ad.linalg.cholesky_ex(value).info == 0) if inside.all() else inside


class _LowerTriangular(_Matrix):
    """Zeros above the diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return (value == value.tril()).flatten(-2).all(-1)  # NaN is refused, too


class _LowerCholesky(_LowerTriangular):
    """Triangular with a positive diagonal: a Cholesky factor."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """The Cholesky factor of a correlation matrix: its rows have length 1."""

    def check(self, value: Tensor) -> Tensor:
        # Rounding of a length grows with the number of its terms.
        slack = 10 * value.shape[-1] * ad.finfo(value.dtype).eps
        length = ad.linalg.vector_norm(value.detach(), dim=-1)
        return super().check(value) & ((length - 1).abs() <= slack).all(-1)
