"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE, Distribution
from .utils import parameters

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """What lies above a threshold: exponential, a power law, or bounded.

    Parameters
    ----------
    loc
        The threshold.
    scale
        By what it is stretched.
    concentration
        0: exponential tails; above: a power law; below: an end at loc - scale / concentration.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration, shape = parameters(loc, scale, concentration)
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        names = ("loc", "scale", "concentration")
        return self._expanded(GeneralizedPareto, names, batch_shape, _instance)

    def _split(self) -> tuple[Tensor, Tensor]:
        """Where the tails are exponential, and exponents that are not zero."""
        flat = ad.isclose(self.concentration, ad.zeros_like(self.concentration))
        return flat, ad.where(flat, ad.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(ad.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        z = (value - self.loc) / self.scale
        flat, exponent = self._split()
        power = 1 / exponent + ad.ones_like(z)
        curved = ad.where(power == 0, power, power * ad.log1p(exponent * z))
        return -self.scale.log() - ad.where(flat, z, curved)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of being above a value."""
        self._checked(value)
        z = (value - self.loc) / self.scale
        flat, exponent = self._split()
        return ad.where(flat, -z, -ad.log1p(exponent * z) / exponent)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of being at or below a value."""
        return ad.log1p(-ad.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        return ad.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        flat, exponent = self._split()
        log_above = ad.log1p(-value)
        curved = self.loc + self.scale / exponent * ad.expm1(-exponent * log_above)
        return ad.where(flat, self.loc - self.scale * log_above, curved)

    @property
    def mean(self) -> Tensor:
        """The mean; NaN where there is none."""
        there = self.concentration < 1
        safe = ad.where(there, self.concentration, 0.5)
        return ad.where(there, self.loc + self.scale / (1 - safe), math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance; NaN where there is none."""
        there = self.concentration < 0.5
        safe = ad.where(there, self.concentration, 0.25)
        variance = self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe))
        return ad.where(there, variance, math.nan)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        entropy = ad.log(self.scale) + self.concentration + 1
        return ad.broadcast_to(entropy, self._batch_shape)

    @property
    def mode(self) -> Tensor:
        """The threshold."""
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """From the threshold to the end, if there is one."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ad.where(self.concentration < 0, end, math.inf))
