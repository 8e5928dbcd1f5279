"""The conditions of a minimum, and its derivative by them.

At a minimum the gradient is zero in the free directions: elements at a bound that holds them are
that bound, and constraints that hold with equality have multipliers, so that the gradient of the
Lagrangian is zero (Karush, Kuhn and Tucker). Which bounds and constraints hold is looked up at the
answer; they are the residual whose implicit derivative the answer has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import everywhere, is_batched, somewhere
from adjoint.func import grad, jacrev

from ._choice import linear_for
from ._constraints import Constraints
from ._implicit import answer
from ._iteration import norm
from ._large import Large
from ._linear import Dense, Linear
from ._result import ConvergenceError

__all__ = ["Conditions", "Known"]

_POLISHING = 4  # steps of Newton's method after the solver
_LARGE = 512  # unknowns: beyond, the answer is as exact as the solver left it
_MET = 1e-3  # a step of Newton's method so long, relative to 1 + ‖x‖, leads to the answer
_MUCH = 1e-3  # of the residual: if more is left, the next step has a matrix of its own
_NEAR = 1e-6  # so near to a bound, relative to 1 + |x|, an element is at it


Function = Callable[[Tensor], Tensor]


class Held(NamedTuple):
    """Masks: elements at their bounds, and constraints that hold with equality, at which end."""

    low: Tensor
    high: Tensor
    active_low: Tensor
    active_high: Tensor


class Known(NamedTuple):
    """Of an objective: its gradient, and nearly its second derivative, for less than these cost."""

    slope: Function
    curvature: Function


class Conditions:
    """Of a minimum of an objective between bounds, under constraints."""

    def __init__(
        self,
        objective: Function,
        bounds: tuple[Tensor, Tensor] | None,
        constraints: Constraints,
        size: int,
        how: Any = None,
    ) -> None:
        self._how = how
        self._objective, self._bounds, self._size = objective, bounds, size
        self._constraints = constraints
        self._known: Known | None = None

    def at(self, x: Tensor, known: Known | None = None) -> Found:
        """The conditions at about where a solver stopped, and a point that meets them better.

        What is ``known`` of the objective does as long as nothing is differentiated.
        """
        if known is not None and (self._constraints.size or self._is_differentiated(x.detach())):
            known = None
        self._known = known
        with ad.no_grad():
            x = x.detach()
            held, multipliers = self._held(x)
            residual = self._residual(held)
            z = ad.cat([x, multipliers])
            linear = linear_for("minimize", residual, z, self._how, not self._constraints.size)
            if isinstance(linear, Large):
                z = _polished(residual, z, linear)
            elif self._size <= _LARGE:
                if known is None:
                    z = _polished(residual, z, linear)
                else:  # each step costs as much as one of the solver's, and gains a digit or two
                    linear = self._nearly(held, known.curvature)
                    z = _polished(residual, z, linear, 2)
        return Found(residual, z, held, self._size, linear, known is None)

    def _nearly(self, held: Held, curvature: Function) -> Linear:
        """Nearly the derivative of the residual, by that of the objective."""
        at_bound = (held.low | held.high)[:, None]
        return Dense(lambda z: ad.where(at_bound, ad.eye(self._size, dtype=z.dtype), curvature(z)))

    def _is_differentiated(self, x: Tensor) -> bool:
        """Whether something that the problem reads has a gradient or a tangent."""
        bounds = () if self._bounds is None else self._bounds
        parts = [self._objective(x), *bounds, self._constraints(x)]
        return any(t.requires_grad or ad._core._has_tangent(t) for t in parts)

    def _lagrangian(self, v: Tensor, multipliers: Tensor) -> Tensor:
        value = self._objective(v)
        if self._constraints.size:
            value = value - multipliers @ self._constraints(v)
        return value

    def _slope(self, v: Tensor, multipliers: Tensor) -> Tensor:
        """The gradient of the Lagrangian."""
        if self._known is not None:
            return self._known.slope(v)
        found: Tensor = grad(self._lagrangian)(v, multipliers)
        return found

    def _residual(self, held: Held) -> Function:
        c = self._constraints

        def residual(z: Tensor) -> Tensor:
            v, multipliers = z[: self._size], z[self._size :]
            top = self._slope(v, multipliers)
            if self._bounds is not None:
                for mask, bound in ((held.low, self._bounds[0]), (held.high, self._bounds[1])):
                    top = ad.where(mask, v - ad.where(mask, bound, 0.0), top)
            if not c.size:
                return top
            target = ad.where(held.active_low, c.low, ad.where(held.active_high, c.high, 0.0))
            active = held.active_low | held.active_high
            return ad.cat([top, ad.where(active, c(v) - target, multipliers)])

        return residual

    def _held(self, x: Tensor) -> tuple[Held, Tensor]:
        """Which bounds and constraints hold the answer, and the multipliers of the latter."""
        nothing = ad.zeros_like(x, dtype=ad.bool)
        low = high = nothing
        near = _NEAR * (1 + x.abs())
        if self._bounds is not None:
            low, high = x <= self._bounds[0] + near, x >= self._bounds[1] - near
        c = self._constraints
        known = self._known
        gradient = grad(self._objective)(x) if known is None else known.slope(x)
        none = c.low != c.low
        active_low = active_high = none
        multipliers = ad.zeros_like(c.low)
        if c.size:
            value, slope = c(x), jacrev(c)(x)
            close = _NEAR * (1 + value.abs())
            equal = c.low == c.high
            active_low, active_high = (
                equal | (value <= c.low + close),
                ~equal & (value >= c.high - close),
            )
        for _ in range(2):  # as found; then without those that push the wrong way
            if c.size:
                free = (~(low | high)).to(x.dtype)
                active = (active_low | active_high).to(x.dtype)
                rows = slope * active[:, None] * free
                multipliers = ad.linalg.pinv(rows.mT) @ (gradient * free)
                active_low = equal | (active_low & (multipliers > 0))
                active_high = active_high & (multipliers < 0)
                multipliers = ad.where(active_low | active_high, multipliers, 0.0)
            pull = gradient - (multipliers @ slope if c.size else 0.0)
            low, high = low & (pull > 0), high & (pull < 0)
        return Held(low, high, active_low, active_high), multipliers


class Found:
    """A point and the conditions that are to hold there."""

    def __init__(
        self,
        residual: Function,
        z: Tensor,
        held: Held,
        size: int,
        linear: Linear,
        is_differentiated: bool = True,
    ) -> None:
        self._residual, self._z, self._held, self._size = residual, z, held, size
        self._linear, self._is_differentiated = linear, is_differentiated

    def is_finite(self) -> bool:
        """Whether it is a point at all."""
        return everywhere(ad.isfinite(self._z))

    def is_met(self, before: Tensor) -> bool:
        """Whether the conditions hold to a few digits; ``before`` is the gradient at the start.

        Newton's step from here says how far the answer is. Where there is none, as where the
        objective is flat or the problem is large, the gradient must have become small.
        """
        with ad.no_grad():
            r = self._residual(self._z)
            met = norm(r) <= _MET * 1e-2 * (1 + norm(before))
            small = self._size <= _LARGE or isinstance(self._linear, Large)
            if not everywhere(met) and small:
                with contextlib.suppress(ConvergenceError):
                    step, solved = self._linear.newton_step(self._residual, self._z, r)
                    met = met | (solved & (norm(step) <= _MET * (1 + norm(self._z))))
            return everywhere(met)

    def active(self) -> Tensor:
        """The numbers of the elements that are at a bound; a mask under vmap."""
        mask = self._held.low | self._held.high
        return mask if is_batched(mask) else ad.nonzero(mask).flatten()

    def answer(self) -> Tensor:
        """The point, with its derivatives."""
        if not self._is_differentiated:
            return self._z[: self._size].detach()
        return answer(self._residual, self._z, self._linear)[: self._size]


def _polished(residual: Function, z: Tensor, linear: Linear, most: int = _POLISHING) -> Tensor:
    """A few steps of Newton's method, as long as each is a gain.

    So near to the answer the same factors serve for several steps: they are made anew where the
    residual does not become much smaller.
    """
    r = residual(z)
    size, factored = norm(r), None
    for _ in range(most):
        try:
            if factored is None:
                factored = linear.factored(residual, z)
            if factored is None:
                step, solved = linear.newton_step(residual, z, r)
            else:
                step, solved = factored[0](r), factored[1]
        except ConvergenceError:  # of the products: then it stays as exact as the solver left it
            break
        trial = z - step
        r_trial = residual(trial)
        after = norm(r_trial)
        good = solved & (after < size)
        if not somewhere(good):
            break
        if somewhere(after > _MUCH * size):
            factored = None
        z, r = ad.where(good, trial, z), ad.where(good, r_trial, r)
        size = ad.where(good, after, size)
    return z
