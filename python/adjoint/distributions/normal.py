"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad

from . import constraints
from .distribution import _NO_SHAPE
from .exp_family import ExponentialFamily
from .utils import _standard_normal, parameters

__all__ = ["Normal"]


class Normal(ExponentialFamily):
    """A normal distribution with a mean and a standard deviation.

    Parameters
    ----------
    loc
        The mean.
    scale
        The standard deviation.
    validate_args
        Whether parameters and values are checked.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.distributions.Normal(0.0, 1.0).log_prob(ad.tensor(0.0))
    tensor(-0.9189)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

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
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.stddev.pow(2)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return self._expanded(Normal, ("loc", "scale"), batch_shape, _instance)

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples without a history."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ad.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + eps * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        variance = self.scale**2
        squared = (value - self.loc) ** 2
        return -squared / (2 * variance) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        self._checked(value)
        return 0.5 * (1 + ad.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        return self.loc + self.scale * ad.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + ad.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal())

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return -0.25 * x.pow(2) / y + 0.5 * ad.log(-math.pi / y)
