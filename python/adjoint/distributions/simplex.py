"""Shares of a whole: Dirichlet, and Beta for two parts."""

from __future__ import annotations

from collections.abc import Sequence

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._base import ExponentialFamily
from adjoint.distributions._family import Family
from adjoint.distributions._parameters import Parameter
from adjoint.distributions.location_scale import Real

__all__ = ["Beta", "Dirichlet"]


def _log_normalizer(c: Tensor) -> Tensor:
    """The logarithm of the multivariate beta function."""
    return c.lgamma().sum(-1) - c.sum(-1).lgamma()


def _entropy(c: Tensor) -> Tensor:
    total = c.sum(-1)
    surplus = total - c.shape[-1]
    return _log_normalizer(c) + surplus * total.digamma() - ((c - 1) * c.digamma()).sum(-1)


def _mode(c: Tensor) -> Tensor:
    """The peak; the first corner if the density is infinite at every corner."""
    above = (c - 1).clamp(min=0)
    peak = above / above.sum(-1, keepdim=True)
    corner = (ad.arange(c.shape[-1]) == 0).to(peak.dtype)
    return ad.where((c < 1).all(-1, keepdim=True), corner, peak)


class Dirichlet(Family, ExponentialFamily):
    """Dirichlet's distribution of shares that add up to 1.

    Parameters
    ----------
    concentration
        A number for each share, along the last axis.

    Examples
    --------
    >>> import adjoint as ad
    >>> from adjoint.distributions import Dirichlet
    >>> Dirichlet(ad.tensor([1.0, 2.0, 1.0])).mean
    tensor([0.2500, 0.5000, 0.2500])
    """

    concentration = Parameter(constraints.independent(constraints.positive, 1))
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self._take(validate_args, concentration=concentration)

    def _event_of(self) -> Sequence[int]:
        return self.concentration.shape[-1:]

    def _draw(self, shape: Size) -> Tensor:
        return ad._sample_dirichlet(self.concentration.expand(shape))

    def _log_density(self, value: Tensor) -> Tensor:
        c = self.concentration
        return ad.xlogy(c - 1, value).sum(-1) - _log_normalizer(c)

    @property
    def mean(self) -> Tensor:
        """Each concentration over their sum."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        return _mode(self.concentration)

    @property
    def variance(self) -> Tensor:
        """The variance of each share."""
        mean = self.mean
        return mean * (1 - mean) / (self.concentration.sum(-1, keepdim=True) + 1)

    def entropy(self) -> Tensor:
        """In terms of the digamma function."""
        return _entropy(self.concentration)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return _log_normalizer(natural_params[0])


class Beta(Family, ExponentialFamily):
    """The beta distribution on the unit interval: the first of two shares.

    Parameters
    ----------
    concentration1, concentration0
        The weights of 1 and of 0, often called alpha and beta.
    """

    concentration1 = Parameter(constraints.positive)
    concentration0 = Parameter(constraints.positive)
    support = constraints.unit_interval
    has_rsample = True
    _shows_parameters = False

    def __init__(
        self, concentration1: Real, concentration0: Real, validate_args: bool | None = None
    ) -> None:
        self._take(validate_args, concentration1=concentration1, concentration0=concentration0)

    def _both(self) -> Tensor:
        return ad.stack([self.concentration1, self.concentration0], -1)

    def _draw(self, shape: Size) -> Tensor:
        return ad._sample_dirichlet(self._both().expand((*shape, 2)))[..., 0]

    def _log_density(self, value: Tensor) -> Tensor:
        ones = ad.xlogy(self.concentration1 - 1, value)
        zeros = ad.special.xlog1py(self.concentration0 - 1, -value)
        return ones + zeros - _log_normalizer(self._both())

    @property
    def mean(self) -> Tensor:
        """concentration1 over the sum of both."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        return _mode(self._both())[..., 0]

    @property
    def variance(self) -> Tensor:
        """Mean (1 - mean) over one more than the sum of both."""
        mean = self.mean
        return mean * (1 - mean) / (self.concentration1 + self.concentration0 + 1)

    def entropy(self) -> Tensor:
        """In terms of the digamma function."""
        return _entropy(self._both())

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return _log_normalizer(ad.stack(natural_params, -1))
