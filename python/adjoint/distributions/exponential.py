"""The exponential distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE
from .exp_family import ExponentialFamily
from .utils import parameters

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """Waiting times of events with a rate.

    Parameters
    ----------
    rate
        Events in a unit of time.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate, shape = parameters(rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return ad.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.rate.pow(-2)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expanded(Exponential, ("rate",), batch_shape, _instance)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        return self.rate.new_empty(shape).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        self._checked(value)
        return 1 - ad.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        return -ad.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1.0 - ad.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return -ad.log(-x)
