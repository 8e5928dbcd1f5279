"""Distributions given by probabilities or by log-odds: one is given, the other follows.

`BinaryOdds` for two outcomes, `CategoryOdds` for several along the last axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._family import Family
from adjoint.distributions._parameters import Parameter
from adjoint.distributions._values import logits_to_probs, probs_to_logits


class GivenByOdds(Family):
    """Parameters `probs` and `logits`, of which a user gives one."""

    _given: str

    def _choose(self, probs: Any, logits: Any) -> str:
        """The name of the one that is given."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        self._given = "logits" if probs is None else "probs"
        return self._given

    def _take_odds(self, validate_args: bool | None, probs: Any, logits: Any) -> None:
        """Store the one that is given."""
        raise NotImplementedError

    @property
    def _param(self) -> Tensor:
        value: Tensor = getattr(self, self._given)
        return value

    @property
    def param_shape(self) -> Size:
        """The shape of `probs` and of `logits`."""
        return self._param.size()


class BinaryOdds(GivenByOdds):
    """Two outcomes: `probs` is the probability of 1, `logits` the logarithm of its odds."""

    probs = Parameter(
        constraints.unit_interval, derive=lambda d: logits_to_probs(d.logits, is_binary=True)
    )
    logits = Parameter(constraints.real, derive=lambda d: probs_to_logits(d.probs, is_binary=True))

    def _take_odds(self, validate_args: bool | None, probs: Any, logits: Any, **more: Any) -> None:
        """Store the one that is given, and other parameters."""
        self._choose(probs, logits)
        self._take(validate_args, **more, probs=probs, logits=logits)


class CategoryOdds(GivenByOdds):
    """Several outcomes along the last axis: `probs` add up to 1, `logits` are their logarithms."""

    probs = Parameter(constraints.simplex, derive=lambda d: logits_to_probs(d.logits))
    logits = Parameter(constraints.real_vector, derive=lambda d: probs_to_logits(d.probs))

    def _take_odds(
        self, validate_args: bool | None, probs: Tensor | None, logits: Tensor | None
    ) -> None:
        """Normalise and store the one that is given."""
        name = self._choose(probs, logits)
        given: Any = probs if logits is None else logits
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            normalised = given / given.sum(-1, keepdim=True)
        else:
            normalised = given - given.logsumexp(-1, keepdim=True)
        self._take(validate_args, **{name: normalised})

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    def _events_axis(self) -> Sequence[int]:
        return self._param.shape[-1:]

    def _draw_indices(self, sample_shape: Sequence[int]) -> Tensor:
        """Numbers of categories, of a shape in front of the batch."""
        rows = self.probs.reshape(-1, self._num_events)
        drawn = ad.multinomial(rows, math.prod(sample_shape), replacement=True)
        return drawn.T.reshape((*sample_shape, *self.batch_shape))

    def _entropy_of_one(self) -> Tensor:
        """The entropy of one draw; a category that never comes adds nothing."""
        lowest = ad.finfo(self.logits.dtype).min
        return -(self.probs * self.logits.clamp(min=lowest)).sum(-1)
