"""Normal vectors: MultivariateNormal, with a full covariance or one of low rank."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._family import Family
from adjoint.distributions._parameters import Parameter, same_as
from adjoint.distributions._values import standard_normal

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]

_LOG_TWO_PI = math.log(2 * math.pi)


def factor_of_inverse(matrix: Tensor) -> Tensor:
    """The Cholesky factor of the inverse of a positive definite matrix."""
    # matrix = U Uᵀ with U upper triangular (a factor of the matrix turned about its centre), so
    # that U⁻ᵀ is lower triangular and a factor of the inverse.
    upper = ad.linalg.cholesky(matrix.flip(-2, -1)).flip(-2, -1)
    one = ad.eye(matrix.shape[-1], dtype=matrix.dtype)
    return ad.linalg.solve_triangular(upper.mT, one, upper=False)


def inverse_by_factor(factor: Tensor) -> Tensor:
    """The inverse of L Lᵀ."""
    return ad.cholesky_inverse(factor)


def half_log_determinant(factor: Tensor) -> Tensor:
    """Half the logarithm of the determinant of L Lᵀ."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def times_vector(matrix: Tensor, vector: Tensor) -> Tensor:
    """A matrix for each batch element, times vectors."""
    return (matrix @ vector.unsqueeze(-1)).squeeze(-1)


def squared_length(factor: Tensor, vectors: Tensor) -> Tensor:
    """|L⁻¹ x|² of vectors with more axes in front than the factors have.

    The axes in front become columns, so that a factor is not repeated for each vector.
    """
    batch, size = factor.shape[:-2], vectors.shape[-1]
    lead = vectors.dim() - 1 - len(batch)
    if lead < 0:  # fewer vectors than factors
        return squared_length(factor, vectors.expand((*batch, size)))
    shared = ad.broadcast_shapes(vectors.shape[lead:-1], batch)
    front = vectors.shape[:lead]
    columns = vectors.expand((*front, *shared, size)).reshape(-1, *shared, size).movedim(0, -1)
    solved = ad.linalg.solve_triangular(
        factor.expand((*shared, *factor.shape[-2:])), columns, upper=False
    )
    return solved.square().sum(-2).movedim(-1, 0).reshape((*front, *shared))


def check_vector(loc: Tensor) -> None:
    """Refuse what is not a vector."""
    if not loc.dim():
        raise ValueError("loc must be at least one-dimensional.")


def check_matrix(name: str, matrix: Tensor) -> None:
    """Refuse what is not a matrix."""
    if matrix.dim() < 2:
        raise ValueError(
            f"{name} must be at least two-dimensional, with optional leading batch dimensions"
        )


class ByFactor(Family):
    """A matrix given as covariance, as its inverse or as its Cholesky factor.

    The factor as it was given, not repeated over the batch, is what is computed with.
    """

    covariance_matrix = Parameter(
        constraints.positive_definite, derive=lambda d: d._widened(d._product())
    )
    precision_matrix = Parameter(
        constraints.positive_definite,
        derive=lambda d: d._widened(inverse_by_factor(d._unbroadcasted_scale_tril)),
    )
    scale_tril = Parameter(
        constraints.lower_cholesky, derive=lambda d: d._widened(d._unbroadcasted_scale_tril)
    )
    _unbroadcasted_scale_tril: Tensor

    def _widened(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *matrix.shape[-2:]))

    def _product(self) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        return factor @ factor.mT

    def _set_factor(self, name: str, matrix: Tensor) -> None:
        makers: dict[str, Callable[[Tensor], Tensor]] = {
            "covariance_matrix": ad.linalg.cholesky,
            "precision_matrix": factor_of_inverse,
            "scale_tril": lambda factor: factor,
        }
        self._unbroadcasted_scale_tril = makers[name](matrix)


def the_one_given(error: type[Exception], **forms: Any) -> tuple[str, Tensor]:
    """The name and the value of the only argument that is not None."""
    given = [(name, value) for name, value in forms.items() if value is not None]
    if len(given) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return given[0]


