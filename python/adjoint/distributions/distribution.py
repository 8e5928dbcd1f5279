"""`Distribution`: what all of them have in common."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad

from . import constraints
from .constraints import Constraint
from .utils import lazy_property

__all__ = ["Distribution"]

_NO_SHAPE = ad.Size()


class Distribution:
    """The base of all distributions.

    Parameters
    ----------
    batch_shape
        The shape of independent distributions that it holds.
    event_shape
        The shape of one sample of one of them.
    validate_args
        Whether parameters and values are checked; by default as `set_default_validate_args` says.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check parameters and values where it is not said."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = _NO_SHAPE,
        event_shape: Sequence[int] = _NO_SHAPE,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = ad.Size(batch_shape)
        self._event_shape = ad.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            expected = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints "
                "= {}` or initialize the distribution with `validate_args=False` to turn off "
                "validation.",
                stacklevel=4,
            )
            return
        for name, constraint in expected.items():
            if constraints.is_dependent(constraint):
                continue
            # What is computed from another parameter need not be.
            if name not in self.__dict__ and isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded; no memory is used for it."""
        raise NotImplementedError

    def _expanded(
        self, cls: type, names: Sequence[str], batch_shape: Sequence[int], _instance: Any
    ) -> Any:
        """`expand` for parameters that have the batch shape; those not made yet are left out."""
        new = self._get_checked_instance(cls, _instance)
        shape = ad.Size(batch_shape)
        for name in names:
            if name in self.__dict__:
                new.__dict__[name] = self.__dict__[name].expand(shape)
        return self._finish(new, shape, self._event_shape)

    def _finish(self, new: Any, batch_shape: ad.Size, event_shape: ad.Size) -> Any:
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def batch_shape(self) -> ad.Size:
        """The shape of independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> ad.Size:
        """The shape of one sample."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        """What each parameter has to satisfy."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """What every sample satisfies."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples of a shape, each a batch of events, without a history."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Draw n samples: an older name for ``sample((n,))``."""
        warnings.warn(
            "sample_n will be deprecated. Use .sample((n,)) instead", UserWarning, stacklevel=2
        )
        return self.sample(ad.Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution, along a new first axis."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Sequence[int] = _NO_SHAPE) -> ad.Size:
        return ad.Size((*ad.Size(sample_shape), *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> None:
        """Refuse a value of a wrong type or shape, or outside the support."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        actual, expected = value.size(), (*self._batch_shape, *self._event_shape)
        if actual[len(actual) - len(self._event_shape) :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {actual} vs "
                f"{self._event_shape}."
            )
        for i, j in zip(reversed(actual), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{actual} vs {ad.Size(expected)}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not support.check(value).all():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) "
                f"to be within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def _checked(self, value: Any) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        if _instance is None and type(self).__init__ != cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        known = [name for name in self.arg_constraints if name in self.__dict__]
        values = [self.__dict__[name] for name in known]
        shown = [value if value.numel() == 1 else value.size() for value in values]
        text = ", ".join(f"{name}: {one}" for name, one in zip(known, shown, strict=True))
        return f"{self.__class__.__name__}({text})"
