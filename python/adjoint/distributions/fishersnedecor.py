"""The F-distribution of Fisher and Snedecor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE, Distribution
from .gamma import Gamma
from .utils import parameters

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """The quotient of two chi-squared variables, each over its degrees of freedom.

    Parameters
    ----------
    df1, df2
        The degrees of freedom of the numerator and of the denominator.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "df1": constraints.positive,
        "df2": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2, shape = parameters(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._expanded(FisherSnedecor, ("df1", "df2"), batch_shape, _instance)
        new._gamma1 = self._gamma1.expand(batch_shape)
        new._gamma2 = self._gamma2.expand(batch_shape)
        return new

    @property
    def mean(self) -> Tensor:
        """The mean; NaN where there is none."""
        df2 = self.df2.clone()
        df2[self.df2 <= 2] = ad.nan
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        mode[self.df1 <= 2] = ad.nan
        return mode

    @property
    def variance(self) -> Tensor:
        """The variance; NaN where there is none."""
        df2 = self.df2.clone()
        df2[self.df2 <= 4] = ad.nan
        total = self.df1 + df2 - 2
        return 2 * df2.pow(2) * total / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        upper = self._gamma1.rsample(sample_shape).view(shape)
        lower = self._gamma2.rsample(sample_shape).view(shape)
        tiny = ad.finfo(lower.dtype).tiny
        lower.clamp_(min=tiny)
        value = upper / lower
        value.clamp_(min=tiny)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        half1, half2 = self.df1 * 0.5, self.df2 * 0.5
        ratio = self.df1 / self.df2
        constant = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        powers = half1 * ratio.log() + (half1 - 1) * ad.log(value)
        return constant + powers - (half1 + half2) * ad.log1p(ratio * value)