class MultivariateNormal(ByFactor):
    """The normal distribution of vectors.

    Parameters
    ----------
    loc
        The mean, along the last axis.
    covariance_matrix, precision_matrix, scale_tril
        One of them: the covariance, its inverse or its Cholesky factor.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import MultivariateNormal
    >>> MultivariateNormal(ad.zeros(2), ad.eye(2)).log_prob(ad.zeros(2))
    tensor(-1.8379)
    """

    loc = Parameter(constraints.real_vector)
    has_rsample = True
    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        check_vector(loc)
        name, matrix = the_one_given(
            ValueError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        check_matrix("scale_tril matrix" if name == "scale_tril" else name, matrix)
        self._take(validate_args, loc=loc, **{name: matrix})
        self._set_factor(name, matrix)

    def _event_of(self) -> Sequence[int]:
        return self.loc.shape[-1:]

    def _draw(self, shape: Size) -> Tensor:
        return self.loc + times_vector(
            self._unbroadcasted_scale_tril, standard_normal(shape, self.loc)
        )

    def _log_density(self, value: Tensor) -> Tensor:
        factor = self._unbroadcasted_scale_tril
        squared = squared_length(factor, value - self.loc)
        size = self._event_shape[0]
        return -0.5 * (size * _LOG_TWO_PI + squared) - half_log_determinant(factor)

    mean = same_as("loc")
    mode = same_as("loc")

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        diagonal = self._unbroadcasted_scale_tril.square().sum(-1)
        return diagonal.expand(self._extended_shape())

    def entropy(self) -> Tensor:
        """In terms of the determinant of the covariance."""
        half = half_log_determinant(self._unbroadcasted_scale_tril)
        total = 0.5 * self._event_shape[0] * (1 + _LOG_TWO_PI) + half
        return total.expand(self._batch_shape)


class LowRankMultivariateNormal(Family):
    """The normal distribution of vectors with the covariance W Wᵀ + D, D diagonal.

    Densities cost what the rank of W costs, by the identities of Woodbury and of Sylvester.

    Parameters
    ----------
    loc
        The mean, along the last axis.
    cov_factor
        W, with few columns.
    cov_diag
        The diagonal of D.
    """

    loc = Parameter(constraints.real_vector)
    cov_factor = Parameter(constraints.independent(constraints.real, 2))
    cov_diag = Parameter(constraints.independent(constraints.positive, 1))
    has_rsample = True
    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        check_vector(loc)
        check_matrix("cov_factor", cov_factor)
        event = loc.shape[-1:]
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            ad.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        # The factor of 1 + Wᵀ D⁻¹ W, as small as the rank.
        small = self._scaled_factor().mT @ cov_factor
        one = ad.eye(small.shape[-1], dtype=small.dtype)
        self._capacitance_tril = ad.linalg.cholesky(one + small)
        self._take(validate_args, loc=loc, cov_factor=cov_factor, cov_diag=cov_diag)

    def _scaled_factor(self) -> Tensor:
        """D⁻¹ W."""
        return self._unbroadcasted_cov_factor / self._unbroadcasted_cov_diag.unsqueeze(-1)

    def _half_log_determinant(self) -> Tensor:
        wide = 0.5 * self._unbroadcasted_cov_diag.log().sum(-1)
        return half_log_determinant(self._capacitance_tril) + wide

    def _squared_length(self, vectors: Tensor) -> Tensor:
        """xᵀ (W Wᵀ + D)⁻¹ x."""
        inner = times_vector(self._scaled_factor().mT, vectors)
        along = (vectors.square() / self._unbroadcasted_cov_diag).sum(-1)
        return along - squared_length(self._capacitance_tril, inner)

    def _event_of(self) -> Sequence[int]:
        return self.loc.shape[-1:]

    def _widened(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *matrix.shape[-2:]))

    def _draw(self, shape: Size) -> Tensor:
        rank = self._unbroadcasted_cov_factor.shape[-1]
        inner = standard_normal((*shape[:-1], rank), self.loc)
        along = standard_normal(shape, self.loc) * self._unbroadcasted_cov_diag.sqrt()
        return self.loc + times_vector(self._unbroadcasted_cov_factor, inner) + along

    def _log_density(self, value: Tensor) -> Tensor:
        squared = self._squared_length(value - self.loc)
        size = self._event_shape[0]
        return -0.5 * (size * _LOG_TWO_PI + squared) - self._half_log_determinant()

    mean = same_as("loc")
    mode = same_as("loc")

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        diagonal = self._unbroadcasted_cov_factor.square().sum(-1) + self._unbroadcasted_cov_diag
        return diagonal.expand(self._extended_shape())

    @property
    def covariance_matrix(self) -> Tensor:
        """W Wᵀ + D."""
        factor = self._unbroadcasted_cov_factor
        return self._widened(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        half = self._root_of_correction()
        inverse = self._unbroadcasted_cov_diag.reciprocal().diag_embed()
        return self._widened(inverse - half.mT @ half)

    def _root_of_correction(self) -> Tensor:
        """A matrix A with Σ⁻¹ = D⁻¹ - Aᵀ A."""
        return ad.linalg.solve_triangular(
            self._capacitance_tril, self._scaled_factor().mT, upper=False
        )

    def _inverse_diagonal(self) -> Tensor:
        """The diagonal of the precision, without the matrix."""
        correction = self._root_of_correction().square().sum(-2)
        return self._unbroadcasted_cov_diag.reciprocal() - correction

    @property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return ad.linalg.cholesky(self.covariance_matrix)

    def entropy(self) -> Tensor:
        """In terms of the determinant of the covariance."""
        total = 0.5 * self._event_shape[0] * (1 + _LOG_TWO_PI) + self._half_log_determinant()
        return total.expand(self._batch_shape)
