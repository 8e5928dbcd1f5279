"""Constraints of matrices: triangular, Cholesky factors, symmetric, definite."""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor

from ._constraint import Constraint


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).reshape(*value.shape[:-2], -1).all(-1)


class _LowerCholesky(_LowerTriangular):
    """Lower triangular, with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    """The factor of a correlation matrix: rows of length one."""

    def check(self, value: Tensor) -> Tensor:
        tol = ad.finfo(value.dtype).eps * value.size(-1) * 10
        unit = (value.detach().norm(dim=-1) - 1).abs().le(tol).all(-1)
        return super().check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return ad.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=ad.bool)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if not square.all():
            return square
        return ad.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return ad.linalg.eigvalsh(value).ge(0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return ad.linalg.cholesky_ex(value).info.eq(0)
