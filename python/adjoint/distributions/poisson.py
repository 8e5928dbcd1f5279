"""The Poisson distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad

from . import constraints
from .distribution import _NO_SHAPE
from .exp_family import ExponentialFamily
from .utils import broadcast_all, parameters

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """How many events there are in a unit of time.

    Parameters
    ----------
    rate
        The mean.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate, shape = parameters(rate)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The variance, which is the mean."""
        return self.rate

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expanded(Poisson, ("rate",), batch_shape, _instance)

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ad.poisson(self.rate.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of a value."""
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return ad.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.exp()
