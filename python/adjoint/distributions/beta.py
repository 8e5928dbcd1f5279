"""The beta distribution."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import adjoint as ad
from adjoint import Tensor

from . import constraints
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .utils import broadcast_all

__all__ = ["Beta"]


class Beta(ExponentialFamily):
    """Numbers between 0 and 1.

    Parameters
    ----------
    concentration1, concentration0
        The weights of 1 and of 0: alpha and beta.
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
        if isinstance(concentration1, Real) and isinstance(concentration0, Real):
            both = ad.tensor([float(concentration1), float(concentration0)])
        else:
            both = ad.stack(broadcast_all(concentration1, concentration0), -1)
        # Checked here, by the names that were given.
        self._dirichlet = Dirichlet(both, validate_args=False)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Beta, _instance)
        shape = ad.Size(batch_shape)
        new._dirichlet = self._dirichlet.expand(shape)
        return self._finish(new, shape, ad.Size())

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """Where the density is largest."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Draw samples whose gradients by the parameters are known."""
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density at a value."""
        self._checked(value)
        return self._dirichlet.log_prob(ad.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._dirichlet.entropy()

    def _part(self, k: int) -> Tensor:
        return self._dirichlet.concentration[..., k]

    @property
    def concentration1(self) -> Tensor:
        """The weight of 1."""
        return self._part(0)

    @property
    def concentration0(self) -> Tensor:
        """The weight of 0."""
        return self._part(1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration1, self.concentration0)

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:
        return ad.lgamma(x) + ad.lgamma(y) - ad.lgamma(x + y)
