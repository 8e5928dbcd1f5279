"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.autograd.grad_mode import no_grad
from adjoint.nn import functional as F

from . import constraints
from ._odds import Odds
from .distribution import _NO_SHAPE
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(Odds, ExponentialFamily):
    """Numbers between 0 and 1 whose density is that of a Bernoulli variable, normalised.

    Formulas that divide by 1 - 2 `probs` are replaced by their Taylor series near one half.

    Parameters
    ----------
    probs, logits
        One of them: the parameter, or its log-odds.
    lims
        Between these, Taylor series are used.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        (shape,) = self._set_odds(probs, logits)
        if probs is not None:
            valid = self.arg_constraints["probs"].check(self._param)
            if validate_args is not None and not valid.all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = self._param = clamp_probs(self._param)
        self._lims = lims
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._expand_odds(ContinuousBernoulli, (), batch_shape, _instance)
        new._lims = self._lims
        return new

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        low = self._lims[0] * ad.ones_like(self.probs)
        return ad.where(self._outside_unstable_region(), self.probs, low)

    def _cont_bern_log_norm(self) -> Tensor:
        cut = self._cut_probs()
        below = ad.where(cut <= 0.5, cut, ad.zeros_like(cut))
        above = ad.where(cut >= 0.5, cut, ad.ones_like(cut))
        width = ad.where(cut <= 0.5, ad.log1p(-2.0 * below), ad.log(2.0 * above - 1.0))
        log_norm = ad.log((ad.log1p(-cut) - ad.log(cut)).abs()) - width
        x = (self.probs - 0.5) ** 2
        taylor = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return ad.where(self._outside_unstable_region(), log_norm, taylor)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        cut = self._cut_probs()
        mean = cut / (2.0 * cut - 1.0) + 1.0 / (ad.log1p(-cut) - ad.log(cut))
        x = self.probs - 0.5
        taylor = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x
        return ad.where(self._outside_unstable_region(), mean, taylor)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        cut = self._cut_probs()
        spread = 1.0 / (ad.log1p(-cut) - ad.log(cut)) ** 2
        variance = cut * (cut - 1.0) / (1.0 - 2.0 * cut) ** 2 + spread
        x = (self.probs - 0.5) ** 2
        taylor = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return ad.where(self._outside_unstable_region(), variance, taylor)

    def sample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples without a history."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(ad.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        entropy = F.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return -entropy + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of being at or below a value."""
        self._checked(value)
        cut = self._cut_probs()
        inside = (cut**value * (1.0 - cut) ** (1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        inside = ad.where(self._outside_unstable_region(), inside, value)
        above = ad.where(value >= 1.0, ad.ones_like(value), inside)
        return ad.where(value <= 0.0, ad.zeros_like(value), above)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the value that a sample is at or below with a probability."""
        cut = self._cut_probs()
        low = ad.log1p(-cut)
        inside = (ad.log1p(-cut + value * (2.0 * cut - 1.0)) - low) / (ad.log(cut) - low)
        return ad.where(self._outside_unstable_region(), inside, value)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        log0, log1 = ad.log1p(-self.probs), ad.log(self.probs)
        return self.mean * (log0 - log1) - self._cont_bern_log_norm() - log0

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        outside = (x <= low) | (x > high)
        cut = ad.where(outside, x, low * ad.ones_like(x))
        log_norm = cut.expm1().abs().log() - cut.abs().log()
        taylor = 0.5 * x + x**2 / 24.0 - x**4 / 2880.0
        return ad.where(outside, log_norm, taylor)
