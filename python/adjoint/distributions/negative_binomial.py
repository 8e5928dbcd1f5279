"""The negative binomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad
from adjoint.nn import functional as F

from . import constraints
from ._odds import Odds
from .distribution import _NO_SHAPE
from .gamma import Gamma
from .utils import lazy_property

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Odds):
    """How many trials succeed before `total_count` of them have failed.

    Parameters
    ----------
    total_count
        The number of failures; need not be whole.
    probs, logits
        One of them: the probability of a success, or its log-odds.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        count, shape = self._set_odds(probs, logits, total_count)
        self.total_count: Tensor = count.type_as(self._param)
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expand_odds(NegativeBinomial, ("total_count",), batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.mean / (-self.logits).sigmoid()

    @lazy_property
    def _gamma(self) -> Gamma:
        rate = (-self.logits).exp()
        return Gamma(self.total_count, rate, validate_args=False)  # no failures is allowed

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples: Poisson variables whose rates are gamma variables."""
        with no_grad():
            return ad.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of a value."""
        self._checked(value)
        n = self.total_count
        powers = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = ad.lgamma(n + value) - ad.lgamma(1.0 + value) - ad.lgamma(n)
        # No failures and no successes: one way, of which lgamma(0) - lgamma(0) knows nothing.
        return powers + ways.masked_fill(n + value == 0.0, 0.0)
