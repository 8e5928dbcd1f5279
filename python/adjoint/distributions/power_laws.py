"""Powers of uniform and exponential variables: Pareto, Weibull, Kumaraswamy."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import Distribution
from adjoint.distributions._parameters import Parameter, same_as
from adjoint.distributions._values import euler_constant
from adjoint.distributions.gamma_family import Exponential, log_beta
from adjoint.distributions.location_scale import LocationScale, Real, Uniform
from adjoint.distributions.transformed import TransformedDistribution
from adjoint.distributions.transforms import (
    AffineTransform,
    ExpTransform,
    PowerTransform,
    Transform,
)

__all__ = ["GeneralizedPareto", "Kumaraswamy", "Pareto", "Weibull"]


class Pareto(TransformedDistribution):
    """Pareto's distribution of the first kind.

    Parameters
    ----------
    scale
        The smallest value.
    alpha
        How fast the tail falls: the probability of more than x is (scale / x) ** alpha.
    """

    alpha = Parameter(constraints.positive)
    scale = Parameter(constraints.positive)

    def __init__(self, scale: Real, alpha: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, scale=scale, alpha=alpha)

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        base = Exponential(self.alpha, validate_args=False)
        return base, [ExpTransform(), AffineTransform(0, self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """From scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """Scale · alpha / (alpha - 1), or infinite."""
        a = self.alpha
        return ad.where(a > 1, self.scale * a / (a - 1), math.inf)

    mode = same_as("scale")

    @property
    def variance(self) -> Tensor:
        """Finite for alpha > 2."""
        a = self.alpha
        finite = (self.scale / (a - 1)).square() * a / (a - 2)
        return ad.where(a > 2, finite, math.inf)

    def entropy(self) -> Tensor:
        """log(scale / alpha) + 1 + 1 / alpha."""
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Weibull(TransformedDistribution):
    """Weibull's distribution: a power of an exponential variable.

    Parameters
    ----------
    scale
        How wide it is.
    concentration
        Its shape, often called k.
    """

    scale = Parameter(constraints.positive)
    concentration = Parameter(constraints.positive)
    support = constraints.positive

    def __init__(self, scale: Real, concentration: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, scale=scale, concentration=concentration)

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        base = Exponential(ad.ones_like(self.scale), validate_args=False)
        power = PowerTransform(self.concentration.reciprocal())
        return base, [power, AffineTransform(0, self.scale)]

    def _log_moment(self, order: int) -> Tensor:
        """The logarithm of the mean of (x / scale) ** order."""
        return (1 + order * self.concentration.reciprocal()).lgamma()

    @property
    def mean(self) -> Tensor:
        """In terms of the gamma function."""
        return self.scale * self._log_moment(1).exp()

    @property
    def mode(self) -> Tensor:
        """Where the density is largest, NaN where it has no bound."""
        inverse = self.concentration.reciprocal()
        peak = self.scale * (1 - inverse).clamp(min=0) ** inverse
        return ad.where(inverse <= 1, peak, math.nan)

    @property
    def variance(self) -> Tensor:
        """In terms of the gamma function."""
        first, second = self._log_moment(1), self._log_moment(2)
        return self.scale.square() * (second.exp() - (2 * first).exp())

    def entropy(self) -> Tensor:
        """In terms of Euler's constant."""
        inverse = self.concentration.reciprocal()
        return euler_constant * (1 - inverse) + (self.scale * inverse).log() + 1


class Kumaraswamy(TransformedDistribution):
    """Kumaraswamy's distribution on the unit interval, much like the beta distribution.

    The probability of at most x is 1 - (1 - x ** concentration1) ** concentration0.
    """

    concentration1 = Parameter(constraints.positive)
    concentration0 = Parameter(constraints.positive)
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Real, concentration0: Real, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, concentration1=concentration1, concentration0=concentration0)

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        low = ad.zeros_like(self.concentration0)
        base = Uniform(low, ad.ones_like(low), validate_args=False)
        outer, inner = self.concentration0.reciprocal(), self.concentration1.reciprocal()
        return base, [PowerTransform(outer), AffineTransform(1, -1), PowerTransform(inner)]

    def _moment(self, order: int) -> Tensor:
        """The mean of x ** order."""
        a, b = self.concentration1, self.concentration0
        return (b.log() + log_beta(1 + order / a, b)).exp()

    @property
    def mean(self) -> Tensor:
        """In terms of the beta function."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest, if it is so at one point."""
        a, b = self.concentration1, self.concentration0
        peaked = (a >= 1) & (b >= 1) & (a * b > 1)
        return ad.where(peaked, ((a - 1) / (a * b - 1)) ** a.reciprocal(), math.nan)

    @property
    def variance(self) -> Tensor:
        """In terms of the beta function."""
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        """In terms of a harmonic number."""
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - (a * b).log()


class GeneralizedPareto(LocationScale):
    """The generalised Pareto distribution, of what exceeds a high threshold.

    Parameters
    ----------
    loc
        The threshold.
    scale
        How wide it is.
    concentration
        The shape of the tail: heavy if positive, exponential at 0, bounded if negative.
    """

    loc = Parameter(constraints.real)
    scale = Parameter(constraints.positive)
    concentration = Parameter(constraints.real)

    def __init__(
        self, loc: Real, scale: Real, concentration: Real, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """From the threshold on, up to loc - scale / concentration if that is above it."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, ad.where(self.concentration < 0, end, math.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the tail is exponential, and a concentration to divide by elsewhere."""
        exponential = self.concentration == 0
        return exponential, ad.where(exponential, 1.0, self.concentration)

    def _log_survival(self, z: Tensor) -> Tensor:
        exponential, c = self._shape()
        return ad.where(exponential, -z, -(c * z).log1p() / c)

    def _standard_draw(self, shape: Size, like: Tensor) -> Tensor:
        return self._standard_icdf(ad.rand(tuple(shape), dtype=like.dtype))

    def _standard_log_density(self, z: Tensor) -> Tensor:
        return self._log_survival(z) - (self.concentration * z).log1p()

    def _standard_cdf(self, z: Tensor) -> Tensor:
        return -self._log_survival(z).expm1()

    def _standard_icdf(self, u: Tensor) -> Tensor:
        exponential, c = self._shape()
        tail = -(-u).log1p()
        return ad.where(exponential, tail, (c * tail).expm1() / c)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of draws above `value`."""
        return self._log_survival(self._standardised(value))

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of draws up to `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self._cdf(value).log()

    @property
    def mean(self) -> Tensor:
        """Finite for concentration < 1."""
        c = self.concentration
        return ad.where(c < 1, self.loc + self.scale / (1 - c), math.nan)

    @property
    def variance(self) -> Tensor:
        """Finite for concentration < 1/2."""
        c = self.concentration
        finite = (self.scale / (1 - c)).square() / (1 - 2 * c)
        return ad.where(c < 0.5, finite, math.nan)

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def entropy(self) -> Tensor:
        """log(scale) + 1 + concentration."""
        return self.scale.log() + 1 + self.concentration
