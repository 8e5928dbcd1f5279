"""The Kumaraswamy distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

__all__ = ["Kumaraswamy"]


def _moments(a: Tensor, b: Tensor, n: int) -> Tensor:
    """The mean of the n-th power: b B(1 + n/a, b)."""
    place = 1 + n / a
    return b * (ad.lgamma(place) + ad.lgamma(b) - ad.lgamma(place + b)).exp()


class Kumaraswamy(TransformedDistribution):
    """Numbers between 0 and 1, much like those of a beta distribution.

    Parameters
    ----------
    concentration1, concentration0
        The exponents: 1 - (1 - x^a)^b is the probability below x.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            ad.full_like(self.concentration0, 0),
            ad.full_like(self.concentration0, 1),
            validate_args=validate_args,
        )
        chain = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, chain, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Kumaraswamy, _instance)
        new.concentration1 = self.concentration1.expand(batch_shape)
        new.concentration0 = self.concentration0.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return _moments(self.concentration1, self.concentration0, 1)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest; NaN where that is at an end."""
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        log_mode[(b < 1) | (a < 1)] = math.nan
        return log_mode.exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return _moments(self.concentration1, self.concentration0, 2) - self.mean**2

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a, b = self.concentration1, self.concentration0
        harmonic = ad.digamma(b + 1) + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
