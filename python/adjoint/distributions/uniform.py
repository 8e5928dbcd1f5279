"""The uniform distribution on an interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE, Distribution
from .utils import parameters

__all__ = ["Uniform"]


class Uniform(Distribution):
    """Numbers in [low, high), all alike.

    Parameters
    ----------
    low, high
        The ends of the interval.
    validate_args
        Whether parameters and values are checked.
    """

    has_rsample = True

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """Each end is on its side of the other."""
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high, shape = parameters(low, high)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The middle of the interval."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: no value is likelier than another."""
        return ad.nan * self.high

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (self.high - self.low).pow(2) / 12

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expanded(Uniform, ("low", "high"), batch_shape, _instance)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """The interval."""
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        rand = ad.rand(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + rand * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        above = self.low.le(value).type_as(self.low)
        below = self.high.gt(value).type_as(self.low)
        return ad.log(above.mul(below)) - ad.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return ad.log(self.high - self.low)
