"""The binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad

from . import constraints
from ._odds import Odds
from .distribution import _NO_SHAPE

__all__ = ["Binomial"]


def _clamp_by_zero(x: Tensor) -> Tensor:
    """max(x, 0) whose derivative at zero is one half: that of both sides together."""
    return (x.clamp(min=0) + x - x.clamp(max=0)) / 2


class Binomial(Odds):
    """How many of `total_count` trials succeed.

    Parameters
    ----------
    total_count
        The number of trials.
    probs, logits
        One of them: the probability of a success, or its log-odds.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        count, shape = self._set_odds(probs, logits, total_count)
        self.total_count: Tensor = count.type_as(self._param)
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expand_odds(Binomial, ("total_count",), batch_shape, _instance)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """From 0 to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ad.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of a value."""
        self._checked(value)
        n = self.total_count
        ways = ad.lgamma(n + 1) - ad.lgamma(value + 1) - ad.lgamma(n - value + 1)
        # n log(1 + exp(logits)), without overflow.
        normaliser = n * _clamp_by_zero(self.logits) + n * (-self.logits.abs()).exp().log1p()
        return value * self.logits + ways - normaliser

    def _one_count(self, method: str) -> int:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{method}`.")
        return count

    def entropy(self) -> Tensor:
        """Return the entropy, a sum over all values."""
        self._one_count("entropy")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values along a new first axis."""
        count = self._one_count("enumerate_support")
        values = ad.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
