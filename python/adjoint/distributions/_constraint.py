"""The base of constraints; they are in constraints.py."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor


class Constraint:
    """A set of values.

    Attributes
    ----------
    is_discrete : bool
        Whether its values can be counted.
    event_dim : int
        How many of the last axes make one value.
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Return, for each event, whether it belongs to the set."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.__class__.__name__[1:] + "()"
