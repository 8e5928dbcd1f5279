"""What follows from the location-scale families: folded at zero, exponentials, Gumbel's.

Each is a `TransformedDistribution` of its base, as a user may see it, with closed forms besides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import adjoint as ad
from adjoint import Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import Distribution
from adjoint.distributions._parameters import Parameter
from adjoint.distributions._values import broadcast_all, euler_constant
from adjoint.distributions.location_scale import Cauchy, LocationScale, Normal, Real, Uniform
from adjoint.distributions.transformed import Independent, TransformedDistribution
from adjoint.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    StickBreakingTransform,
    Transform,
)

__all__ = ["Gumbel", "HalfCauchy", "HalfNormal", "LogNormal", "LogisticNormal"]


class _Folded(LocationScale, TransformedDistribution):
    """``|x|`` of an x that is symmetric about 0: twice its density, on positive numbers."""

    scale = Parameter(constraints.positive)
    support = constraints.nonnegative
    whole: ClassVar[type[Normal] | type[Cauchy]]
    _shows_parameters = False

    def __init__(self, scale: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, scale=scale)

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        base = self.whole(ad.zeros_like(self.scale), self.scale, validate_args=False)
        return base, [AbsTransform()]

    def _place(self) -> tuple[Real, Tensor]:
        return 0, self.scale

    def _log_density(self, value: Tensor) -> Tensor:
        twice = self.base_dist.log_prob(value) + math.log(2)
        return ad.where(value >= 0, twice, -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        return (2 * self.base_dist.cdf(value) - 1).clamp(min=0)

    def icdf(self, prob: Tensor) -> Tensor:
        """The number up to which draws have the probability `prob`."""
        return self.base_dist.icdf((prob + 1) / 2)


class HalfNormal(_Folded):
    """The distribution of ``|x|``, x normal with mean 0 and standard deviation `scale`."""

    whole = Normal
    standard_mean = math.sqrt(2 / math.pi)
    standard_variance = 1 - 2 / math.pi
    standard_entropy = 0.5 * (1 + math.log(math.pi / 2))


class HalfCauchy(_Folded):
    """The distribution of ``|x|``, x of Cauchy's distribution about 0; its mean is infinite."""

    whole = Cauchy
    standard_mean = math.inf
    standard_variance = math.inf
    standard_entropy = math.log(2 * math.pi)

    def _log_density(self, value: Tensor) -> Tensor:
        return super()._log_density(ad.as_tensor(value, dtype=self.scale.dtype))


class Gumbel(LocationScale, TransformedDistribution):
    """Gumbel's distribution, of the largest of many numbers.

    Parameters
    ----------
    loc
        The mode.
    scale
        How wide it is.
    """

    loc = Parameter(constraints.real)
    scale = Parameter(constraints.positive)
    support = constraints.real
    standard_mean = euler_constant
    standard_variance = math.pi**2 / 6
    standard_entropy = 1 + euler_constant

    def __init__(self, loc: Real, scale: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        # -log(-log u), of a u that is neither 0 nor 1.
        info = ad.finfo(self.loc.dtype)
        low = ad.full_like(self.loc, info.tiny)
        base = Uniform(low, ad.full_like(self.loc, 1 - info.eps), validate_args=False)
        log = ExpTransform().inv
        ends = AffineTransform(self.loc, -self.scale)
        return base, [log, AffineTransform(0, -ad.ones_like(self.scale)), log, ends]

    def _standard_log_density(self, z: Tensor) -> Tensor:
        return -z - (-z).exp()

    def _standard_cdf(self, z: Tensor) -> Tensor:
        return (-(-z).exp()).exp()

    def _standard_icdf(self, u: Tensor) -> Tensor:
        return -(-u.log()).log()


class LogNormal(TransformedDistribution):
    """The distribution of exp(x), x normal.

    Parameters
    ----------
    loc, scale
        The mean and the standard deviation of the logarithm.
    """

    loc = Parameter(constraints.real)
    scale = Parameter(constraints.positive)
    support = constraints.positive
    has_rsample = True
    _shows_parameters = False

    def __init__(self, loc: Real, scale: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, scale=scale)

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        return Normal(self.loc, self.scale, validate_args=False), [ExpTransform()]

    @property
    def mean(self) -> Tensor:
        """exp(loc + scale² / 2)."""
        return (self.loc + 0.5 * self.scale.square()).exp()

    @property
    def mode(self) -> Tensor:
        """exp(loc - scale²)."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """(exp(scale²) - 1) · mean²."""
        return self.scale.square().expm1() * self.mean.square()

    def entropy(self) -> Tensor:
        """The entropy of the logarithm and its mean."""
        return self.base_dist.entropy() + self.loc


class LogisticNormal(TransformedDistribution):
    """Points of the simplex in n + 1 numbers, made of n normal ones by breaking a stick.

    Parameters
    ----------
    loc, scale
        The means and the standard deviations of the numbers, along the last axis.
    """

    loc = Parameter(constraints.real, axes=1)
    scale = Parameter(constraints.positive, axes=1)
    support = constraints.simplex
    has_rsample = True
    _shows_parameters = False

    def __init__(self, loc: Real, scale: Real, validate_args: bool | None = None) -> None:
        loc, scale = (value.reshape(value.shape or (1,)) for value in broadcast_all(loc, scale))
        self._take(validate_args, loc=loc, scale=scale)

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        normal = Normal(self.loc, self.scale, validate_args=False)
        return Independent(normal, 1), [StickBreakingTransform()]

    def _event_of(self) -> Sequence[int]:
        return (self.loc.shape[-1] + 1,)
