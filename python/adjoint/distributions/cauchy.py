"""The Cauchy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE, Distribution
from .utils import parameters

__all__ = ["Cauchy"]


class Cauchy(Distribution):
    """The quotient of two normal variables: neither a mean nor a variance.

    Parameters
    ----------
    loc
        The median.
    scale
        Half the width at half the height.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, shape = parameters(loc, scale)
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expanded(Cauchy, ("loc", "scale"), batch_shape, _instance)

    def _constant(self, value: float) -> Tensor:
        shape = self._extended_shape()
        return ad.full(shape, value, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def mean(self) -> Tensor:
        """NaN: there is none."""
        return self._constant(math.nan)

    @property
    def mode(self) -> Tensor:
        """The median."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Infinity."""
        return self._constant(math.inf)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        eps = self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_()
        return self.loc + eps * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        away = ((value - self.loc) / self.scale) ** 2
        return -math.log(math.pi) - self.scale.log() - away.log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        self._checked(value)
        return ad.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        return ad.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return math.log(4 * math.pi) + self.scale.log()
