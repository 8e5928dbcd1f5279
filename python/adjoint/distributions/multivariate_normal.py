"""The multivariate normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE, Distribution
from .utils import _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]

_FORMS = ("scale_tril", "covariance_matrix", "precision_matrix")


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Matrices times vectors, batches broadcast."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """The form x' M^-1 x for M = L L', batches broadcast."""
    if bL.dim() == 2:  # all vectors at once
        rows = bx.reshape(-1, bx.size(-1))
        solved = ad.linalg.solve_triangular(bL, rows.mT, upper=False)
        return solved.pow(2).sum(-2).reshape(bx.shape[:-1])
    solved = ad.linalg.solve_triangular(bL, bx.unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The lower Cholesky factor of the inverse, from that of the matrix turned round."""
    turned = ad.linalg.cholesky(P.flip((-2, -1)))
    inverse = turned.flip((-2, -1)).mT
    identity = ad.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return ad.linalg.solve_triangular(inverse, identity, upper=False)


def _lower_factor(name: str, matrix: Tensor) -> Tensor:
    """The Cholesky factor of the covariance, from what is given."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return ad.linalg.cholesky(matrix)
    return _precision_to_scale_tril(matrix)


class MultivariateNormal(Distribution):
    """Normal vectors with a mean and a covariance.

    Parameters
    ----------
    loc
        The mean.
    covariance_matrix, precision_matrix, scale_tril
        One of them: the covariance, its inverse, or its lower Cholesky factor. The last is what is
        computed with.
    validate_args
        Whether parameters and values are checked.

    Examples
    --------
    >>> import adjoint as ad
    >>> d = ad.distributions.MultivariateNormal(ad.zeros(2), ad.eye(2))
    >>> d.log_prob(ad.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        forms = (scale_tril, covariance_matrix, precision_matrix)
        given = [(n, m) for n, m in zip(_FORMS, forms, strict=True) if m is not None]
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        name, matrix = given[0]
        if matrix.dim() < 2:
            which = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{which} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = ad.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.__dict__[name] = matrix.expand((*batch_shape, -1, -1))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = _lower_factor(name, matrix)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(MultivariateNormal, _instance)
        shape = ad.Size(batch_shape)
        new.loc = self.loc.expand((*shape, *self.event_shape))
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        for name in _FORMS:
            if name in self.__dict__:
                square = (*shape, *self.event_shape, *self.event_shape)
                new.__dict__[name] = self.__dict__[name].expand(square)
        return self._finish(new, shape, self.event_shape)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        identity = ad.eye(self.loc.size(-1), dtype=self.loc.dtype, device=self.loc.device)
        return self._whole(ad.cholesky_solve(identity, self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand((*self._batch_shape, *self._event_shape))

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a vector."""
        self._checked(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        entropy = constant + self._half_log_det()
        return entropy.expand(self._batch_shape) if self._batch_shape else entropy
