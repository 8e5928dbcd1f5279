"""The conditions of a minimum, and its derivative by them.

At a minimum the gradient is zero in the free directions: elements at a bound that holds them are
that bound, and constraints that hold with equality have multipliers, so that the gradient of the
Lagrangian is zero (Karush, Kuhn and Tucker). Which bounds and constraints hold is looked up at the
answer; they are the residual whose implicit derivative the answer has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint._core import Tensor
from adjoint.func import grad, jacfwd, jacrev, jvp

from ._implicit import answer
from ._iteration import norm
from ._samples import Arrays, everywhere, is_batched, somewhere
from ._scipy import scipy_optimize
from ._unknowns import Unknowns

__all__ = ["Conditions", "Constraints", "bounds_of", "constraints_of"]

_POLISHING = 4  # steps of Newton's method after the solver
_LARGE = 512  # unknowns: beyond, the answer is as exact as the solver left it
_MET = 1e-3  # a step of Newton's method so long, relative to 1 + ‖x‖, leads to the answer
_NEAR = 1e-6  # so near to a bound, relative to 1 + |x|, an element is at it


Function = Callable[[Tensor], Tensor]


class Constraints:
    """``low <= fun(v) <= high``, elementwise; equalities where these are equal."""

    def __init__(
        self, funs: list[Function], lows: list[Any], highs: list[Any], start: Tensor
    ) -> None:
        self._funs = funs
        with ad.no_grad():
            values = [f(start) for f in funs]
        self.values = values
        sizes = [int(v.numel()) for v in values]
        spread = [
            ad.as_tensor(np.array(np.broadcast_to(b, n), dtype=float), dtype=start.dtype)
            for bounds in (lows, highs)
            for b, n in zip(bounds, sizes, strict=True)
        ]
        empty = ad.empty(0, dtype=start.dtype)
        self.low = ad.cat([empty, *spread[: len(funs)]])
        self.high = ad.cat([empty, *spread[len(funs) :]])
        self.size = sum(sizes)

    def __call__(self, v: Tensor) -> Tensor:
        return ad.cat([f(v) for f in self._funs]) if self._funs else v[:0]

    def for_scipy(self, arrays: Arrays, newton: bool) -> list[Any]:
        """As SciPy takes them, with exact derivatives, on all samples at once.

        ``newton``: for a method that takes second derivatives as well.
        """
        low, high = self.low.numpy(), self.high.numpy()
        if newton:
            return [
                scipy_optimize().NonlinearConstraint(
                    lambda v: arrays.flat(self(arrays.each(v))),
                    np.tile(low, arrays.samples),
                    np.tile(high, arrays.samples),
                    jac=lambda v: arrays.blocks(jacrev(self)(arrays.each(v))),
                    hess=lambda v, w: self._curvature(arrays, v, w),
                )
            ]
        equal = low == high
        return [
            self._dict(arrays, kind, bound[rows], sign, rows)
            for kind, bound, sign, rows in (
                ("eq", low, 1, np.flatnonzero(equal)),
                ("ineq", low, 1, np.flatnonzero(~equal & np.isfinite(low))),
                ("ineq", high, -1, np.flatnonzero(~equal & np.isfinite(high))),
            )
            if rows.size
        ]

    def _dict(self, arrays: Arrays, kind: str, bound: Any, sign: int, rows: Any) -> dict[str, Any]:
        chosen = ad.from_numpy(rows)

        def slope(v: Any) -> Any:
            return sign * arrays.blocks(jacrev(self)(arrays.each(v)).index_select(0, chosen))

        return {
            "type": kind,
            "fun": lambda v: (
                sign * (arrays.whole(self(arrays.each(v)))[..., rows] - bound)
            ).ravel(),
            "jac": slope,
        }

    def _curvature(self, arrays: Arrays, v: Any, weights: Any) -> Any:
        """The Hessian of a weighted sum of constraints."""
        w, at = arrays.each(weights), arrays.each(v)
        slope = grad(lambda x: w @ self(x))
        rows = [arrays.flat(jvp(slope, (at,), (arrays.each(e),))[1]) for e in np.eye(v.size)]
        return np.stack(rows)


def constraints_of(given: Any, unknowns: Unknowns) -> Constraints:
    """SciPy's forms of constraints as ours."""
    items = list(given) if isinstance(given, (list, tuple)) else [given]
    funs: list[Function] = []
    lows, highs = [], []
    for item in items:
        if isinstance(item, dict):
            kind, fun = item.get("type"), item.get("fun")
            if kind not in ("eq", "ineq") or not callable(fun):
                raise ValueError(
                    "minimize(): a constraint is {'type': 'eq' or 'ineq', 'fun': a function}, "
                    f"got {item!r}"
                )
            funs.append(_flat(fun, unknowns, tuple(item.get("args", ()))))
            lows.append(0.0)
            highs.append(0.0 if kind == "eq" else np.inf)
        elif hasattr(item, "A"):
            matrix = item.A.toarray() if hasattr(item.A, "toarray") else np.atleast_2d(item.A)
            funs.append(_linear(ad.as_tensor(matrix, dtype=unknowns.start.dtype)))
            lows.append(item.lb)
            highs.append(item.ub)
        elif hasattr(item, "fun"):
            funs.append(_flat(item.fun, unknowns, ()))
            lows.append(item.lb)
            highs.append(item.ub)
        else:
            raise TypeError(f"minimize(): {type(item).__name__} is not a constraint")
    return Constraints(funs, lows, highs, unknowns.start)


