"""The half-Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .cauchy import Cauchy
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """The absolute value of a Cauchy variable around zero.

    Parameters
    ----------
    scale
        Its scale.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Cauchy

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(HalfCauchy, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def scale(self) -> Tensor:
        """The scale of the Cauchy variable."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """Infinity."""
        shape = self._extended_shape()
        return ad.full(shape, math.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return ad.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """Infinity."""
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        value = ad.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
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
