"""Angles: VonMises."""

from __future__ import annotations

import math
from collections.abc import Sequence

import adjoint as ad
from adjoint import Size, Tensor
from adjoint.distributions import constraints
from adjoint.distributions._family import Family
from adjoint.distributions._parameters import Parameter, same_as
from adjoint.distributions.location_scale import Real

__all__ = ["VonMises"]

# Below this concentration the closed form of the envelope loses its digits.
_NEARLY_UNIFORM = 1e-5


def _wrapped(angle: Tensor) -> Tensor:
    """The same angle in [-π, π)."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


class VonMises(Family):
    """Von Mises' distribution of an angle.

    Parameters
    ----------
    loc
        The mean angle, in radians.
    concentration
        How concentrated angles are about it.
    """

    loc = Parameter(constraints.real)
    concentration = Parameter(constraints.positive)
    support = constraints.real

    def __init__(self, loc: Real, concentration: Real, validate_args: bool | None = None) -> None:
        self._take(validate_args, loc=loc, concentration=concentration)

    def _log_density(self, value: Tensor) -> Tensor:
        kappa = self.concentration
        # The Bessel function i0e is scaled by exp(-kappa): nothing overflows.
        peak = kappa * ((value - self.loc).cos() - 1)
        return peak - ad.special.i0e(kappa).log() - math.log(2 * math.pi)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw angles in [-π, π)."""
        with ad.no_grad():
            shape = self._extended_shape(sample_shape)
            kappa = self.concentration.double()
            off = _draw_about_zero(kappa, _envelope(kappa), shape)
            return _wrapped(off + self.loc.double()).to(self.loc.dtype)

    mean = same_as("loc")
    mode = same_as("loc")

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the length of the mean direction."""
        kappa = self.concentration
        return 1 - ad.special.i1e(kappa) / ad.special.i0e(kappa)


def _envelope(kappa: Tensor) -> Tensor:
    """The parameter of the wrapped Cauchy distribution that is drawn from instead."""
    tau = 1 + (1 + 4 * kappa.square()).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
    general = (1 + rho.square()) / (2 * rho)
    return ad.where(kappa < _NEARLY_UNIFORM, kappa.reciprocal() + kappa, general)


def _draw_about_zero(kappa: Tensor, r: Tensor, shape: Size) -> Tensor:
    """Draw by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979)."""
    angle = ad.zeros(tuple(shape), dtype=kappa.dtype)
    missing = ad.ones(tuple(shape), dtype=ad.bool)
    while missing.any():
        u, v, w = ad.rand((3, *shape), dtype=kappa.dtype).unbind()
        z = (math.pi * u).cos()
        cosine = (1 + r * z) / (r + z)
        c = kappa * (r - cosine)
        accepted = (c * (2 - c) > v) | ((c / v).log() + 1 >= c)
        # A place already filled is drawn again with the others, and the last draw stays.
        angle = ad.where(accepted, (w - 0.5).sign() * cosine.acos(), angle)
        missing = missing & ~accepted
    return angle
