"""Central differences: a pair of evaluations per input, on both sides of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._method import Stencil
from ._point import Vector
from ._steps import Steps

__all__ = ["Central"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Central(Stencil, name="central"):
    """Central differences: two evaluations per input, an error of about ``noise**(2/3)``.

    The default. At a bound both evaluations are inside, with an error of the same order.

    Parameters
    ----------
    step
        The absolute step; one for all inputs, or a dict by argument or path. Default: chosen.
    scale
        The typical magnitude of the input, for values near zero. Likewise.
    probe
        Whether the first derivative looks at the function to choose its steps.

    Examples
    --------
    >>> import adjoint as ad
    >>> f = ad.external(lambda x: x**3, derivative=ad.differences.Central(step=0.5))
    >>> x = ad.tensor(1.0, dtype=ad.float64, requires_grad=True)
    >>> f(x).backward()
    >>> x.grad
    tensor(3.2500, dtype=torch.float64)
    """

    offsets = (1, -1)
    directional = True

    step: Any = None
    scale: Any = None
    probe: bool = True

    def ends(self, steps: Steps) -> tuple[Vector, ...]:
        """On both sides, or both inside at a bound."""
        return steps.both_sides(steps.sizes(2))

    def combine(self, distances: Sequence[Any], values: Sequence[Any], y: Any) -> Any:
        """The slope between both sides; that of a parabola through x where both are on one."""
        (a, b), (fa, fb) = distances, values
        across = (a > 0) != (b > 0)
        if across is True or np.all(across):
            return (fa - fb) / (a - b)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Differences before weights: the weights of a difference are huge and nearly cancel.
            inside = -b / a / (a - b) * (fa - y) + a / b / (a - b) * (fb - y)
            return np.where(across, (fa - fb) / (a - b), inside)

    def error(self, noise: float) -> float:
        """About 4e-11 for float64."""
        return float(noise ** (2 / 3))
