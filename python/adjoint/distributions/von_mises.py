"""The von Mises distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad

from . import constraints
from .distribution import _NO_SHAPE, Distribution
from .utils import broadcast_all, lazy_property

__all__ = ["VonMises"]


def _log_modified_bessel_fn(x: Tensor, order: int = 0) -> Tensor:
    """The logarithm of I_0(x) or I_1(x), of positive numbers of any size."""
    if order not in (0, 1):
        raise AssertionError(f"order must be 0 or 1, got {order}")
    scaled = ad.special.i1e(x) if order else ad.special.i0e(x)
    return x + scaled.log()


def _rejection_sample(loc: Tensor, concentration: Tensor, proposal_r: Tensor, x: Tensor) -> Tensor:
    """Draw angles until each place has one: Best and Fisher, Applied Statistics 28 (1979)."""
    done = ad.zeros(x.shape, dtype=ad.bool)
    while not done.all():
        u1, u2, u3 = ad.rand((3, *x.shape), dtype=loc.dtype).unbind()
        z = (math.pi * u1).cos()
        f = (1 + proposal_r * z) / (proposal_r + z)
        c = concentration * (proposal_r - f)
        accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
        if accept.any():
            x = ad.where(accept, (u3 - 0.5).sign() * f.acos(), x)
            done = done | accept
    return (x + math.pi + loc) % (2 * math.pi) - math.pi


class VonMises(Distribution):
    """Angles around a direction.

    Parameters
    ----------
    loc
        The direction, in radians.
    concentration
        How close the angles are to it: one over the variance, if it is large.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real,
        "concentration": constraints.positive,
    }
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, ad.Size(), validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at an angle."""
        self._checked(value)
        density = self.concentration * ad.cos(value - self.loc)
        return density - math.log(2 * math.pi) - _log_modified_bessel_fn(self.concentration)

    @lazy_property
    def _loc(self) -> Tensor:
        return self.loc.to(ad.float64)

    @lazy_property
    def _concentration(self) -> Tensor:
        return self.concentration.to(ad.float64)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return ad.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples: in float64, since rejection never ends in float32 for small parameters."""
        with no_grad():
            x = ad.empty(self._extended_shape(sample_shape), dtype=ad.float64)
            drawn = _rejection_sample(self._loc, self._concentration, self._proposal_r, x)
            return drawn.to(self.loc.dtype)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        return type(self)(
            self.loc.expand(batch_shape),
            self.concentration.expand(batch_shape),
            validate_args=self.__dict__.get("_validate_args"),
        )

    @property
    def mean(self) -> Tensor:
        """The direction."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The direction."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The circular variance: one less the mean of the cosine."""
        kappa = self.concentration
        return 1 - (_log_modified_bessel_fn(kappa, 1) - _log_modified_bessel_fn(kappa)).exp()
