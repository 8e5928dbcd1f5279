"""What gamma variables make: Gamma, Chi2, Exponential, and ratios of them.

Draws are differentiable by implicit differentiation of the distribution function.
"""

from __future__ import annotations

import math

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import Distribution, ExponentialFamily
from adjoint.distributions._family import Family
from adjoint.distributions._parameters import Parameter
from adjoint.distributions._values import standard_normal
from adjoint.distributions.location_scale import LocationScale, Real
from adjoint.distributions.transformed import TransformedDistribution
from adjoint.distributions.transforms import PowerTransform, Transform

__all__ = ["Chi2", "Exponential", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]


def above_zero(value: Tensor) -> Tensor:
    """Numbers that were rounded to zero become the smallest normal one."""
    return value.clamp(min=ad.finfo(value.dtype).tiny)


def draw_gamma(concentration: Tensor, rate: Tensor, shape: Size) -> Tensor:
    """Draw gamma variables of the given shape."""
    return above_zero(ad._standard_gamma(concentration.expand(shape)) / rate.expand(shape))


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the beta function."""
    return a.lgamma() + b.lgamma() - (a + b).lgamma()


class Gamma(Family, ExponentialFamily):
    """The gamma distribution.

    Parameters
    ----------
    concentration
        Its shape, often called alpha.
    rate
        The inverse of its scale, often called beta.

    Examples
    --------
    >>> from adjoint.distributions import Gamma
    >>> Gamma(3.0, 2.0).mean
    tensor(1.5000)
    """

    concentration = Parameter(constraints.positive)
    rate = Parameter(constraints.positive)
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Real, rate: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, concentration=concentration, rate=rate)

    def _draw(self, shape: Size) -> Tensor:
        return draw_gamma(self.concentration, self.rate, shape)

    def _log_density(self, value: Tensor) -> Tensor:
        a, b = self.concentration, self.rate
        return ad.xlogy(a - 1, value) - b * value + ad.xlogy(a, b) - a.lgamma()

    def log_prob(self, value: Real) -> Tensor:
        """The logarithm of the density at `value`, which may be a number."""
        return super().log_prob(ad.as_tensor(value, dtype=self.rate.dtype))

    def _cdf(self, value: Tensor) -> Tensor:
        return ad.special.gammainc(self.concentration, self.rate * value)

    @property
    def mean(self) -> Tensor:
        """Concentration / rate."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """(concentration - 1) / rate, or 0."""
        return (self.concentration - 1).clamp(min=0) / self.rate

    @property
    def variance(self) -> Tensor:
        """Concentration / rate²."""
        return self.concentration / self.rate.square()

    def entropy(self) -> Tensor:
        """In terms of the digamma function."""
        a = self.concentration
        return a + a.lgamma() + (1 - a) * a.digamma() - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        power, slope = natural_params
        return (power + 1).lgamma() - (power + 1) * (-slope).log()


class Chi2(Gamma):
    """The distribution of the sum of squares of `df` standard normal variables."""

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, concentration=0.5 * df, rate=0.5)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return 2 * self.concentration


class Exponential(Family, ExponentialFamily):
    """The exponential distribution, of waiting times with the given `rate`."""

    rate = Parameter(constraints.positive)
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, rate=rate)

    def _draw(self, shape: Size) -> Tensor:
        return ad.empty(tuple(shape), dtype=self.rate.dtype).exponential_() / self.rate

    def _log_density(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Tensor) -> Tensor:
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        """The time within which an event has the probability `value`."""
        return -(-value).log1p() / self.rate

    @property
    def mean(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """0."""
        return ad.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """1 / rate²."""
        return self.rate.square().reciprocal()

    def entropy(self) -> Tensor:
        """1 - log(rate)."""
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()


class InverseGamma(TransformedDistribution):
    """The distribution of 1 / x, x of the gamma distribution with the same parameters."""

    concentration = Parameter(constraints.positive)
    rate = Parameter(constraints.positive)
    support = constraints.positive
    has_rsample = True
    _shows_parameters = False

    def __init__(self, concentration: Real, rate: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, concentration=concentration, rate=rate)

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        base = Gamma(self.concentration, self.rate, validate_args=False)
        return base, [PowerTransform(-self.rate.new_ones(()))]

    def _moment_where_finite(self, order: int, moment: Tensor) -> Tensor:
        return ad.where(self.concentration > order, moment, math.inf)

    @property
    def mean(self) -> Tensor:
        """Rate / (concentration - 1), or infinite."""
        return self._moment_where_finite(1, self.rate / (self.concentration - 1))

    @property
    def mode(self) -> Tensor:
        """Rate / (concentration + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """mean² / (concentration - 2), or infinite."""
        a = self.concentration
        return self._moment_where_finite(2, (self.rate / (a - 1)).square() / (a - 2))

    def entropy(self) -> Tensor:
        """In terms of the digamma function."""
        a = self.concentration
        return a + a.lgamma() + self.rate.log() - (1 + a) * a.digamma()


class StudentT(LocationScale):
    """Student's t distribution.

    Parameters
    ----------
    df
        The degrees of freedom; few mean heavy tails.
    loc, scale
        Where it lies and how wide it is.
    """

    df = Parameter(constraints.positive)
    loc = Parameter(constraints.real)
    scale = Parameter(constraints.positive)
    support = constraints.real

    def __init__(
        self, df: Real, loc: Real = 0.0, scale: Real = 1.0, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, df=df, loc=loc, scale=scale)

    def _standard_draw(self, shape: Size, like: Tensor) -> Tensor:
        # A normal variable over the root of an independent chi-squared one, over its mean.
        normal = standard_normal(shape, self.df)
        half = ad.full_like(self.df, 0.5)
        return normal * (draw_gamma(0.5 * self.df, half, shape) / self.df).rsqrt()

    def _log_beta(self) -> Tensor:
        return log_beta(0.5 * self.df, ad.full_like(self.df, 0.5))

    def _standard_log_density(self, z: Tensor) -> Tensor:
        tail = 0.5 * (self.df + 1) * (z.square() / self.df).log1p()
        return -tail - 0.5 * self.df.log() - self._log_beta()

    @property
    def mean(self) -> Tensor:
        """loc, where there is a mean."""
        return ad.where(self.df > 1, self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        """scale² df / (df - 2) for df > 2, infinite down to 1."""
        finite = self.scale.square() * self.df / (self.df - 2)
        infinite = ad.where(self.df > 1, ad.full_like(finite, math.inf), math.nan)
        return ad.where(self.df > 2, finite, infinite)

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def entropy(self) -> Tensor:
        """In terms of the digamma function."""
        half = 0.5 * (self.df + 1)
        spread = half * (half.digamma() - (0.5 * self.df).digamma())
        return self.scale.log() + spread + 0.5 * self.df.log() + self._log_beta()

    def cdf(self, value: Tensor) -> Tensor:
        """Not implemented: it needs the incomplete beta function."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Not implemented."""
        raise NotImplementedError


class FisherSnedecor(Family):
    """Fisher's F distribution: the ratio of two chi-squared variables, each over its mean.

    Parameters
    ----------
    df1, df2
        The degrees of freedom above and below.
    """

    df1 = Parameter(constraints.positive)
    df2 = Parameter(constraints.positive)
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Real, df2: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, df1=df1, df2=df2)

    def _draw(self, shape: Size) -> Tensor:
        above = draw_gamma(0.5 * self.df1, self.df1, shape)
        below = draw_gamma(0.5 * self.df2, self.df2, shape)
        return above_zero(above / below)

    def _log_density(self, value: Tensor) -> Tensor:
        a, b = 0.5 * self.df1, 0.5 * self.df2
        ratio = self.df1 / self.df2
        power = a * ratio.log() + (a - 1) * value.log()
        return power - (a + b) * (ratio * value).log1p() - log_beta(a, b)

    @property
    def mean(self) -> Tensor:
        """df2 / (df2 - 2), where there is a mean."""
        return ad.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest, for df1 > 2."""
        inside = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return ad.where(self.df1 > 2, inside, math.nan)

    @property
    def variance(self) -> Tensor:
        """Finite for df2 > 4."""
        ratio = self.df2 / (self.df2 - 2)
        finite = 2 * ratio.square() * (self.df1 + self.df2 - 2) / (self.df1 * (self.df2 - 4))
        return ad.where(self.df2 > 4, finite, math.nan)
