"""The Gumbel distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .uniform import Uniform
from .utils import euler_constant, parameters

__all__ = ["Gumbel"]


class Gumbel(TransformedDistribution):
    """The largest of many variables, in the limit.

    Parameters
    ----------
    loc, scale
        By what it is moved and stretched.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, shape = parameters(loc, scale)
        info = ad.finfo(self.loc.dtype)
        low: Any = info.tiny
        high: Any = 1 - info.eps
        if shape or isinstance(loc, Tensor) or isinstance(scale, Tensor):
            low, high = ad.full_like(self.loc, low), ad.full_like(self.loc, high)
        base = Uniform(low, high, validate_args=validate_args)
        chain = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-ad.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=loc, scale=-self.scale),
        ]
        super().__init__(base, chain, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Gumbel, _instance)
        new.loc = self.loc.expand(batch_shape)
        new.scale = self.scale.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.scale.log() + (1 + euler_constant)
