"""One of several categories, drawn once or many times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._odds import CategoryOdds
from adjoint.distributions._parameters import same_as
from adjoint.distributions.counts import Binomial
from adjoint.nn.functional import one_hot

__all__ = [
    "Categorical",
    "Multinomial",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
]


class _OneOfSeveral(CategoryOdds):
    """What draws of a category share, whatever they look like."""

    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take_odds(validate_args, probs, logits)

    def _log_prob_of(self, index: Tensor) -> Tensor:
        """The logarithm of the probability of a category for each element of the batch."""
        shape = ad.broadcast_shapes(index.shape, self.batch_shape)
        table = self.logits.expand((*shape, self._num_events))
        return table.gather(-1, index.long().expand(shape).unsqueeze(-1)).squeeze(-1)

    def entropy(self) -> Tensor:
        """The expectation of ``-log_prob``."""
        return self._entropy_of_one()


class Categorical(_OneOfSeveral):
    """The number of a category, from 0.

    Parameters
    ----------
    probs
        The probabilities along the last axis; they are divided by their sum.
    logits
        Instead of them, their logarithms, up to a common number.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import Categorical
    >>> Categorical(ad.tensor([1.0, 1.0, 2.0])).probs
    tensor([0.2500, 0.2500, 0.5000])
    """

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        """The numbers of the categories."""
        return constraints.integer_interval(0, self._num_events - 1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw numbers of categories."""
        with ad.no_grad():
            return self._draw_indices(tuple(sample_shape))

    def _log_density(self, value: Tensor) -> Tensor:
        return self._log_prob_of(value)

    @property
    def mean(self) -> Tensor:
        """NaN: categories have no order."""
        return self.probs.new_full(self._extended_shape(), math.nan)

    @property
    def mode(self) -> Tensor:
        """The likeliest category."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """NaN: categories have no order."""
        return self.probs.new_full(self._extended_shape(), math.nan)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """The numbers of all categories along a new first axis."""
        count = self._num_events
        values = ad.arange(count).reshape(count, *(1,) * len(self.batch_shape))
        return values.expand((count, *self.batch_shape)) if expand else values


class OneHotCategorical(_OneOfSeveral):
    """A category as a vector of zeros with a one in its place.

    Parameters
    ----------
    probs
        The probabilities along the last axis; they are divided by their sum.
    logits
        Instead of them, their logarithms, up to a common number.
    """

    support = constraints.one_hot
    _shows_parameters = False

    def _event_of(self) -> Sequence[int]:
        return self._events_axis()

    @property
    def _categorical(self) -> Categorical:  # what published libraries ask
        return Categorical(**{self._given: self._param}, validate_args=False)

    def _hot(self, index: Tensor) -> Tensor:
        return one_hot(index, self._num_events).to(self._param.dtype)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw vectors."""
        with ad.no_grad():
            return self._hot(self._draw_indices(tuple(sample_shape)))

    def _log_density(self, value: Tensor) -> Tensor:
        return self._log_prob_of(value.argmax(-1))

    mean = same_as("probs")

    @property
    def mode(self) -> Tensor:
        """The likeliest category."""
        return self._hot(self.probs.argmax(-1))

    @property
    def variance(self) -> Tensor:
        """Probs (1 - probs)."""
        return self.probs * (1 - self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All vectors along a new first axis."""
        count = self._num_events
        values = ad.eye(count, dtype=self._param.dtype)
        values = values.reshape(count, *(1,) * len(self.batch_shape), count)
        return values.expand((count, *self.batch_shape, count)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` whose draws have the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw vectors; backwards, they are the probabilities."""
        return OneHotCategorical.sample(self, sample_shape) + (self.probs - self.probs.detach())


def _one_count(total_count: Any) -> int:
    if isinstance(total_count, int):
        return total_count
    raise NotImplementedError("inhomogeneous total_count is not supported")


class Multinomial(CategoryOdds):
    """How often each category comes in `total_count` draws.

    Parameters
    ----------
    total_count
        The number of draws, the same for the whole batch.
    probs
        The probabilities along the last axis; they are divided by their sum.
    logits
        Instead of them, their logarithms, up to a common number.
    """

    total_count: int
    _shows_parameters: ClassVar[bool] = False

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.total_count = _one_count(total_count)
        self._take_odds(validate_args, probs, logits)

    def _event_of(self) -> Sequence[int]:
        return self._events_axis()

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Counts that add up to the number of draws."""
        return constraints.multinomial(self.total_count)

    def _draw(self, shape: Size) -> Tensor:
        outer = shape[: len(shape) - len(self.batch_shape) - 1]
        drawn = self._draw_indices((self.total_count, *outer)).movedim(0, -1)
        counts = self._param.new_zeros(shape)
        return counts.scatter_add(-1, drawn, ad.ones_like(drawn, dtype=counts.dtype))

    def _log_density(self, value: Tensor) -> Tensor:
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        never = (value == 0) & (self.logits == -math.inf)
        return ways + (value * ad.where(never, 0.0, self.logits)).sum(-1)

    @property
    def mean(self) -> Tensor:
        """total_count · probs."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """total_count · probs · (1 - probs)."""
        return self.mean * (1 - self.probs)

    def entropy(self) -> Tensor:
        """Of the sequence of draws, less what its order adds."""
        total = ad.tensor(float(self.total_count), dtype=self._param.dtype)
        each = Binomial(self.total_count, self.probs, validate_args=False)
        counts = each.enumerate_support(expand=False)[1:]
        repeats = (each.log_prob(counts).exp() * (counts + 1).lgamma()).sum((0, -1))
        return total * self._entropy_of_one() - (total + 1).lgamma() + repeats
