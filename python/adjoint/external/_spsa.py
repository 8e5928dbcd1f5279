"""Random directions: a gradient estimate whose cost does not depend on the number of inputs.

Each direction perturbs all inputs at once by plus or minus their step (Spall's simultaneous
perturbation). The estimate is unbiased and its variance is that of the other inputs' contributions,
divided by the number of directions. Read next: _methods.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ._evaluate import Point
from ._jacobian import Jacobian
from ._problem import Problem
from ._steps import Steps
from ._tiny import widened

__all__ = ["LowRank", "spsa"]


class LowRank:
    """The mean of outer products: one column of differences and one of inverse steps each."""

    def __init__(self, left: Any, right: Any) -> None:
        self.left, self.right = left, right  # (m, k) and (n, k)

    def pull(self, u: Any) -> Any:
        """Cotangents of outputs to cotangents of inputs."""
        return self.right @ (self.left.T @ u)

    def push(self, v: Any) -> Any:
        """Tangents of inputs to tangents of outputs."""
        return self.left @ (self.right.T @ v)

    def dense(self) -> Any:
        """As a matrix of outputs by inputs."""
        return self.left @ self.right.T


def spsa(problem: Problem, steps: Steps, directions: int, rng: Any) -> Jacobian:
    """A pair of evaluations per direction."""
    # What the others add is divided by an element's step: a tiny one would drown in it.
    steps = widened(steps, whole=False) or steps
    first, second = steps.both_sides(steps.sizes(2))
    x, n = problem.x, problem.inputs.size
    a, b = first - x, second - x
    if ((a > 0) == (b > 0)).any():
        # All inputs move together, so all have to be one-sided or none: shorten the steps.
        room = np.minimum(steps.high - x, x - steps.low)
        if (room <= 0).any():
            i = int(np.argmin(room))
            raise ValueError(
                f"derivative='spsa' steps to both sides, but {problem.inputs.label(i)} = "
                f"{x[i]:.6g} is on its bound; fix: derivative='central'"
            )
        a = np.minimum(np.abs(a), room)
    size = np.abs(a)
    signs = rng.choice([-1.0, 1.0], (n, directions))

    def points() -> Iterator[Point]:
        for k in range(directions):
            for sign in (1.0, -1.0):
                moved = problem.representable(x + sign * size * signs[:, k])
                moved = np.clip(moved, steps.low, steps.high)
                yield problem.moved_all(moved, lambda k=k: f"random direction {k}")  # type: ignore[misc]

    values = problem.values(points(), 2 * directions)
    left = np.stack([(p - q) / 2 for p, q in zip(values, values, strict=True)], 1)
    right = signs / size[:, None] / directions
    return LowRank(left, right)
