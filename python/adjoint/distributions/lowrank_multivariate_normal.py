"""The multivariate normal distribution with a covariance of low rank and a diagonal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE, Distribution
from .multivariate_normal import _batch_mahalanobis, _batch_mv
from .utils import _standard_normal, lazy_property

__all__ = ["LowRankMultivariateNormal"]


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The Cholesky factor of I + W' D^-1 W."""
    inner = (W.mT / D.unsqueeze(-2)) @ W
    return ad.linalg.cholesky(inner + ad.eye(W.size(-1), dtype=W.dtype, device=W.device))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """The logarithm of det (W W' + D), by the determinant of the small matrix."""
    small = 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return small + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """The form x' (W W' + D)^-1 x, by Woodbury's identity."""
    inner = _batch_mv(W.mT / D.unsqueeze(-2), x)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, inner)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors whose covariance is ``cov_factor @ cov_factor.mT + diag(cov_diag)``.

    Nothing of the size of the whole covariance is solved with.

    Parameters
    ----------
    loc
        The mean.
    cov_factor
        A matrix with few columns.
    cov_diag
        The diagonal.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(
                f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m"
            )
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        loc_, diag = loc.unsqueeze(-1), cov_diag.unsqueeze(-1)
        try:
            loc_, self.cov_factor, diag = ad.broadcast_tensors(loc_, cov_factor, diag)
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc_[..., 0], diag[..., 0]
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)
        self._unbroadcasted_cov_factor = cov_factor
        self._unbroadcasted_cov_diag = cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(LowRankMultivariateNormal, _instance)
        shape = ad.Size(batch_shape)
        new.loc = self.loc.expand((*shape, *self.event_shape))
        new.cov_diag = self.cov_diag.expand((*shape, *self.event_shape))
        new.cov_factor = self.cov_factor.expand((*shape, *self.cov_factor.shape[-2:]))
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril
        return self._finish(new, shape, self.event_shape)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        squares = self._unbroadcasted_cov_factor.pow(2).sum(-1)
        diagonal = squares + self._unbroadcasted_cov_diag
        return diagonal.expand((*self._batch_shape, *self._event_shape))

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        # D^1/2 (I + D^-1/2 W W' D^-1/2) D^1/2, whose middle is well conditioned.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        size = self._event_shape[0]
        middle = scaled @ scaled.mT + ad.eye(size, dtype=scaled.dtype, device=scaled.device)
        return self._whole(root * ad.linalg.cholesky(middle))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        return self._whole(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        diag = self._unbroadcasted_cov_diag
        inner = self._unbroadcasted_cov_factor.mT / diag.unsqueeze(-2)
        solved = ad.linalg.solve_triangular(self._capacitance_tril, inner, upper=False)
        return self._whole(diag.reciprocal().diag_embed() - solved.mT @ solved)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        columns = (*shape[:-1], self.cov_factor.size(-1))
        eps_w = _standard_normal(columns, dtype=self.loc.dtype, device=self.loc.device)
        eps_d = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return (
            self.loc
            + _batch_mv(self._unbroadcasted_cov_factor, eps_w)
            + self._unbroadcasted_cov_diag.sqrt() * eps_d
        )

    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a vector."""
        self._checked(value)
        distance = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor,
            self._unbroadcasted_cov_diag,
            value - self.loc,
            self._capacitance_tril,
        )
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + self._log_det() + distance)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = 0.5 * (constant + self._log_det())
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
