"""Random matrices: Wishart's covariances and LKJ's factors of correlations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import ExponentialFamily
from adjoint.distributions._family import Family
from adjoint.distributions._parameters import Parameter
from adjoint.distributions._values import standard_normal
from adjoint.distributions.gamma_family import draw_gamma
from adjoint.distributions.location_scale import Real
from adjoint.distributions.multivariate import (
    ByFactor,
    check_matrix,
    half_log_determinant,
    the_one_given,
)

__all__ = ["LKJCholesky", "Wishart"]

# How often draws that rounding made singular are drawn again.
_TRIES = 10


def _multidigamma(x: Tensor, size: int) -> Tensor:
    """The derivative of the logarithm of the multivariate gamma function."""
    return (x.unsqueeze(-1) - 0.5 * ad.arange(size, dtype=x.dtype)).digamma().sum(-1)


class Wishart(ByFactor, ExponentialFamily):
    """Wishart's distribution of the sum of products x xᵀ of `df` normal vectors x.

    Parameters
    ----------
    df
        The degrees of freedom, more than the size of a vector less 1; it need not be whole.
    covariance_matrix, precision_matrix, scale_tril
        One of them: the covariance of a vector, its inverse or its Cholesky factor.
    """

    df = Parameter(constraints.dependent(is_discrete=False, event_dim=0))
    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Real,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = the_one_given(
            AssertionError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        check_matrix("scale_tril", matrix)
        self._check_df(df, matrix.shape[-1])
        if isinstance(df, Number):
            df = ad.tensor(df, dtype=matrix.dtype)
        self._given_name = name
        self._take(validate_args, df=df, **{name: matrix})
        self._set_factor(name, matrix)

    @staticmethod
    def _check_df(df: Any, size: int) -> None:
        values = ad.as_tensor(df)
        if not (values > size - 1).all():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {size - 1}.")
        if (values < size).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
                stacklevel=4,
            )

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint on `df` follows from the size of a matrix."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def _event_of(self) -> Sequence[int]:
        shape: Size = self.__dict__[self._given_name].shape
        return shape[-2:]

    def rsample(
        self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None
    ) -> Tensor:
        """Draw matrices; those that rounding made singular are drawn again."""
        shape = self._extended_shape(sample_shape)
        with ad.no_grad():
            self._draw(shape)  # PyTorch takes each first draw for singular: its second one is ours
        drawn = self._draw(shape)
        for _ in range(_TRIES if max_try_correction is None else max_try_correction):
            singular = ~self.support.check(drawn.detach())
            if not singular.any():
                break
            warnings.warn("Singular sample detected.", stacklevel=2)
            drawn = ad.where(singular[..., None, None], self._draw(shape), drawn)
        return drawn

    def _draw(self, shape: Size) -> Tensor:
        # Bartlett's decomposition: a factor of chi variables with normal ones below them.
        size = shape[-1]
        half = 0.5 * (self.df.unsqueeze(-1) - ad.arange(size, dtype=self.df.dtype))
        squares = draw_gamma(half, ad.full_like(half, 0.5), Size(shape[:-1]))
        below = standard_normal((*shape[:-2], size * (size - 1) // 2), self.df)
        rows, columns = ad.tril_indices(size, size, -1)
        noise = ad.zeros(tuple(shape), dtype=self.df.dtype)
        noise[..., rows, columns] = below
        factor = self._unbroadcasted_scale_tril @ (noise + squares.sqrt().diag_embed())
        return factor @ factor.mT

    def _log_scale(self) -> Tensor:
        """Log |2V| / 2 for the covariance V."""
        size = self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        return half_log_determinant(factor) + 0.5 * size * math.log(2)

    def _log_density(self, value: Tensor) -> Tensor:
        size = self._event_shape[-1]
        solved = ad.cholesky_solve(value, self._unbroadcasted_scale_tril)
        trace = solved.diagonal(dim1=-2, dim2=-1).sum(-1)
        power = 0.5 * (self.df - size - 1) * ad.linalg.slogdet(value).logabsdet
        log_gamma = ad.special.multigammaln(0.5 * self.df, size)
        return power - 0.5 * trace - self.df * self._log_scale() - log_gamma

    @property
    def mean(self) -> Tensor:
        """Df times the covariance."""
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """(df - size - 1) times the covariance, if that is positive."""
        factor = self.df - self._event_shape[-1] - 1
        factor = ad.where(factor > 0, factor, math.nan)
        return factor[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        matrix = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (matrix.square() + outer)

    def entropy(self) -> Tensor:
        """In terms of the multivariate gamma function."""
        size = self._event_shape[-1]
        half = 0.5 * self.df
        spread = 0.5 * (self.df - size - 1) * _multidigamma(half, size)
        log_gamma = ad.special.multigammaln(half, size)
        return (size + 1) * self._log_scale() + log_gamma - spread + half * size

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -0.5 * self.precision_matrix, 0.5 * (self.df - self._event_shape[-1] - 1)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        matrix, power = natural_params
        half_df = power + 0.5 * (self._event_shape[-1] + 1)
        log_gamma = ad.special.multigammaln(half_df, self._event_shape[-1])
        return log_gamma - half_df * ad.linalg.slogdet(-matrix).logabsdet


class LKJCholesky(Family):
    """Cholesky factors of correlation matrices (Lewandowski, Kurowicka and Joe, 2009).

    The density of a correlation matrix is proportional to its determinant to the power
    ``concentration - 1``: 1 means that all are equally likely.

    Parameters
    ----------
    dim
        The size of a matrix, at least 2.
    concentration
        How much matrices near the identity are preferred.
    """

    concentration = Parameter(constraints.positive)
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Real = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        self._take(validate_args, concentration=concentration)

    def _event_of(self) -> Sequence[int]:
        return (self.dim, self.dim)

    def _draw(self, shape: Size) -> Tensor:
        # The onion method: each row is a direction, and how far it leaves the diagonal.
        c = self.concentration
        before = ad.arange(self.dim, dtype=c.dtype).sub(1).clamp(min=0)
        weights = ad.stack(
            ad.broadcast_tensors(
                before + 0.5, (c + 0.5 * (self.dim - 2)).unsqueeze(-1) - 0.5 * before
            ),
            -1,
        )
        away = ad._sample_dirichlet(weights.expand((*shape[:-1], 2)))[..., :1]
        direction = standard_normal(shape, c).tril(-1)
        direction = direction / direction.norm(dim=-1, keepdim=True)
        direction[..., 0, :] = 0.0  # nothing lies below the first diagonal element
        rows = away.sqrt() * direction
        left = (1 - rows.square().sum(-1)).clamp(min=ad.finfo(c.dtype).tiny)
        return rows + left.sqrt().diag_embed()

    def _log_density(self, value: Tensor) -> Tensor:
        free = self.dim - 1
        diagonal = value.diagonal(dim1=-2, dim2=-1)[..., 1:]
        after = ad.arange(free - 1, -1, -1, dtype=value.dtype)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + after
        top = self.concentration + 0.5 * free
        log_norm = ad.special.multigammaln(top - 0.5, free) - free * top.lgamma()
        return (powers * diagonal.log()).sum(-1) - log_norm - 0.5 * free * math.log(math.pi)
