"""Random directions: a gradient estimate whose cost does not depend on the number of inputs.

Each direction perturbs all inputs at once by plus or minus their step (Spall's simultaneous
perturbation). The estimate is unbiased and its variance is that of the other inputs' contributions,
divided by the number of directions. Read next: _plan.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._jacobians import LowRank
from ._method import Method
from ._point import Move, Point
from ._steps import Steps
from ._tiny_elements import widened

if TYPE_CHECKING:
    from ._plan import Plan

__all__ = ["Spsa"]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Spsa(Method, name="spsa"):
    """Random directions: a rough gradient of a function of very many inputs.

    Two evaluations per direction, whatever the number of inputs. The estimate is unbiased, with an
    error of the order of the gradient itself; there is no second derivative.

    Parameters
    ----------
    step
        The absolute step; one for all inputs, or a dict by argument or path. Default: chosen.
    scale
        The typical magnitude of the input, for values near zero. Likewise.
    probe
        Whether the first derivative looks at the function to choose its steps.
    directions
        How many random directions.
    seed
        Of the directions.

    Examples
    --------
    >>> import adjoint as ad
    >>> f = ad.external(lambda x: (x**2).sum(), derivative=ad.differences.Spsa(directions=4))
    >>> print(f.cost(ad.zeros(1000)).vjp)
    8
    """

    repeatable = False

    step: Any = None
    scale: Any = None
    probe: bool = True
    directions: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.directions < 1:
            raise ValueError(f"directions= must be at least 1, got {self.directions}")

    def evaluations(self, inputs: int) -> int:
        """A pair for each direction."""
        return 2 * self.directions

    def error(self, noise: float) -> float:
        """That of the differences; what the other inputs add is not known."""
        return float(noise ** (2 / 3))

    def jacobian(self, point: Point, steps: Steps, plan: Plan) -> LowRank:
        """A pair of evaluations per direction; each Jacobian draws its own."""
        return _jacobian(point, steps, self.directions, plan.rng)


def _jacobian(point: Point, steps: Steps, directions: int, rng: Any) -> LowRank:
    # What the others add is divided by an element's step: a tiny one would drown in it.
    steps = widened(steps, whole=False) or steps
    first, second = steps.both_sides(steps.sizes(2))
    x, n = point.x, point.inputs.size
    a, b = first - x, second - x
    if ((a > 0) == (b > 0)).any():
        # All inputs move together, so all have to be one-sided or none: shorten the steps.
        room = np.minimum(steps.high - x, x - steps.low)
        if (room <= 0).any():
            i = int(np.argmin(room))
            raise ValueError(
                f"derivative='spsa' steps to both sides, but {point.inputs.label(i)} = "
                f"{x[i]:.6g} is on its bound; fix: derivative='central'"
            )
        a = np.minimum(np.abs(a), room)
    size = np.abs(a)
    signs = rng.choice([-1.0, 1.0], (n, directions))

    def moves() -> Iterator[Move]:
        for k in range(directions):
            for sign in (1.0, -1.0):
                moved = point.representable(x + sign * size * signs[:, k])
                moved = np.clip(moved, steps.low, steps.high)
                yield moved, f"random direction {k}".format

    values = point.values(moves(), 2 * directions)
    left = np.stack([(p - q) / 2 for p, q in zip(values, values, strict=True)], 1)
    right = signs / size[:, None] / directions
    return LowRank(left, right)
