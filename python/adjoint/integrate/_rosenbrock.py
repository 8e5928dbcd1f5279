"""Rosenbrock's method for stiff problems: solves with the slope's matrix, no iteration."""

from __future__ import annotations

import adjoint as ad
from adjoint._core import Tensor
from adjoint.func import jacfwd

from ._methods import Method, Slope, Step

__all__ = ["Rodas3"]


class Rodas3(Method):
    """RODAS3 of Sandu and others: four stages, order 3, stiffly accurate, L-stable.

    In the form of Hairer and Wanner (Solving ODEs II, IV.7), which needs products with the matrix
    nowhere. What is in between is the cubic by both ends and their slopes.
    """

    order = 3
    cost = 3

    _GAMMA = 0.5
    _A = ((), (0.0,), (2.0, 0.0), (2.0, 0.0, 1.0))
    _C = ((), (4.0,), (1.0, -1.0), (1.0, -1.0, -8 / 3))
    _M = (2.0, 0.0, 1.0, 1.0)
    _ALPHA = (0.0, 0.0, 1.0, 1.0)
    _SUMS = (0.5, 1.5, 0.0, 0.0)

    def start(self, slope: Slope, t: Tensor, y: Tensor) -> Tensor:
        return slope(t, y)

    def step(self, slope: Slope, t: Tensor, y: Tensor, h: Tensor, memory: Tensor) -> Step:
        matrix, by_time = jacfwd(lambda y, t: slope(t, y), argnums=(0, 1))(y, t)
        n = y.numel()
        whole = ad.eye(n, dtype=y.dtype) / (self._GAMMA * h) - matrix
        lu, pivots = ad.linalg.lu_factor(whole)
        k: list[Tensor] = []
        f = memory
        for a, c, alpha, total in zip(self._A, self._C, self._ALPHA, self._SUMS, strict=True):
            if any(a):
                f = slope(t + alpha * h, y + _sum(a, k))
            right = f + total * h * by_time
            if any(c):
                right = right + _sum(c, k) / h
            k.append(ad.linalg.lu_solve(lu, pivots, right[:, None])[:, 0])
        new = y + _sum(self._M, k)
        after = slope(t + h, new)
        return Step(new, k[3], after, ad.stack([new, memory, after]))

    def value(self, y: Tensor, h: Tensor, between: Tensor, theta: Tensor) -> Tensor:
        return cubic(y, h, between, theta)


def cubic(y: Tensor, h: Tensor, between: Tensor, theta: Tensor) -> Tensor:
    """Hermite's cubic: ``between`` has the state at the end, and the slopes at both ends."""
    new, before, after = between[..., 0, :], between[..., 1, :], between[..., 2, :]
    s, h = theta[..., None], h[..., None]
    step = new - y
    inner = (1 - 2 * s) * step + (s - 1) * h * before + s * h * after
    return y + s * step + s * (s - 1) * inner


def _sum(weights: tuple[float, ...], k: list[Tensor]) -> Tensor:
    total = ad.zeros_like(k[0])
    for w, x in zip(weights, k, strict=False):
        if w:
            total = total + w * x
    return total