def _linear(rows: Tensor) -> Function:
    return lambda v: rows @ v


def _flat(fun: Callable[..., Any], unknowns: Unknowns, args: tuple[Any, ...]) -> Function:
    def flat(v: Tensor) -> Tensor:
        value = fun(unknowns.tree(v), *args)
        parts = value if isinstance(value, (list, tuple)) else [value]
        return ad.cat([ad.as_tensor(p).reshape(-1).to(v.dtype) for p in parts])

    return flat


def bounds_of(given: Any, unknowns: Unknowns) -> tuple[Tensor, Tensor] | None:
    """The lower and the upper bounds of all unknowns, as vectors."""
    if given is None:
        return None
    n, dtype = unknowns.size, unknowns.start.dtype
    if hasattr(given, "lb"):
        ends = given.lb, given.ub
    else:
        pairs = list(given)
        if len(pairs) == 2 and not isinstance(pairs[0], (tuple, list)):
            pairs = [tuple(pairs)] * n
        if len(pairs) != n:
            raise ValueError(
                f"minimize(): there are {len(pairs)} bounds for {n} unknowns; give a pair (low, "
                f"high) for "
                "each of them, or one for all"
            )
        ends = [p[0] for p in pairs], [p[1] for p in pairs]
    low, high = (_ends(e, n, dtype, none) for e, none in zip(ends, (-np.inf, np.inf), strict=True))
    return low, high


def _ends(given: Any, n: int, dtype: Any, none: float) -> Tensor:
    if isinstance(given, (list, tuple)):
        parts = [ad.as_tensor(none if e is None else e, dtype=dtype).reshape(()) for e in given]
        return ad.stack(parts) if parts else ad.empty(0, dtype=dtype)
    return ad.as_tensor(given, dtype=dtype).expand(n)


class Held(NamedTuple):
    """Masks: elements at their bounds, and constraints that hold with equality, at which end."""

    low: Tensor
    high: Tensor
    active_low: Tensor
    active_high: Tensor


class Conditions:
    """Of a minimum of an objective between bounds, under constraints."""

    def __init__(
        self,
        objective: Function,
        bounds: tuple[Tensor, Tensor] | None,
        constraints: Constraints,
        size: int,
    ) -> None:
        self._objective, self._bounds, self._size = objective, bounds, size
        self._constraints = constraints

    def at(self, x: Tensor) -> Found:
        """The conditions at about where a solver stopped, and a point that meets them better."""
        with ad.no_grad():
            x = x.detach()
            held, multipliers = self._held(x)
            residual = self._residual(held)
            z = ad.cat([x, multipliers])
            if self._size <= _LARGE:
                z = _polished(residual, z)
        return Found(residual, z, held, self._size)

    def _lagrangian(self, v: Tensor, multipliers: Tensor) -> Tensor:
        value = self._objective(v)
        if self._constraints.size:
            value = value - multipliers @ self._constraints(v)
        return value

    def _residual(self, held: Held) -> Function:
        slope = grad(self._lagrangian)
        c = self._constraints

        def residual(z: Tensor) -> Tensor:
            v, multipliers = z[: self._size], z[self._size :]
            top: Tensor = slope(v, multipliers)
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
        gradient = grad(self._objective)(x)
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

    def __init__(self, residual: Function, z: Tensor, held: Held, size: int) -> None:
        self._residual, self._z, self._held, self._size = residual, z, held, size

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
            if not everywhere(met) and self._size <= _LARGE:
                step, info = ad.linalg.solve_ex(jacfwd(self._residual)(self._z), r)
                met = met | ((info == 0) & (norm(step) <= _MET * (1 + norm(self._z))))
            return everywhere(met)

    def active(self) -> Tensor:
        """The numbers of the elements that are at a bound; a mask under vmap."""
        mask = self._held.low | self._held.high
        return mask if is_batched(mask) else ad.nonzero(mask).flatten()

    def answer(self) -> Tensor:
        """The point, with its derivatives."""
        return answer(self._residual, self._z)[: self._size]


def _polished(residual: Function, z: Tensor) -> Tensor:
    """A few steps of Newton's method, as long as each is a gain."""
    size = norm(residual(z))
    for _ in range(_POLISHING):
        step, info = ad.linalg.solve_ex(jacfwd(residual)(z), residual(z))
        trial = z - step
        after = norm(residual(trial))
        good = (info == 0) & (after < size)
        if not somewhere(good):
            break
        z, size = ad.where(good, trial, z), ad.where(good, after, size)
    return z
