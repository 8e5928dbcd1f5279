"""Parameters given as probabilities or as logits: one is kept, the other computed at first use."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

import adjoint as ad
from adjoint import Tensor

from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def one_of(probs: Any, logits: Any) -> str:
    """Which of the two is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return "logits" if probs is None else "probs"


class Odds(Distribution):
    """A distribution of two outcomes, by the probability or the log-odds of the second."""

    _param: Tensor

    def _set_odds(self, probs: Any, logits: Any, *others: Any) -> tuple[Any, ...]:
        """Keep the one that is given; return the others of its shape, and the batch shape."""
        name = one_of(probs, logits)
        given = logits if probs is None else probs
        *parts, param = broadcast_all(*others, given)
        self.__dict__[name] = self._param = param
        plain = isinstance(given, Number) and not others
        return (*parts, ad.Size() if plain else param.size())

    def _expand_odds(
        self, cls: type, names: Sequence[str], batch_shape: Sequence[int], _instance: Any
    ) -> Any:
        new = self._expanded(cls, (*names, "probs", "logits"), batch_shape, _instance)
        new._param = new.__dict__.get("logits", new.__dict__.get("probs"))
        return new

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new_empty(*args, **kwargs)

    @lazy_property
    def logits(self) -> Tensor:
        """The log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def param_shape(self) -> ad.Size:
        """The shape of the parameter."""
        return self._param.size()
