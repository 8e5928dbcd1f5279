"""The categorical distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from ._odds import one_of
from .distribution import _NO_SHAPE, Distribution
from .utils import lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Categorical"]


class Categorical(Distribution):
    """The number of a class.

    Parameters
    ----------
    probs
        Probabilities of the classes along the last axis; divided by their sum.
    logits
        Their logarithms, up to a number added to all.
    validate_args
        Whether parameters and values are checked.

    Examples
    --------
    >>> import adjoint as ad
    >>> d = ad.distributions.Categorical(ad.tensor([1.0, 1.0, 2.0]))
    >>> d.probs
    tensor([0.2500, 0.2500, 0.5000])
    >>> d.log_prob(ad.tensor(2)).exp()
    tensor(0.5000)
    """

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.simplex,
        "logits": constraints.real_vector,
    }
    has_enumerate_support = True
    _param: Tensor

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name = one_of(probs, logits)
        given = logits if probs is None else probs
        assert given is not None
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if name == "probs":
            self._param = given / given.sum(-1, keepdim=True)
        else:
            self._param = given - given.logsumexp(dim=-1, keepdim=True)
        self.__dict__[name] = self._param
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Categorical, _instance)
        shape = ad.Size(batch_shape)
        for name in ("probs", "logits"):
            if name in self.__dict__:
                new._param = self.__dict__[name].expand((*shape, self._num_events))
                new.__dict__[name] = new._param
        new._num_events = self._num_events
        return self._finish(new, shape, ad.Size())

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new_empty(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The numbers of the classes."""
        return constraints.integer_interval(0, self._num_events - 1)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> ad.Size:
        """The shape of the parameter."""
        return self._param.size()

    def _constant(self) -> Tensor:
        shape = self._extended_shape()
        return ad.full(shape, ad.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mean(self) -> Tensor:
        """NaN: numbers of classes have no mean."""
        return self._constant()

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        """NaN."""
        return self._constant()

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples."""
        shape = ad.Size(sample_shape)
        rows = self.probs.reshape(-1, self._num_events)
        drawn = ad.multinomial(rows, shape.numel(), True).T
        return drawn.reshape(self._extended_shape(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of a class."""
        self._checked(value)
        value = value.long().unsqueeze(-1)
        value, logits = ad.broadcast_tensors(value, self.logits)
        return logits.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        logits = self.logits.clamp(min=ad.finfo(self.logits.dtype).min)  # 0 * -inf is 0 here
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all classes along a new first axis."""
        values = ad.arange(self._num_events, dtype=ad.int64, device=self._param.device)
        values = values.view((-1, *[1] * len(self._batch_shape)))
        return values.expand((-1, *self._batch_shape)) if expand else values
