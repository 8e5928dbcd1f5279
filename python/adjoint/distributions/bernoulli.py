"""The Bernoulli distribution."""

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
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Bernoulli"]


class Bernoulli(Odds, ExponentialFamily):
    """0 or 1.

    Parameters
    ----------
    probs, logits
        One of them: the probability of 1, or its log-odds.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (shape,) = self._set_odds(probs, logits)
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expand_odds(Bernoulli, (), batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        """The probability of 1."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; NaN where both are alike."""
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = ad.nan
        return mode

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ad.bernoulli(self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of a value."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return 0 and 1 along a new first axis."""
        values = ad.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return ad.log1p(x.exp())
