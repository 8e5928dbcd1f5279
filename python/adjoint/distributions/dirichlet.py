"""The Dirichlet distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .distribution import _NO_SHAPE
from .exp_family import ExponentialFamily

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Probabilities that sum to one; gradients of samples are implicit ones.

    Parameters
    ----------
    concentration
        One positive number for each class, along the last axis.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1)
    }
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        batch_shape, event_shape = concentration.shape[:-1], concentration.shape[-1:]
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Dirichlet, _instance)
        shape = ad.Size(batch_shape)
        new.concentration = self.concentration.expand((*shape, *self.event_shape))
        return self._finish(new, shape, self.event_shape)

    def rsample(self, sample_shape: Sequence[int] = _NO_SHAPE) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        shape = self._extended_shape(sample_shape)
        return ad._sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        return (
            ad.xlogy(self.concentration - 1.0, value).sum(-1)
            + ad.lgamma(self.concentration.sum(-1))
            - ad.lgamma(self.concentration).sum(-1)
        )

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        # Below one everywhere: at the corner of the largest.
        mask = (self.concentration < 1).all(-1)
        corner = ad.nn.functional.one_hot(mode[mask].argmax(-1), self.concentration.shape[-1])
        mode[mask] = corner.to(mode)
        return mode

    @property
    def variance(self) -> Tensor:
        """The variance."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        k = self.concentration.size(-1)
        total = self.concentration.sum(-1)
        return (
            ad.lgamma(self.concentration).sum(-1)
            - ad.lgamma(total)
            - (k - total) * ad.digamma(total)
            - ((self.concentration - 1.0) * ad.digamma(self.concentration)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:
        return x.lgamma().sum(-1) - ad.lgamma(x.sum(-1))
