"""The Laplace distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE, Distribution
from .utils import parameters

__all__ = ["Laplace"]


class Laplace(Distribution):
    """Two exponential tails around a mean.

    Parameters
    ----------
    loc
        The mean.
    scale
        The mean distance from it.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, shape = parameters(loc, scale)
        super().__init__(shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (2**0.5) * self.scale

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expanded(Laplace, ("loc", "scale"), batch_shape, _instance)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        u = self.loc.new_empty(shape).uniform_(ad.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * ad.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        return -ad.log(2 * self.scale) - ad.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        self._checked(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * ad.expm1(-away.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * ad.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1 + ad.log(2 * self.scale)
