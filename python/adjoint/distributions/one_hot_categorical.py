"""Categorical distributions of vectors with a single one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F

from . import constraints
from .categorical import Categorical
from .distribution import _NO_SHAPE, Distribution

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """A vector that is one at the drawn class and zero elsewhere.

    Parameters
    ----------
    probs, logits
        As for `Categorical`.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(
            self._categorical.batch_shape,
            self._categorical.param_shape[-1:],
            validate_args=validate_args,
        )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(OneHotCategorical, _instance)
        shape = ad.Size(batch_shape)
        new._categorical = self._categorical.expand(shape)
        return self._finish(new, shape, self.event_shape)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        """The vector of the likeliest class."""
        probs = self._categorical.probs
        return F.one_hot(probs.argmax(dim=-1), num_classes=probs.shape[-1]).to(probs)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self._categorical.probs * (1 - self._categorical.probs)

    @property
    def param_shape(self) -> ad.Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples."""
        probs = self._categorical.probs
        drawn = self._categorical.sample(sample_shape)
        return F.one_hot(drawn, self._categorical._num_events).to(probs)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of a vector."""
        self._checked(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the vectors of all classes along a new first axis."""
        n = self.event_shape[0]
        values = ad.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n, *[1] * len(self.batch_shape), n))
        return values.expand((n, *self.batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same; gradients of samples are those of the probabilities: biased, and useful."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples with gradients of the probabilities."""
        samples = self.sample(sample_shape)
        probs = self._categorical.probs
        return samples + (probs - probs.detach())
