"""The Pareto distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import Tensor

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all

__all__ = ["Pareto"]


class Pareto(TransformedDistribution):
    """A power law from `scale` on.

    Parameters
    ----------
    scale
        The smallest value.
    alpha
        The exponent.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {  # noqa: RUF012
        "alpha": constraints.positive,
        "scale": constraints.positive,
    }

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        chain = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, chain, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Pareto, _instance)
        new.scale = self.scale.expand(batch_shape)
        new.alpha = self.alpha.expand(batch_shape)
        return super().expand(batch_shape, _instance=new)

    @property
    def mean(self) -> Tensor:
        """The mean; infinite where there is none."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The smallest value."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance; infinite where there is none."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """All numbers from `scale` on."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
