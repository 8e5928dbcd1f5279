"""The half-normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfNormal"]


class HalfNormal(TransformedDistribution):
    """The absolute value of a normal variable around zero.

    Parameters
    ----------
    scale
        Its standard deviation.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Normal

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(HalfNormal, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the normal variable."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return ad.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.pow(2) * (1 - 2 / math.pi)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return ad.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() - math.log(2)
