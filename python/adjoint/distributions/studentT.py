"""Student's t-distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .chi2 import Chi2
from .distribution import _NO_SHAPE, Distribution
from .utils import _standard_normal, broadcast_all

__all__ = ["StudentT"]


class StudentT(Distribution):
    """A normal variable over the root of a chi-squared one, moved and stretched.

    Parameters
    ----------
    df
        The degrees of freedom.
    loc, scale
        By what it is moved and stretched.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "df": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean; NaN where there is none."""
        mean = self.loc.clone()
        mean[self.df <= 1] = math.nan
        return mean

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; infinite or NaN where there is none."""
        variance = self.df.clone()
        finite = self.df > 2
        variance[finite] = self.scale[finite].pow(2) * self.df[finite] / (self.df[finite] - 2)
        variance[(self.df <= 2) & (self.df > 1)] = math.inf
        variance[self.df <= 1] = math.nan
        return variance

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._expanded(StudentT, ("df", "loc", "scale"), batch_shape, _instance)
        new._chi2 = self._chi2.expand(batch_shape)
        return new

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        normal = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        chi2 = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (normal * ad.rsqrt(chi2 / self.df))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        y = (value - self.loc) / self.scale
        normaliser = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + ad.lgamma(0.5 * self.df)
            - ad.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * ad.log1p(y**2.0 / self.df) - normaliser

    def entropy(self) -> Tensor:
        """Return the entropy."""
        log_beta = ad.lgamma(0.5 * self.df) + math.lgamma(0.5) - ad.lgamma(0.5 * (self.df + 1))
        slope = ad.digamma(0.5 * (self.df + 1)) - ad.digamma(0.5 * self.df)
        return self.scale.log() + 0.5 * (self.df + 1) * slope + 0.5 * self.df.log() + log_beta
