"""Rosenbrock's methods for stiff problems: solves with the slope's matrix, no iteration."""

from __future__ import annotations

import math
from collections.abc import Sequence

import adjoint as ad
from adjoint._core import Tensor

from ._methods import Method, Step, combined
from ._system import System

__all__ = ["Rodas3", "Rodas5P", "Rosenbrock"]


class Rosenbrock(Method):
    """In the form of Hairer and Wanner (Solving ODEs II, IV.7), without products with the matrix.

    The last stage of a method that is stiffly accurate is its error.
    """

    implicit = True
    matrices = 1

    gamma: float
    a: Sequence[Sequence[float]]  # of the stages, in the slope
    c: Sequence[Sequence[float]]  # of the stages, beside the slope
    m: Sequence[float]  # of the stages, in the new state
    alpha: Sequence[float]  # the times of the slopes
    by_time: Sequence[float]  # of the slope's derivative by time
    crosses_poles = False  # it is exact for some equations that have them

    def start(self, system: System, t: Tensor, y: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return ()

    def step(
        self,
        system: System,
        t: Tensor,
        y: Tensor,
        h: Tensor,
        memory: tuple[Tensor, ...],
        found: tuple[Tensor, ...] | None = None,
    ) -> Step:
        matrix, by_time = system.matrix(t, y), system.by_time(t, y)
        whole = system.mass_matrix(y) / (self.gamma * h) - matrix
        lu, pivots, _ = ad.linalg.lu_factor_ex(whole)
        f = first = system.slope(t, y)
        k: list[Tensor] = []
        for a, c, alpha, of_time in zip(self.a, self.c, self.alpha, self.by_time, strict=True):
            if any(a):
                f = system.slope(t + alpha * h, y + combined(a, k))
            right = f
            if of_time:
                right = right + of_time * h * by_time
            if any(c):
                right = right + system.massed(combined(c, k)) / h
            k.append(ad.linalg.lu_solve(lu, pivots, right[:, None])[:, 0])
        new = y + combined(self.m, k)
        if self.crosses_poles and system.mass is None:
            new = _without_pole(new, y, h, first, system.slope(t + h, new))
        between = self.rows(system, t, y, h, new, first, k) if self.between else ()
        return Step(new, k[-1], (), between)

    def rows(
        self,
        system: System,
        t: Tensor,
        y: Tensor,
        h: Tensor,
        new: Tensor,
        first: Tensor,
        k: list[Tensor],
    ) -> tuple[Tensor, ...]:
        """What `value` reads."""
        raise NotImplementedError


def _without_pole(new: Tensor, y: Tensor, h: Tensor, before: Tensor, after: Tensor) -> Tensor:
    """The new state, NaN where it lies beyond infinity.

    Linear solves may follow ``y' = y²`` across its pole without an error. There the state changes
    its sign against the slopes at both ends.
    """
    change = (new - y) * h.sign()
    return ad.where((change * before < 0) & (change * after < 0) & (new * y < 0), math.nan, new)


class Rodas3(Rosenbrock):
    """RODAS3 of Sandu and others: four stages, order 3, L-stable.

    What is in between is the cubic by both ends and their slopes.
    """

    order = 3
    slopes = 4
    crosses_poles = True
    gamma = 0.5
    a = ((), (0.0,), (2.0, 0.0), (2.0, 0.0, 1.0))
    c = ((), (4.0,), (1.0, -1.0), (1.0, -1.0, -8 / 3))
    m = (2.0, 0.0, 1.0, 1.0)
    alpha = (0.0, 0.0, 1.0, 1.0)
    by_time = (0.5, 1.5, 0.0, 0.0)

    def rows(
        self,
        system: System,
        t: Tensor,
        y: Tensor,
        h: Tensor,
        new: Tensor,
        first: Tensor,
        k: list[Tensor],
    ) -> tuple[Tensor, ...]:
        before, after = first, system.slope(t + h, new)
        if system.mass is not None:
            before, after = (ad.linalg.pinv(system.mass) @ f for f in (before, after))
        return (ad.stack([new, before, after]),)

    def value(self, y: Tensor, h: Tensor, between: tuple[Tensor, ...], theta: Tensor) -> Tensor:
        new, before, after = (between[0][..., j, :] for j in range(3))
        s, h = theta[..., None], h[..., None]
        step = new - y
        inner = (1 - 2 * s) * step + (s - 1) * h * before + s * h * after
        return y + s * step + s * (s - 1) * inner


_LAST = (
    -7.502846399306121,
    2.561846144803919,
    -11.627539656261098,
    -0.18268767659942256,
    0.030198172008377946,
)


class Rodas5P(Rosenbrock):
    """Steinebach's RODAS5P: eight stages, order 5, L-stable, with values in between of order 4.

    G. Steinebach, Construction of Rosenbrock-Wanner method Rodas5P and numerical benchmarks within
    the Julia Differential Equations package, BIT 63 (2023).
    """

    order = 5
    slopes = 8
    gamma = 0.21193756319429014
    a = (
        (),
        (3.0,),
        (2.849394379747939, 0.45842242204463923),
        (-6.954028509809101, 2.489845061869568, -10.358996098473584),
        (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
        _LAST,
        (*_LAST, 1.0),
        (*_LAST, 1.0, 1.0),
    )
    c = (
        (),
        (-14.155112264123755,),
        (-17.97296035885952, -2.859693295451294),
        (147.12150275711716, -1.41221402718213, 71.68940251302358),
        (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
        (
            24.854864614690072,
            -3.0009227002832186,
            47.4931110020768,
            5.5814197821558125,
            -0.6610691825249471,
        ),
        (
            30.91273214028599,
            -3.1208243349937974,
            77.79954646070892,
            34.28646028294783,
            -19.097331116725623,
            -28.087943162872662,
        ),
        (
            37.80277123390563,
            -3.2571969029072276,
            112.26918849496327,
            66.9347231244047,
            -40.06618937091002,
            -54.66780262877968,
            -9.48861652309627,
        ),
    )
    m = (*_LAST, 1.0, 1.0, 1.0)
    alpha = (
        0.0,
        0.6358126895828704,
        0.4095798393397535,
        0.9769306725060716,
        0.4288403609558664,
        1.0,
        1.0,
        1.0,
    )
    by_time = (
        0.21193756319429014,
        -0.42387512638858027,
        -0.3384627126235924,
        1.8046452872882734,
        2.325825639765069,
        0.0,
        0.0,
        0.0,
    )
    h = (
        (
            25.948786856663858,
            -2.5579724845846235,
            10.433815404888879,
            -2.3679251022685204,
            0.524948541321073,
            1.1241088310450404,
            0.4272876194431874,
            -0.17202221070155493,
        ),
        (
            -9.91568850695171,
            -0.9689944594115154,
            3.0438037242978453,
            -24.495224566215796,
            20.176138334709044,
            15.98066361424651,
            -6.789040303419874,
            -6.710236069923372,
        ),
        (
            11.419903575922262,
            2.8879645146136994,
            72.92137995996029,
            80.12511834622643,
            -52.072871366152654,
            -59.78993625266729,
            -0.15582684282751913,
            4.883087185713722,
        ),
    )

    def rows(
        self,
        system: System,
        t: Tensor,
        y: Tensor,
        h: Tensor,
        new: Tensor,
        first: Tensor,
        k: list[Tensor],
    ) -> tuple[Tensor, ...]:
        return (ad.stack([new, *(combined(row, k) for row in self.h)]),)

    def value(self, y: Tensor, h: Tensor, between: tuple[Tensor, ...], theta: Tensor) -> Tensor:
        new, one, two, three = (between[0][..., j, :] for j in range(4))
        s = theta[..., None]
        return (1 - s) * y + s * (new + (1 - s) * (one + s * (two + s * three)))
