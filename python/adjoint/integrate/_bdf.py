"""Backward differentiation of order one to five, for stiff problems.

The formula is that of the points as they lie (variable coefficients), so the length of a step
may change at any time. The history holds the newest seven points; how many of them count is the
order, which is data like the rest, so that one recorded step serves all orders.
"""

from __future__ import annotations

import adjoint as ad
from adjoint._core import Tensor

from ._methods import Method, Step
from ._stages import Residual, answered, searched
from ._system import System
from ._tolerance import Tolerance

__all__ = ["BDF"]

_POINTS = 7
_MOST = 5


class BDF(Method):
    """The state of the method is ``times``, ``states``, the order and the steps at that order."""

    order = 2
    slopes = 5
    matrices = 1
    implicit = True
    has_orders = True

    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance

    def start(self, system: System, t: Tensor, y: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        # Points before the first are those of its tangent: the first prediction.
        back = ad.arange(_POINTS, dtype=y.dtype)
        states = y - (back * h)[:, None] * system.rate(t, y)
        one = ad.ones((), dtype=ad.int64)
        return t - back * h, states, one, ad.zeros_like(one)

    def rejected(self, memory: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        times, states, order, since = memory
        return times, states, order, ad.zeros_like(since)

    def with_order(self, memory: tuple[Tensor, ...], order: Tensor) -> tuple[Tensor, ...]:
        times, states, _, since = memory
        return times, states, order, since

    def exponent(self, memory: tuple[Tensor, ...], dtype: ad.dtype) -> Tensor:
        return -1 / (memory[2] + 1).to(dtype)

    def step(
        self,
        system: System,
        t: Tensor,
        y: Tensor,
        h: Tensor,
        memory: tuple[Tensor, ...],
        found: tuple[Tensor, ...] | None = None,
    ) -> Step:
        times, states, order, since = memory
        if found is not None:
            order = found[1]
        x = times - (t + h)
        # y' = first * y + weights @ states, of the polynomial through the new point and `order` old
        weights = _extrapolation(x, order - 1)
        first = -ad.where(ad.arange(_POINTS) < order, 1 / x, 0.0).sum()
        past = (weights / x) @ states / first

        def residual(v: Tensor) -> Tensor:
            return system.massed(v + past) - system.slope(t + h, v) / first

        def matrix(v: Tensor) -> Tensor:
            return system.mass_matrix(y) - system.matrix(t + h, v) / first

        if found is None:
            guess = _extrapolation(x, order) @ states
            new, there = self._search(residual, guess, matrix, y)
            error = self._error(states, x, h, order, new)
            error = ad.where(there, error, ad.inf)
        else:
            with ad.no_grad():
                exact = matrix(found[0])
            new, error = answered(residual, found[0], exact), ad.zeros_like(y)
        after = ad.cat([(t + h)[None], times[:-1]]), ad.cat([new[None], states[:-1]])
        between = (after[1], (after[0] - (t + h)) / h, order) if self.between else ()
        if found is not None:
            return Step(new, error, (*after, order, since), between, (new, order))
        following, since, grow = self._next(states, x, h, order, since + 1, y, new)
        return Step(new, error, (*after, following, since), between, (new, order), grow)

    def _search(
        self, residual: Residual, guess: Tensor, matrix: Residual, y: Tensor
    ) -> tuple[Tensor, Tensor]:
        scale = self._tolerance.scale(y, guess)
        bound = self._tolerance.newton(y.dtype)
        return searched(residual, guess, matrix(guess), scale, bound, 4)

    def _error(self, states: Tensor, x: Tensor, h: Tensor, order: Tensor, new: Tensor) -> Tensor:
        """Of a formula of some order: its distance from a prediction of that order, shared out."""
        oldest = x.index_select(0, order.clamp(max=_POINTS - 1)[None])[0]
        share = ad.maximum((h / oldest).abs(), 1 / (order + 1).to(x.dtype))
        return share * (new - _extrapolation(x, order) @ states)

    def _next(
        self,
        states: Tensor,
        x: Tensor,
        h: Tensor,
        order: Tensor,
        since: Tensor,
        y: Tensor,
        new: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The next order, the steps at it, and the factor of the step's length."""
        factors = []
        for k in (order, order - 1, order + 1):
            size = self._tolerance.norm(self._error(states, x, h, k.clamp(1), new), y, new)
            factor = size.clamp(min=1e-10) ** (-1 / (k + 1).to(x.dtype))
            factors.append(ad.where((k >= 1) & (k <= _MOST), factor, 0.0))
        same, lower, higher = factors
        due = since > order
        down = due & (lower > same) & (lower >= higher)
        up = due & (higher > same) & (higher > lower)
        following = order + up.to(order.dtype) - down.to(order.dtype)
        best = ad.maximum(ad.maximum(same, lower), higher)
        most = ad.where(order == 1, 10.0, 3.0).to(x.dtype)
        grow = ad.where(due, (0.9 * best).clamp(max=most), ad.ones_like(best))
        return following, ad.where(due, 0, since), grow

    def value(self, y: Tensor, h: Tensor, between: tuple[Tensor, ...], theta: Tensor) -> Tensor:
        states, nodes, order = between
        at = theta - 1
        weights = _extrapolation(nodes - at[..., None], order[..., None])
        return (weights[..., None, :] @ states).squeeze(-2)


def _extrapolation(x: Tensor, order: Tensor) -> Tensor:
    """The weights of values at points ``x`` in the value at zero of the polynomial through them.

    That of the degree ``order``, which the first points determine; the others have no weight.
    """
    count = ad.arange(x.shape[-1])
    mine = ad.eye(x.shape[-1], dtype=ad.bool)
    taken = count <= order
    weights = ad.where(taken, 1.0, 0.0).to(x.dtype)
    for i in range(x.shape[-1]):
        there, point = taken[..., i : i + 1] & ~mine[i], x[..., i : i + 1]
        gap = ad.where(there, point - x, 1.0)
        weights = weights * ad.where(there, point / gap, 1.0)
    return weights
