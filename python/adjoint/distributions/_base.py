"""`Distribution`: what every distribution offers, and the checks of parameters and values.

Classes of one's own derive from it. Read next: _family.py, which the classes of this package use.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Size, Tensor, _core
from adjoint._recording import runs_again
from adjoint.distributions import constraints
from adjoint.distributions._parameters import Parameter
from adjoint.distributions._values import LazyOfClass, sum_rightmost

__all__ = ["Distribution", "ExponentialFamily"]


class Distribution:
    """A batch of probability distributions over events of one shape.

    Parameters
    ----------
    batch_shape
        The shape of the batch; its distributions are side by side and independent.
    event_shape
        The shape of one draw from one of them.
    validate_args
        Whether parameters and values are checked; by default they are, unless
        `set_default_validate_args` said otherwise or Python runs with ``-O``.
    """

    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validate_args: bool = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions made from now on check their arguments."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Sequence[int] = (),
        event_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = Size(batch_shape)
        self._event_shape = Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        """Refuse parameters outside their constraints."""
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and self._is_computed_later(name):
                continue
            value = getattr(self, name)
            if not _all_inside(constraint, value):
                raise ValueError(
                    f"Expected parameter {name} {_described(value)} of distribution {self!r} "
                    f"to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def _is_computed_later(self, name: str) -> bool:
        return isinstance(getattr(type(self), name, None), LazyOfClass | Parameter)

    # -- shapes ------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one draw, without batching."""
        return self._event_shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """A distribution with its parameters expanded to `batch_shape`, without copies.

        A class of one's own with an ``__init__`` of its own has to define this.
        """
        raise NotImplementedError

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        """The shape of samples: `sample_shape`, the batch, the event."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """A new object for `expand` of `cls`, without a call of ``__init__``."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ "
                "method must also define a custom .expand() method."
            )
        return type(self).__new__(type(self))

    # -- what a class says -------------------------------------------------------------------------

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint on each parameter."""
        raise NotImplementedError

    @property
    def support(self) -> constraints.Constraint | None:
        """Where draws lie."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The expectation."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The expected squared distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples, without gradients."""
        with ad.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples that are differentiable functions of the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Draw `n` samples; an old name of ``sample((n,))``."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, at `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of draws up to `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The number up to which draws have the probability `value`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution along a new first axis."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The expectation of ``-log_prob``."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return self.entropy().exp()

    # -- checks and text ---------------------------------------------------------------------------

    def _validate_sample(self, value: Tensor) -> None:
        """Refuse a value that cannot be a draw: its class, its shape, its numbers."""
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event = self._event_shape
        if len(event) and value.shape[max(value.dim() - len(event), 0) :] != event:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{value.shape} vs {self._event_shape}."
            )
        own = self._extended_shape()
        for mine, given in zip(reversed(own), reversed(value.shape), strict=False):
            if mine != given and 1 not in (mine, given):
                raise ValueError(
                    "Value is not broadcastable with batch_shape+event_shape: "
                    f"{value.shape} vs {own}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        assert support is not None
        if not _all_inside(support, value):
            raise ValueError(
                f"Expected value argument {_described(value)} to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        stored = ((name, self.__dict__.get(name)) for name in self.arg_constraints)
        shown = (
            f"{name}: {value if value.numel() == 1 else value.size()}"
            for name, value in stored
            if value is not None
        )
        return f"{type(self).__name__}({', '.join(shown)})"


def _all_inside(constraint: constraints.Constraint, value: Tensor) -> bool:
    """Whether all values lie in the region; what is being recorded cannot look at values."""
    return _core._is_recording() or runs_again.get() or bool(constraint.check(value).all())


def _described(value: Tensor) -> str:
    return f"({type(value).__name__} of shape {tuple(value.shape)})"


class ExponentialFamily(Distribution):
    """Distributions whose density is exp(⟨η, t(x)⟩ − A(η) + k(x)), natural parameters η.

    A class gives η as `_natural_params`, A as `_log_normalizer` and the mean of k as
    `_mean_carrier_measure`; entropies and divergences within a class follow by differentiation.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def _mean_statistics(self) -> tuple[tuple[Tensor, ...], Tensor, tuple[Tensor, ...]]:
        """η, A(η), and the gradient of A: the means of the statistics t(x)."""
        natural = tuple(
            p if p.requires_grad else p.detach().requires_grad_() for p in self._natural_params
        )
        with ad.enable_grad():
            normalizer = self._log_normalizer(*natural)
            means = ad.autograd.grad(normalizer.sum(), natural, create_graph=True)
        return natural, normalizer, tuple(m for m in means if m is not None)

    def entropy(self) -> Tensor:
        """A(η) − ⟨η, ∇A(η)⟩ − E k(x), by Bregman's identity."""
        natural, normalizer, means = self._mean_statistics()
        total = normalizer - self._mean_carrier_measure
        for parameter, mean in zip(natural, means, strict=True):
            product = parameter * mean
            total = total - sum_rightmost(product, product.dim() - total.dim())
        return total
