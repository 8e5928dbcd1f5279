"""The inverse gamma distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """One over a gamma variable.

    Parameters
    ----------
    concentration, rate
        Those of the gamma variable.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, inverse, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(InverseGamma, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma variable."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma variable."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """The mean; infinite where there is none."""
        mean = self.rate / (self.concentration - 1)
        return ad.where(self.concentration > 1, mean, math.inf)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance; infinite where there is none."""
        a = self.concentration
        variance = self.rate.square() / ((a - 1).square() * (a - 2))
        return ad.where(a > 2, variance, math.inf)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
