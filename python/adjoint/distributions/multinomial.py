"""The multinomial distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .binomial import Binomial
from .categorical import Categorical
from .distribution import _NO_SHAPE, Distribution
from .utils import broadcast_all

__all__ = ["Multinomial"]


class Multinomial(Distribution):
    """How often each class comes up in `total_count` draws.

    Parameters
    ----------
    total_count
        The number of draws: one for the whole batch.
    probs, logits
        As for `Categorical`.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    total_count: int

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(
            self._categorical.batch_shape,
            self._categorical.param_shape[-1:],
            validate_args=validate_args,
        )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Multinomial, _instance)
        shape = ad.Size(batch_shape)
        new.total_count = self.total_count
        new._categorical = self._categorical.expand(shape)
        new._binomial = self._binomial.expand((*shape, *self.event_shape))
        return self._finish(new, shape, self.event_shape)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts up to the number of draws."""
        return constraints.multinomial(self.total_count)

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def param_shape(self) -> ad.Size:
        """The shape of the parameter."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples."""
        shape = ad.Size(sample_shape)
        drawn = self._categorical.sample((self.total_count, *shape)).movedim(0, -1)
        counts = ad.zeros(self._extended_shape(shape), dtype=drawn.dtype)
        counts.scatter_add_(-1, drawn, ad.ones_like(drawn))
        return counts.type_as(self.probs)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        n = ad.tensor(self.total_count)
        ordered = n * self._categorical.entropy() - ad.lgamma(n + 1)
        # Less what the order of equal draws would tell.
        support = self._binomial.enumerate_support(expand=False)[1:]
        probs = self._binomial.log_prob(support).exp()
        return ordered + (probs * ad.lgamma(support + 1)).sum([0, -1])

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of counts."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        ways = ad.lgamma(value.sum(-1) + 1) - ad.lgamma(value + 1).sum(-1)
        impossible = (value == 0) & (logits == -ad.inf)  # and not drawn: 0 log 0 = 0
        return ways + (logits.masked_fill(impossible, 0) * value).sum(-1)
