"""The geometric distribution."""

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
from .utils import broadcast_all

__all__ = ["Geometric"]


class Geometric(Odds):
    """How many trials fail before the first success.

    Parameters
    ----------
    probs, logits
        One of them: the probability of a success, or its log-odds.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        (shape,) = self._set_odds(probs, logits)
        super().__init__(shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            value = self.probs
            raise ValueError(
                f"Expected parameter probs ({type(value).__name__} of shape "
                f"{tuple(value.shape)}) of distribution {self!r} to be positive but found invalid "
                f"values:\n{value}"
            )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expand_odds(Geometric, (), batch_shape, _instance)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return ad.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            u = self.probs.new_empty(shape).uniform_(ad.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of a value."""
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        # 0 log 0 = 0, for a success at once that is certain.
        failures = ad.where((probs == 1) & (value == 0), ad.zeros_like(probs), -probs)
        return value * failures.log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        entropy = F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return entropy / self.probs
