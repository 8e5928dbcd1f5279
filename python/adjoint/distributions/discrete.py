"""Two outcomes: Bernoulli, Geometric, and numbers between them (ContinuousBernoulli)."""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import ExponentialFamily
from adjoint.distributions._odds import BinaryOdds
from adjoint.distributions._parameters import Parameter, same_as
from adjoint.distributions._values import (
    clamp_probs,
    log_one_plus_exp,
    logits_to_probs,
    uniform_in,
)
from adjoint.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Bernoulli", "ContinuousBernoulli", "Geometric"]

Odds = Tensor | float | None


def log_likelihood(logits: Tensor, value: Tensor) -> Tensor:
    """Value · log(p) + (1 - value) · log(1 - p), of the log-odds of p."""
    logits, value = ad.broadcast_tensors(logits, value)
    return -binary_cross_entropy_with_logits(logits, value, reduction="none")


class Bernoulli(BinaryOdds, ExponentialFamily):
    """1 with a probability, else 0.

    Parameters
    ----------
    probs
        The probability of 1.
    logits
        Instead of it, the logarithm of its odds.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import Bernoulli
    >>> Bernoulli(ad.tensor([0.3])).log_prob(ad.ones(1)).exp()
    tensor([0.3000])
    """

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Odds = None, logits: Odds = None, validate_args: bool | None = None
    ) -> None:
        self._take_odds(validate_args, probs, logits)

    def _draw(self, shape: Size) -> Tensor:
        return ad.bernoulli(self.probs.expand(shape))

    def _log_density(self, value: Tensor) -> Tensor:
        return log_likelihood(self.logits, value)

    mean = same_as("probs")

    @property
    def mode(self) -> Tensor:
        """The likelier outcome, NaN if there is none."""
        p = self.probs
        return ad.where(p == 0.5, math.nan, (p > 0.5).to(p.dtype))

    @property
    def variance(self) -> Tensor:
        """Probs (1 - probs)."""
        return self.probs * (1 - self.probs)

    def entropy(self) -> Tensor:
        """The expectation of ``-log_prob``."""
        return -log_likelihood(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1 along a new first axis."""
        values = ad.arange(2, dtype=self._param.dtype).reshape(2, *(1,) * len(self.batch_shape))
        return values.expand((2, *self.batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return log_one_plus_exp(natural_params[0])


class Geometric(BinaryOdds):
    """How often 0 comes before the first 1.

    Parameters
    ----------
    probs
        The probability of 1, in (0, 1].
    logits
        Instead of it, the logarithm of its odds.
    """

    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Odds = None, logits: Odds = None, validate_args: bool | None = None
    ) -> None:
        self._take_odds(validate_args, probs, logits)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape "
                f"{tuple(self.probs.shape)}) of distribution {self!r} to be positive but found "
                f"invalid values:\n{self.probs}"
            )

    def _draw(self, shape: Size) -> Tensor:
        # How many failures fit into log(u), u uniform and not 0.
        u = uniform_in(shape, self.probs, ad.finfo(self.probs.dtype).tiny, 1)
        return (u.log() / (-self.probs).log1p()).floor()

    def _log_density(self, value: Tensor) -> Tensor:
        return ad.special.xlog1py(value, -self.probs) + self.probs.log()

    @property
    def mean(self) -> Tensor:
        """1 / probs - 1."""
        return self.probs.reciprocal() - 1

    @property
    def mode(self) -> Tensor:
        """0."""
        return ad.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """The mean over probs."""
        return self.mean / self.probs

    def entropy(self) -> Tensor:
        """That of a Bernoulli trial, once for each trial."""
        return -log_likelihood(self.logits, self.probs) / self.probs


class ContinuousBernoulli(BinaryOdds, ExponentialFamily):
    """Numbers x of the unit interval with a density proportional to pˣ (1 - p)¹⁻ˣ.

    Parameters
    ----------
    probs
        p, in (0, 1); it is not the mean.
    logits
        Instead of it, the logarithm of its odds.
    lims
        Between these p, where closed forms cancel, Taylor's series about 1/2 are used.
    """

    probs = Parameter(
        constraints.unit_interval,
        derive=lambda d: clamp_probs(logits_to_probs(d.logits, is_binary=True)),
    )
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Odds = None,
        logits: Odds = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if probs is not None:
            probs = self._inside(probs, validate_args)
        self._lims = lims
        self._take_odds(validate_args, probs, logits)

    def _inside(self, probs: Any, validate_args: bool | None) -> Tensor:
        """Probabilities that are neither 0 nor 1."""
        if not isinstance(probs, Tensor):
            probs = ad.tensor(float(probs))
        if validate_args and not constraints.unit_interval.check(probs).all():
            raise ValueError("The parameter probs has invalid values")
        return clamp_probs(probs)

    def _split(self) -> tuple[Tensor, Tensor, Tensor]:
        """Where closed forms hold, a p for them elsewhere, and p - 1/2 for the series."""
        low, high = self._lims
        p = self.probs
        closed = (p <= low) | (p > high)
        return closed, ad.where(closed, p, low), p - 0.5

    def _log_norm(self) -> Tensor:
        """log(2 artanh(1 - 2p) / (1 - 2p)), what makes the density integrate to 1."""
        closed, p, off = self._split()
        exact = ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log()
        square = off.square()
        return ad.where(closed, exact, math.log(2) + (4 / 3 + 104 / 45 * square) * square)

    def _draw(self, shape: Size) -> Tensor:
        return self.icdf(ad.rand(tuple(shape), dtype=self.probs.dtype))

    def _log_density(self, value: Tensor) -> Tensor:
        return log_likelihood(self.logits, value) + self._log_norm()

    def _cdf(self, value: Tensor) -> Tensor:
        closed, p, _ = self._split()
        grown = p**value * (1 - p) ** (1 - value)
        inside = ad.where(closed, (grown + p - 1) / (2 * p - 1), value)
        return ad.where(value <= 0, 0.0, ad.where(value >= 1, 1.0, inside))

    def icdf(self, value: Tensor) -> Tensor:
        """The number up to which draws have the probability `value`."""
        closed, p, _ = self._split()
        ratio = (value * (2 * p - 1) - p).log1p() - (-p).log1p()
        return ad.where(closed, ratio / (p.log() - (-p).log1p()), value)

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        closed, p, off = self._split()
        exact = p / (2 * p - 1) + ((-p).log1p() - p.log()).reciprocal()
        return ad.where(closed, exact, 0.5 + (1 / 3 + 16 / 45 * off.square()) * off)

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        closed, p, off = self._split()
        exact = p * (p - 1) / (1 - 2 * p).square()
        exact = exact + ((-p).log1p() - p.log()).square().reciprocal()
        square = off.square()
        return ad.where(closed, exact, 1 / 12 - (1 / 15 - 128 / 945 * square) * square)

    def entropy(self) -> Tensor:
        """The expectation of ``-log_prob``, which is linear in the value."""
        return -log_likelihood(self.logits, self.mean) - self._log_norm()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        # log((exp(η) - 1) / η), by its series where both are small.
        (eta,) = natural_params
        closed = eta.abs() > max(2 * abs(end - 0.5) for end in self._lims)
        away = ad.where(closed, eta, 1.0)
        exact = (away.expm1() / away).log()
        return ad.where(closed, exact, 0.5 * eta + eta.square() / 24 - eta**4 / 2880)
