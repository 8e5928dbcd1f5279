"""The chi-squared distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import Tensor

from . import constraints
from .gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal variables.

    Parameters
    ----------
    df
        The degrees of freedom.
    validate_args
        Whether parameters and values are checked.
    """

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """Return the same distribution with its batch expanded."""
        new = self._get_checked_instance(Chi2, _instance)
        return super().expand(batch_shape, new)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2
