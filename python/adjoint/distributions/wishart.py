"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from numbers import Number
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .chi2 import Chi2
from .distribution import _NO_SHAPE
from .exp_family import ExponentialFamily
from .multivariate_normal import _FORMS, _lower_factor
from .utils import lazy_property

__all__ = ["Wishart"]


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    if not x.gt((p - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    steps = ad.arange(p, dtype=x.dtype, device=x.device) / 2
    return ad.digamma(x.unsqueeze(-1) - steps).sum(-1)


def _clamp_above_eps(x: Tensor) -> Tensor:
    return x.clamp(min=ad.finfo(x.dtype).eps)


class Wishart(ExponentialFamily):
    """Sums of outer products of `df` normal vectors: random positive definite matrices.

    Parameters
    ----------
    df
        The degrees of freedom, more than the size less one.
    covariance_matrix, precision_matrix, scale_tril
        One of them: the covariance of the vectors, its inverse, or its Cholesky factor.
    validate_args
        Whether parameters and values are checked.
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """`df` exceeds the size less one."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        forms = (scale_tril, covariance_matrix, precision_matrix)
        given = [(n, m) for n, m in zip(_FORMS, forms, strict=True) if m is not None]
        if len(given) != 1:
            raise AssertionError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                "specified."
            )
        name, matrix = given[0]
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if isinstance(df, Number):
            batch_shape = matrix.shape[:-2]
            self.df = ad.tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = ad.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(
                f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}."
            )
        self.__dict__[name] = matrix.expand((*batch_shape, -1, -1))
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 "
                "< df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._batch_dims = [-(x + 1) for x in range(len(self._batch_shape))]
        self._unbroadcasted_scale_tril = _lower_factor(name, matrix)
        self._dist_chi2 = self._chi2_of(self.df, batch_shape)

    def _chi2_of(self, df: Tensor, batch_shape: Sequence[int]) -> Chi2:
        """The squares on the diagonal of Bartlett's decomposition."""
        factor = self._unbroadcasted_scale_tril
        rows = ad.arange(factor.size(-1), dtype=factor.dtype, device=factor.device)
        return Chi2(df=df.unsqueeze(-1) - rows.expand((*batch_shape, -1)))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Wishart, _instance)
        shape = ad.Size(batch_shape)
        square = (*shape, *self.event_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril.expand(square)
        new.df = self.df.expand(shape)
        new._batch_dims = [-(x + 1) for x in range(len(shape))]
        for name in _FORMS:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name].expand(square)
        new._dist_chi2 = new._chi2_of(new.df, shape)
        return self._finish(new, shape, self.event_shape)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *self._event_shape))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance of the vectors."""
        factor = self._unbroadcasted_scale_tril
        return self._whole(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        factor = self._unbroadcasted_scale_tril
        identity = ad.eye(self._event_shape[-1], dtype=factor.dtype, device=factor.device)
        return self._whole(ad.cholesky_solve(identity, factor))

    def _per_matrix(self, t: Tensor) -> Tensor:
        return t.view((*self._batch_shape, 1, 1))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._per_matrix(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """Where the density is largest; NaN where it is not inside."""
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = factor.masked_fill(factor <= 0, math.nan)
        return self._per_matrix(factor) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        v = self.covariance_matrix
        diag = v.diagonal(dim1=-2, dim2=-1)
        return self._per_matrix(self.df) * (v.pow(2) + diag.unsqueeze(-1) * diag.unsqueeze(-2))

    def _bartlett_sampling(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        p = self._event_shape[-1]
        roots = _clamp_above_eps(self._dist_chi2.rsample(sample_shape).sqrt())
        noise = roots.diag_embed(dim1=-2, dim2=-1)
        i, j = ad.tril_indices(p, p, offset=-1)
        noise[..., i, j] = ad.randn(
            (*sample_shape, *self._batch_shape, p * (p - 1) // 2),
            dtype=noise.dtype,
            device=noise.device,
        )
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(
        self, sample_shape: Sequence[int] = _NO_SHAPE, max_try_correction: int | None = None
    ) -> Tensor:
        """Draw samples whose gradients by the parameters are known.

        Parameters
        ----------
        sample_shape
            Their shape.
        max_try_correction
            How often samples that rounding made singular are drawn again; 10 by default.
        """
        tries = 10 if max_try_correction is None else max_try_correction
        shape = ad.Size(sample_shape)
        sample = self._bartlett_sampling(shape)
        # PyTorch draws once more where a sample is sound, and so does this, for the same numbers.
        again = self._all_in_batch(self.support.check(sample))
        for attempt in range(tries):
            if not again.any():
                break
            fresh = self._bartlett_sampling(again[again].shape)
            sample[again] = fresh
            sound = self._all_in_batch(self.support.check(fresh))
            if attempt > 0 or not sound.all():
                warnings.warn("Singular sample detected.", stacklevel=2)
            again[again.clone()] = ~sound
        return sample

    def _all_in_batch(self, sound: Tensor) -> Tensor:
        return sound.amin(self._batch_dims) if self._batch_shape else sound

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a matrix."""
        self._checked(value)
        nu, p = self.df, self._event_shape[-1]
        solved = ad.cholesky_solve(value, self._unbroadcasted_scale_tril)
        return (
            -nu * (p * math.log(2) / 2 + self._half_log_det())
            - ad.mvlgamma(nu / 2, p)
            + (nu - p - 1) / 2 * ad.linalg.slogdet(value).logabsdet
            - solved.diagonal(dim1=-2, dim2=-1).sum(dim=-1) / 2
        )

    def entropy(self) -> Tensor:
        """Return the entropy."""
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * (p * math.log(2) / 2 + self._half_log_det())
            + ad.mvlgamma(nu / 2, p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        log_det = ad.linalg.slogdet(-2 * x).logabsdet
        return half * (-log_det + math.log(2) * p) + ad.mvlgamma(half, p)
