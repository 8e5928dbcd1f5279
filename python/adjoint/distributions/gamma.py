"""The gamma distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE
from .exp_family import ExponentialFamily
from .utils import parameters

__all__ = ["Gamma"]


def _standard_gamma(concentration: Tensor) -> Tensor:
    return ad._standard_gamma(concentration)


class Gamma(ExponentialFamily):
    """A gamma distribution; gradients of samples are implicit ones.

    Parameters
    ----------
    concentration
        The shape.
    rate
        One over the scale.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.positive,
        "rate": constraints.positive,
    }
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate, shape = parameters(concentration, rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.concentration / self.rate.pow(2)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expanded(Gamma, ("concentration", "rate"), batch_shape, _instance)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        # Values, not gradients, are kept from becoming zero.
        value.detach().clamp_(min=ad.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        value = ad.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._checked(value)
        return (
            ad.xlogy(self.concentration, self.rate)
            + ad.xlogy(self.concentration - 1, value)
            - self.rate * value
            - ad.lgamma(self.concentration)
        )

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (
            self.concentration
            - ad.log(self.rate)
            + ad.lgamma(self.concentration)
            + (1.0 - self.concentration) * ad.digamma(self.concentration)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration - 1, -self.rate)

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return ad.lgamma(x + 1) + (x + 1) * ad.log(-y.reciprocal())

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        self._checked(value)
        return ad.special.gammainc(self.concentration, self.rate * value)
