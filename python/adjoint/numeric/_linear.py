"""Linear functions: differences over any distance are exact, and second derivatives are zero."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._method import Stencil
from ._point import Vector
from ._steps import Steps

__all__ = ["Linear"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Linear(Stencil, name="linear"):
    """For functions that are linear, up to a constant: one evaluation per input, exact.

    A jvp takes one evaluation, and second derivatives are zero. That the function is linear is
    verified at each derivative.

    Examples
    --------
    >>> import adjoint as ad
    >>> import numpy as np
    >>> f = ad.external(np.cumsum, linear=True)
    >>> x = ad.tensor([1.0, 2.0, 3.0], dtype=ad.float64, requires_grad=True)
    >>> f(x).sum().backward()
    >>> x.grad
    tensor([3., 2., 1.], dtype=torch.float64)
    """

    order = 1
    offsets = (1,)
    directional = True
    recovers = False
    flat = True

    probe: bool = False

    def ends(self, steps: Steps) -> tuple[Vector, ...]:
        """As far as the inputs are large."""
        return (steps.one_side(steps.scale),)

    def combine(self, distances: Sequence[Any], values: Sequence[Any], y: Any) -> Any:
        """The slope, which is the same everywhere."""
        return (values[0] - y) / distances[0]

    def error(self, noise: float) -> float:
        """That of the outputs."""
        return noise
