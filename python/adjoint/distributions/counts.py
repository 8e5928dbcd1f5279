"""Counts: Poisson, Binomial, NegativeBinomial."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import ExponentialFamily
from adjoint.distributions._family import Family
from adjoint.distributions._odds import BinaryOdds
from adjoint.distributions._parameters import Parameter, same_as
from adjoint.distributions._values import logits_to_probs
from adjoint.distributions.discrete import Odds
from adjoint.distributions.gamma_family import draw_gamma
from adjoint.distributions.location_scale import Real
from adjoint.nn.functional import logsigmoid

__all__ = ["Binomial", "NegativeBinomial", "Poisson"]


class Poisson(Family, ExponentialFamily):
    """How many events happen in a unit of time, at the given `rate`."""

    rate = Parameter(constraints.nonnegative)
    support = constraints.nonnegative_integer

    def __init__(self, rate: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, rate=rate)

    def _draw(self, shape: Size) -> Tensor:
        return ad.poisson(self.rate.expand(shape))

    def _log_density(self, value: Tensor) -> Tensor:
        return ad.xlogy(value, self.rate) - self.rate - (value + 1).lgamma()

    mean = same_as("rate")

    @property
    def mode(self) -> Tensor:
        """The largest integer up to the rate."""
        return self.rate.floor()

    variance = same_as("rate")

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()


class _Counted(BinaryOdds):
    """Trials of two outcomes with a `total_count` of the dtype of the odds."""

    total_count: Any

    def _take_counted(
        self, validate_args: bool | None, total_count: Any, probs: Any, logits: Any
    ) -> None:
        odds = probs if logits is None else logits
        if isinstance(total_count, Tensor) and isinstance(odds, Tensor):
            total_count = total_count.type_as(odds)
        self._take_odds(validate_args, probs, logits, total_count=total_count)


class Binomial(_Counted):
    """How many of `total_count` trials give 1.

    Parameters
    ----------
    total_count
        The number of trials.
    probs
        The probability of 1.
    logits
        Instead of it, the logarithm of its odds.
    """

    total_count = Parameter(constraints.nonnegative_integer)
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Odds = None,
        logits: Odds = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take_counted(validate_args, total_count, probs, logits)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        """From 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    def _draw(self, shape: Size) -> Tensor:
        return ad.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _log_density(self, value: Tensor) -> Tensor:
        n, logits = self.total_count, self.logits
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logits + n * logsigmoid(-logits)

    @property
    def mean(self) -> Tensor:
        """total_count · probs."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        peak = ((self.total_count + 1) * self.probs).floor()
        return ad.minimum(peak, self.total_count)

    @property
    def variance(self) -> Tensor:
        """total_count · probs · (1 - probs)."""
        return self.mean * (1 - self.probs)

    def _one_count(self, asked_by: str) -> int:
        """The number of trials, if it is the same everywhere."""
        largest = int(self.total_count.max())
        if int(self.total_count.min()) != largest:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked_by}`.")
        return largest

    def entropy(self) -> Tensor:
        """The sum over all counts."""
        self._one_count("entropy")
        terms = self.log_prob(self.enumerate_support(expand=False))
        return -(terms.exp() * terms).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All counts along a new first axis."""
        many = 1 + self._one_count("enumerate_support")
        values = ad.arange(many, dtype=self._param.dtype)
        values = values.reshape(many, *(1,) * len(self.batch_shape))
        return values.expand((many, *self.batch_shape)) if expand else values


class NegativeBinomial(_Counted):
    """How often 1 comes before 0 has come `total_count` times.

    Parameters
    ----------
    total_count
        After how many zeros to stop; it need not be whole.
    probs
        The probability of 1, in [0, 1).
    logits
        Instead of it, the logarithm of its odds.
    """

    total_count = Parameter(constraints.greater_than_eq(0))
    probs = Parameter(
        constraints.half_open_interval(0.0, 1.0),
        derive=lambda d: logits_to_probs(d.logits, is_binary=True),
    )
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Real,
        probs: Odds = None,
        logits: Odds = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take_counted(validate_args, total_count, probs, logits)

    def _draw(self, shape: Size) -> Tensor:
        # Events at a rate that is itself drawn.
        return ad.poisson(draw_gamma(self.total_count, (-self.logits).exp(), shape))

    def _log_density(self, value: Tensor) -> Tensor:
        n = self.total_count
        chances = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        ways = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
        return chances + ad.where(n + value == 0, 0.0, ways)

    @property
    def mean(self) -> Tensor:
        """total_count times the odds of 1."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """The likeliest count."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The mean over the probability of 0."""
        return self.mean / (-self.logits).sigmoid()
