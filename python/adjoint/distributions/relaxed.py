"""Differentiable stand-ins for discrete draws: they sharpen as the temperature falls.

The distributions of the logarithms stand here too, where densities are computed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import Distribution
from adjoint.distributions._odds import BinaryOdds, CategoryOdds, GivenByOdds
from adjoint.distributions._values import clamp_probs, log_one_plus_exp
from adjoint.distributions.discrete import Odds
from adjoint.distributions.transformed import TransformedDistribution
from adjoint.distributions.transforms import ExpTransform, SigmoidTransform, Transform

__all__ = [
    "ExpRelaxedCategorical",
    "LogitRelaxedBernoulli",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]


def _uniform(shape: Size, like: Tensor) -> Tensor:
    """Uniform numbers, neither 0 nor 1."""
    return clamp_probs(ad.rand(tuple(shape), dtype=like.dtype))


class _Tempered(GivenByOdds):
    """Odds, and a temperature before them."""

    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Odds = None,
        logits: Odds = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = ad.as_tensor(temperature)
        self._take_odds(validate_args, probs, logits)


class LogitRelaxedBernoulli(_Tempered, BinaryOdds):
    """The log-odds of `RelaxedBernoulli`: logistic variables over a temperature."""

    support = constraints.real

    def _draw(self, shape: Size) -> Tensor:
        p = clamp_probs(self.probs.expand(shape))
        u = _uniform(shape, p)
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def _log_density(self, value: Tensor) -> Tensor:
        off = self.logits - value * self.temperature
        return self.temperature.log() + off - 2 * log_one_plus_exp(off)


class RelaxedBernoulli(_Tempered, BinaryOdds, TransformedDistribution):
    """Numbers in (0, 1) that stand for Bernoulli draws, with gradients.

    Parameters
    ----------
    temperature
        Near 0 the numbers are near 0 and 1.
    probs
        The probability of 1.
    logits
        Instead of it, the logarithm of its odds.
    """

    support = constraints.unit_interval
    _shows_parameters = False

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        odds = {self._given: self._param}
        base = LogitRelaxedBernoulli(self.temperature, **odds, validate_args=False)
        return base, [SigmoidTransform()]


class ExpRelaxedCategorical(_Tempered, CategoryOdds):
    """The logarithm of `RelaxedOneHotCategorical`: Gumbel's variables over a temperature."""

    support = constraints.real_vector
    _shows_parameters = False

    def _event_of(self) -> Sequence[int]:
        return self._events_axis()

    def _draw(self, shape: Size) -> Tensor:
        gumbel = -(-_uniform(shape, self.logits).log()).log()
        scores = (self.logits + gumbel) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def _log_density(self, value: Tensor) -> Tensor:
        free = self._num_events - 1
        scores = (self.logits - value * self.temperature).log_softmax(-1)
        return scores.sum(-1) + free * self.temperature.log() + math.lgamma(free + 1)


class RelaxedOneHotCategorical(_Tempered, CategoryOdds, TransformedDistribution):
    """Points of the simplex that stand for one-hot draws, with gradients.

    Parameters
    ----------
    temperature
        Near 0 the points are near corners.
    probs
        The probabilities along the last axis; they are divided by their sum.
    logits
        Instead of them, their logarithms, up to a common number.
    """

    support = constraints.simplex
    _shows_parameters = False

    def _recipe(self) -> tuple[Distribution, list[Transform]]:
        odds = {self._given: self._param}
        base = ExpRelaxedCategorical(self.temperature, **odds, validate_args=False)
        return base, [ExpTransform()]

    def _event_of(self) -> Sequence[int]:
        return self._events_axis()
