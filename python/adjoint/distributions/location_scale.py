"""Location-scale families: a standard distribution, stretched and moved.

x = location + scale · z. A class says what is known of z: its density, distribution function,
quantiles, moments and draws. Read next: transformed.py, from_normal.py.
"""

from __future__ import annotations

import math
from typing import ClassVar

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import ExponentialFamily
from adjoint.distributions._family import Family
from adjoint.distributions._parameters import Parameter
from adjoint.distributions._values import standard_normal, uniform_in

__all__ = ["Cauchy", "Laplace", "Normal", "Uniform"]

Real = Tensor | float


class LocationScale(Family):
    """The distribution of location + scale · z for a standard variable z."""

    has_rsample = True

    # Of z.
    standard_mean: ClassVar[float] = 0.0
    standard_mode: ClassVar[float] = 0.0
    standard_variance: ClassVar[float]
    standard_entropy: ClassVar[float]

    def _place(self) -> tuple[Real, Tensor]:
        """The location and the scale."""
        return self.loc, self.scale  # type: ignore[attr-defined]

    def _standard_draw(self, shape: Size, like: Tensor) -> Tensor:
        raise NotImplementedError

    def _standard_log_density(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _standard_cdf(self, z: Tensor) -> Tensor:
        raise NotImplementedError

    def _standard_icdf(self, u: Tensor) -> Tensor:
        raise NotImplementedError

    def _standardised(self, value: Tensor) -> Tensor:
        location, scale = self._place()
        return (value - location) / scale

    def _draw(self, shape: Size) -> Tensor:
        location, scale = self._place()
        return location + self._standard_draw(shape, scale) * scale

    def _log_density(self, value: Tensor) -> Tensor:
        return self._standard_log_density(self._standardised(value)) - self._place()[1].log()

    def _cdf(self, value: Tensor) -> Tensor:
        return self._standard_cdf(self._standardised(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The number up to which draws have the probability `value`."""
        location, scale = self._place()
        return location + scale * self._standard_icdf(value)

    def _at(self, z: float) -> Tensor:
        location, scale = self._place()
        if not math.isfinite(z):
            return ad.full_like(scale, z)
        return location if z == 0 and isinstance(location, Tensor) else location + scale * z

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        return self._at(self.standard_mean)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        return self._at(self.standard_mode)

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        scale = self._place()[1]
        if math.isinf(self.standard_variance):  # whatever the scale, which may round to 0
            return ad.full_like(scale, math.inf)
        return scale.square() * self.standard_variance

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        if math.isinf(self.standard_variance):
            return self.variance
        return self._place()[1] * math.sqrt(self.standard_variance)

    def entropy(self) -> Tensor:
        """The entropy of z and the logarithm of the scale."""
        return self._place()[1].log() + self.standard_entropy


class Normal(LocationScale, ExponentialFamily):
    """The normal (Gaussian) distribution.

    Parameters
    ----------
    loc
        The mean.
    scale
        The standard deviation.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import Normal
    >>> Normal(ad.zeros(2), 1.0).log_prob(ad.tensor([0.0, 1.0]))
    tensor([-0.9189, -1.4189])
    """

    loc = Parameter(constraints.real)
    scale = Parameter(constraints.positive)
    support = constraints.real
    standard_variance = 1.0
    standard_entropy = 0.5 * (1 + math.log(2 * math.pi))
    _mean_carrier_measure = 0

    def __init__(self, loc: Real, scale: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    def _standard_draw(self, shape: Size, like: Tensor) -> Tensor:
        return standard_normal(shape, like)

    def _standard_log_density(self, z: Tensor) -> Tensor:
        return -0.5 * z.square() - 0.5 * math.log(2 * math.pi)

    def _standard_cdf(self, z: Tensor) -> Tensor:
        return 0.5 * (1 + (z * math.sqrt(0.5)).erf())

    def _standard_icdf(self, u: Tensor) -> Tensor:
        return (2 * u - 1).erfinv() * math.sqrt(2)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        precision = self.scale.square().reciprocal()
        return self.loc * precision, -0.5 * precision

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        linear, square = natural_params
        return 0.5 * (-math.pi / square).log() - 0.25 * linear.square() / square


class Cauchy(LocationScale):
    """The Cauchy distribution: the ratio of two normal variables; it has no mean.

    Parameters
    ----------
    loc
        The median.
    scale
        Half the width at half the height.
    """

    loc = Parameter(constraints.real)
    scale = Parameter(constraints.positive)
    support = constraints.real
    standard_mean = math.nan
    standard_variance = math.inf
    standard_entropy = math.log(4 * math.pi)

    def __init__(self, loc: Real, scale: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    def _standard_draw(self, shape: Size, like: Tensor) -> Tensor:
        return ad.empty(tuple(shape), dtype=like.dtype).cauchy_()

    def _standard_log_density(self, z: Tensor) -> Tensor:
        return -z.square().log1p() - math.log(math.pi)

    def _standard_cdf(self, z: Tensor) -> Tensor:
        return z.atan() / math.pi + 0.5

    def _standard_icdf(self, u: Tensor) -> Tensor:
        return (math.pi * (u - 0.5)).tan()


class Laplace(LocationScale):
    """The Laplace distribution: exponential on both sides of `loc`.

    Parameters
    ----------
    loc
        The mean.
    scale
        The mean distance from it.
    """

    loc = Parameter(constraints.real)
    scale = Parameter(constraints.positive)
    support = constraints.real
    standard_variance = 2.0
    standard_entropy = 1 + math.log(2)

    def __init__(self, loc: Real, scale: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    def _standard_draw(self, shape: Size, like: Tensor) -> Tensor:
        # In (-1, 1): the logarithm of 1 - |u| must be finite.
        u = uniform_in(shape, like, ad.finfo(like.dtype).eps - 1, 1)
        return -u.sign() * (-u.abs()).log1p()

    def _standard_log_density(self, z: Tensor) -> Tensor:
        return -z.abs() - math.log(2)

    def _standard_cdf(self, z: Tensor) -> Tensor:
        return 0.5 - 0.5 * z.sign() * (-z.abs()).expm1()

    def _standard_icdf(self, u: Tensor) -> Tensor:
        off = u - 0.5
        return -off.sign() * (-2 * off.abs()).log1p()


class Uniform(LocationScale):
    """The uniform distribution on [low, high)."""

    low = Parameter(constraints.dependent(is_discrete=False, event_dim=0))
    high = Parameter(constraints.dependent(is_discrete=False, event_dim=0))
    standard_mean = 0.5
    standard_mode = math.nan
    standard_variance = 1 / 12
    standard_entropy = 0.0

    def __init__(self, low: Real, high: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """Each end bounds the other."""
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> constraints.Constraint:
        """From low to high."""
        return constraints.interval(self.low, self.high)

    def _place(self) -> tuple[Real, Tensor]:
        return self.low, self.high - self.low

    def _standard_draw(self, shape: Size, like: Tensor) -> Tensor:
        return ad.rand(tuple(shape), dtype=like.dtype)

    def _log_density(self, value: Tensor) -> Tensor:
        # The ends are compared as they are: a difference would round.
        inside = (self.low <= value) & (value < self.high)
        return inside.type_as(self.low).log() - (self.high - self.low).log()

    def _standard_cdf(self, z: Tensor) -> Tensor:
        return z.clamp(0, 1)

    def _standard_icdf(self, u: Tensor) -> Tensor:
        return u
