"""What a method of one step is, and the explicit pairs of Runge and Kutta.

A step goes from ``(t, y)`` over ``h`` and gives the new state, an estimate of its error and what
the values in between are made from. It is made of ordinary operations on vectors, so that it has
derivatives; ``t`` and ``h`` are tensors of no axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor

__all__ = ["Explicit", "Method", "Slope", "Step", "explicit_method"]

Slope = Callable[[Tensor, Tensor], Tensor]


class Step(NamedTuple):
    """A step that was made.

    ``memory`` is what the next step takes over; ``between`` the rows that `Method.weights` combine.
    """

    y: Tensor
    error: Tensor
    memory: Tensor
    between: Tensor


class Method:
    """A method of one step."""

    order: int  # of the error estimate plus one: how the error falls with h
    cost: int  # evaluations of the slope in a step
    scans = True  # whether its steps are operations only, and can be recorded once

    def start(self, slope: Slope, t: Tensor, y: Tensor) -> Tensor:
        """What the first step takes over."""
        raise NotImplementedError

    def step(self, slope: Slope, t: Tensor, y: Tensor, h: Tensor, memory: Tensor) -> Step:
        """One step."""
        raise NotImplementedError

    def value(self, y: Tensor, h: Tensor, between: Tensor, theta: Tensor) -> Tensor:
        """The state at ``t + theta * h``."""
        raise NotImplementedError


class Explicit(Method):
    """An explicit pair: nodes, rows, weights, those of the error, and of values in between."""

    def __init__(
        self,
        order: int,
        c: Sequence[float],
        a: Sequence[Sequence[float]],
        b: Sequence[float],
        e: Sequence[float],
        p: Sequence[Sequence[float]],
    ) -> None:
        self.order, self._c, self._a, self._b, self._e, self._p = order, c, a, b, e, p
        self.cost = len(c)

    def start(self, slope: Slope, t: Tensor, y: Tensor) -> Tensor:
        return slope(t, y)

    def step(self, slope: Slope, t: Tensor, y: Tensor, h: Tensor, memory: Tensor) -> Step:
        k = [memory]
        for c, row in zip(self._c[1:], self._a[1:], strict=True):
            k.append(slope(t + c * h, y + h * _combined(row, k)))
        new = y + h * _combined(self._b, k)
        k.append(slope(t + h, new))  # of the error, and the first one of the next step
        return Step(new, h * _combined(self._e, k), k[-1], ad.stack(k))

    def value(self, y: Tensor, h: Tensor, between: Tensor, theta: Tensor) -> Tensor:
        # Rows of p are polynomials in theta without a constant, one for each slope.
        p = ad.tensor(self._p, dtype=y.dtype)
        powers = theta[..., None] ** ad.arange(1, p.shape[1] + 1, dtype=y.dtype)
        weights = powers @ p.mT
        return y + h[..., None] * (weights[..., None, :] @ between).squeeze(-2)


def _combined(weights: Sequence[float], k: Sequence[Tensor]) -> Tensor:
    total: Any = None
    for w, x in zip(weights, k, strict=True):
        if w != 0:
            total = w * x if total is None else total + w * x
    assert isinstance(total, Tensor)
    return total


def explicit_method(name: str) -> Explicit | None:
    """The pair of that name, or None."""
    make = {"RK23": _bogacki_shampine, "RK45": _dormand_prince}.get(name)
    return None if make is None else make()


def _bogacki_shampine() -> Explicit:
    return Explicit(
        3,
        c=[0, 1 / 2, 3 / 4],
        a=[[], [1 / 2], [0, 3 / 4]],
        b=[2 / 9, 1 / 3, 4 / 9],
        e=[5 / 72, -1 / 12, -1 / 9, 1 / 8],
        p=[[1, -4 / 3, 5 / 9], [0, 1, -2 / 3], [0, 4 / 3, -8 / 9], [0, -1, 1]],
    )


def _dormand_prince() -> Explicit:
    return Explicit(
        5,
        c=[0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1],
        a=[
            [],
            [1 / 5],
            [3 / 40, 9 / 40],
            [44 / 45, -56 / 15, 32 / 9],
            [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
            [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
        ],
        b=[35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
        e=[
            71 / 57600,
            0,
            -71 / 16695,
            71 / 1920,
            -17253 / 339200,
            22 / 525,
            -1 / 40,
        ],
        p=[
            [1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432],
            [0, 0, 0, 0],
            [0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799],
            [0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072],
            [
                0,
                127303824393 / 49829197408,
                -318862633887 / 49829197408,
                701980252875 / 199316789632,
            ],
            [0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844],
            [0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423],
        ],
    )
