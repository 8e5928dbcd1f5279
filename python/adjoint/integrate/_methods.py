"""What a method of one step is, and the explicit pairs of Runge and Kutta.

A step goes from ``(t, y)`` over ``h`` and gives the new state, an estimate of its error and what
the values in between are made from. It is made of ordinary operations on vectors, so that it has
derivatives and can be recorded once; ``t`` and ``h`` are tensors of no axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor

from ._system import System

__all__ = ["Explicit", "Method", "Step", "combined", "explicit_method"]


class Step(NamedTuple):
    """A step that was made.

    ``memory`` is what the next step takes over; ``between`` what `Method.value` reads; ``found``
    what was solved for, from which the step can be made again without a search; ``grow`` the factor
    of the next step's length, where that is not the error's. An error that is infinite says that
    the step could not be made.
    """

    y: Tensor
    error: Tensor
    memory: tuple[Tensor, ...]
    between: tuple[Tensor, ...] = ()
    found: tuple[Tensor, ...] = ()
    grow: Tensor | None = None


class Method:
    """A method of one step.

    Attributes
    ----------
    name
        As users write it.
    order
        How the estimated error falls with the length of a step.
    slopes, matrices
        How many slopes and derivative matrices an attempted step takes.
    implicit
        Whether it solves equations, and takes a mass matrix.
    has_orders
        Whether its order changes from step to step: the last of `Step.found`.
    between
        Whether `Step.between` is asked for.
    """

    name = ""
    order: int
    slopes: int
    matrices = 0
    implicit = False
    has_orders = False
    between = True

    def start(self, system: System, t: Tensor, y: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        """What the first step takes over, which is about ``h`` long."""
        return (system.slope(t, y),)

    def rejected(self, memory: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """What the next attempt takes over after one that was rejected."""
        return memory

    def with_order(self, memory: tuple[Tensor, ...], order: Tensor) -> tuple[Tensor, ...]:
        """The same with the order of the next step, where it has one."""
        return memory

    def exponent(self, memory: tuple[Tensor, ...], dtype: ad.dtype) -> Any:
        """The power of an error by which the next step is longer."""
        return -1 / self.order

    def step(
        self,
        system: System,
        t: Tensor,
        y: Tensor,
        h: Tensor,
        memory: tuple[Tensor, ...],
        found: tuple[Tensor, ...] | None = None,
    ) -> Step:
        """One step; with what was ``found`` for it before, it is exact and differentiable."""
        raise NotImplementedError

    def value(self, y: Tensor, h: Tensor, between: tuple[Tensor, ...], theta: Tensor) -> Tensor:
        """The state at ``t + theta * h``; there may be leading axes of steps."""
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
        self.slopes = len(c)

    def step(
        self,
        system: System,
        t: Tensor,
        y: Tensor,
        h: Tensor,
        memory: tuple[Tensor, ...],
        found: tuple[Tensor, ...] | None = None,
    ) -> Step:
        k = [memory[0]]
        for c, row in zip(self._c[1:], self._a[1:], strict=True):
            k.append(system.slope(t + c * h, y + h * combined(row, k)))
        new = y + h * combined(self._b, k)
        k.append(system.slope(t + h, new))  # of the error, and the first one of the next step
        between = (ad.stack(k),) if self.between else ()
        return Step(new, h * combined(self._e, k), (k[-1],), between)

    def value(self, y: Tensor, h: Tensor, between: tuple[Tensor, ...], theta: Tensor) -> Tensor:
        # Rows of p are polynomials in theta without a constant, one for each slope.
        p = ad.tensor(self._p, dtype=y.dtype)
        powers = theta[..., None] ** ad.arange(1, p.shape[1] + 1, dtype=y.dtype)
        weights = powers @ p.mT
        return y + h[..., None] * (weights[..., None, :] @ between[0]).squeeze(-2)


def combined(weights: Sequence[float], k: Sequence[Tensor]) -> Tensor:
    """The sum of vectors with weights, of which some are zero."""
    total: Any = None
    for w, x in zip(weights, k, strict=False):
        if w != 0:
            term = x if w == 1 else w * x
            total = term if total is None else total + term
    return ad.zeros_like(k[0]) if total is None else total


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
