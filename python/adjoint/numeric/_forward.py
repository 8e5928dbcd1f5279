"""Forward differences: one more evaluation per input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._method import Stencil
from ._point import Vector
from ._steps import Steps

__all__ = ["Forward"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Forward(Stencil, name="forward"):
    """Forward differences: one evaluation per input, an error of about ``noise**(1/2)``.

    For evaluations that are expensive. Where there is more room below than above, inside the
    bounds, the step goes downwards.

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
    >>> f = ad.external(lambda x: x**2, derivative=ad.differences.Forward(step=0.5))
    >>> x = ad.tensor(1.0, dtype=ad.float64, requires_grad=True)
    >>> f(x).backward()
    >>> x.grad
    tensor(2.5000, dtype=torch.float64)
    """

    order = 1
    offsets = (1,)

    step: Any = None
    scale: Any = None
    probe: bool = True

    def ends(self, steps: Steps) -> tuple[Vector, ...]:
        """Above, or below where there is more room."""
        return (steps.one_side(steps.sizes(1)),)

    def combine(self, distances: Sequence[Any], values: Sequence[Any], y: Any) -> Any:
        """The slope to the one side."""
        return (values[0] - y) / distances[0]

    def error(self, noise: float) -> float:
        """About 1e-8 for float64."""
        return float(noise**0.5)
