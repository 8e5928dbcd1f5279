"""`ExponentialFamily`: densities exp(parameters * statistics - F(parameters))."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor

from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """The base of exponential families.

    A family states its natural parameters and the logarithm of its normaliser; its entropy
    follows, with a gradient of the normaliser.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        """The mean of the logarithm of the carrier measure."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy: the normaliser less its gradient times the parameters."""
        result: Any = -self._mean_carrier_measure
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normaliser = self._log_normalizer(*params)
        gradients: Any = ad.autograd.grad(normaliser.sum(), params, create_graph=True)
        result = result + normaliser
        for param, gradient in zip(params, gradients, strict=True):
            terms = param * gradient
            result = result - terms.reshape(*self._batch_shape, -1).sum(-1)
        return result
