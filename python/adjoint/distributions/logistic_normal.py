"""The logistic-normal distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import Tensor

from . import constraints
from .independent import Independent
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Probabilities that a stick-breaking transform makes of normal variables.

    Parameters
    ----------
    loc, scale
        The means and the standard deviations of these.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012
    support = constraints.simplex
    has_rsample = True
    base_dist: Independent

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(LogisticNormal, _instance)
        return super().expand(batch_shape, _instance=new)

    @property
    def loc(self) -> Tensor:
        """The means of the normal variables."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """Their standard deviations."""
        return self.base_dist.base_dist.scale
