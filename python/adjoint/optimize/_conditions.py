"""The conditions of a minimum, and its derivative by them.

At a minimum the gradient is zero in the free directions: elements at a bound that holds them are
that bound, and constraints that hold with equality have multipliers, so that the gradient of the
Lagrangian is zero (Karush, Kuhn and Tucker). Which bounds and constraints hold is looked up at the
answer; they are the residual whose implicit derivative the answer has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import everywhere, has_tangent, is_batched, somewhere
from adjoint.func import grad, jacfwd

from ._choice import linear_for
from ._constraints import Constraints
from ._implicit import answer
from ._iteration import norm
from ._large import Large
from ._linear import Dense, Linear
from ._often import NEVER, Lately, Often
from ._opened import Parts
from ._result import ConvergenceError

__all__ = ["LARGE", "NEAR", "Conditions", "Found", "Held", "Known"]

_POLISHING = 30  # steps of Newton's method after the solver, at most: one or two are usual
_OF_PRODUCTS = 4  # the same, where each is a loop of its own
LARGE = 512  # unknowns: beyond, the answer is as exact as the solver left it
_MET = 1e-3  # a step of Newton's method so long, relative to each unknown, leads to the answer
_MUCH = 1e-3  # of a step: if more is left after it, the next has a matrix of its own
# So near to a bound, relative to its size, an element is at it; some methods end further inside.
NEAR = (1e-6, 1e-4, 1e-2)
_ROUNDS = 8  # of looking which bounds and constraints hold
_GAIN = 0.5  # what is left to go after a step that leads somewhere
_FALLS = 1e-6  # of a second derivative in the units of its unknowns: below, it counts as flat
_RANK = 1e-10  # of a matrix in the units of its unknowns: what is below counts as zero


Function = Callable[[Tensor], Tensor]


class Held(NamedTuple):
    """Masks: elements at their bounds, and constraints that hold with equality, at which end."""

    low: Tensor
    high: Tensor
    active_low: Tensor
    active_high: Tensor

    def fixed(self, step: Tensor, r: Tensor) -> Tensor:
        """A step that leads elements at a bound just there, and idle multipliers to zero.

        What a solve with the whole matrix leaves of rounding in them would count as much as what
        it does to the others: nothing else tells the unit of an element that is zero.
        """
        idle = ~(self.active_low | self.active_high)
        return ad.where(ad.cat([self.low | self.high, idle]), r, step)


class Known(NamedTuple):
    """Of an objective: its gradient, and nearly its second derivative, for less than these cost."""

    slope: Function
    curvature: Function
    is_exact: bool = False  # the second derivative, too
    enough: float = 0.0  # a step so long, relative to each unknown, is not worth making
    # Of a problem with constraints: the conditions of z where masks hold, and their derivative.
    conditions: tuple[Callable[..., Tensor], Callable[..., Tensor]] | None = None


class Conditions(Parts):
    """Of a minimum of an objective between bounds, under constraints."""

    _parts = ("_objective", "_given", "_bounds", "_constraints", "_size", "_known")

    def __init__(
        self,
        objective: Function,
        bounds: tuple[Tensor, Tensor] | None,
        constraints: Constraints,
        start: Tensor,
        how: Any = None,
        gradient: Function | None = None,
        near: float = NEAR[0],
        given: Function | None = None,
    ) -> None:
        self._how, self._relative = how, near
        self._given = given  # the gradient, where derivatives cannot see into the objective
        self._gradient = (given or grad(objective)) if gradient is None else gradient
        self._objective, self._bounds, self._size = objective, bounds, start.numel()
        self._start = start.detach()
        self._constraints = constraints
        self._known: Known | None = None
        self._second: Function | None = None  # derivative of the objective
        self._often: Often | None = None  # the residual, where recordings can stand for it

    def at(self, x: Tensor, known: Known | None = None) -> Found:
        """The conditions at about where a solver stopped, and a point that meets them better.

        What is ``known`` of the objective does as long as nothing is differentiated.
        """
        if (
            known is not None
            and known.conditions is None
            and (self._constraints.size or self.is_differentiated(x.detach()))
        ):
            known = None
        self._known = known
        with ad.no_grad():
            x = x.detach()
            held, multipliers = self._held(x)
            for _ in range(_ROUNDS):
                residual = self._residual(held)
                z, linear = self._improved(residual, held, ad.cat([x, multipliers]))
                x, before = self._clipped(z[: self._size]), held
                inside = self._is_inside(z[: self._size])
                if self._bounds is None and not self._constraints.size:
                    break
                held, multipliers = self._held(x)
                if everywhere(inside) and _is_same(held, before):
                    break
        sizes = self._sizes(z[: self._size])
        return Found(residual, z, before, sizes, linear, inside, known is None, self._often)

    def answer_at(self, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """A minimum that is known, with its derivatives; masks say what is at a bound."""
        none = self._constraints.low != self._constraints.low
        return self.answer_with(x, Held(low, high, none, none))

    def answer_with(self, z: Tensor, held: Held) -> Tensor:
        """The same where multipliers follow the unknowns."""
        return answer(self._residual(held), z, Dense())[: self._size]

    def with_masks(self, z: Tensor, *masks: Tensor) -> Tensor:
        """The conditions as a function of what holds, too."""
        return self._residual(Held(*masks))(z)

    def _improved(self, residual: Function, held: Held, z: Tensor) -> tuple[Tensor, Linear]:
        """A point that meets the conditions better, and how to solve with their derivative."""
        linear = linear_for("minimize", residual, z, self._how, not self._constraints.size)
        if isinstance(linear, Large):
            return _polished_by_products(residual, z, linear, held.fixed), linear
        if self._size > LARGE:
            return z, linear
        value, most = None if self._constraints.size else self._objective, _POLISHING
        enough = 0.0
        if self._known is not None and self._known.conditions is not None:
            derivative = self._known.conditions[1]
            linear = Dense(lambda z: derivative(z, *held))
        elif self._known is not None:
            # Each step costs as much as one of the solver's, and gains a digit or two: they end
            # where the tolerance is met.
            linear = self._nearly(held, self._known.curvature)
            enough = self._known.enough
            if not self._known.is_exact:
                value = None
        elif isinstance(linear, Dense):
            linear, self._often = Dense(_matrix(residual)), Often(residual, calls=NEVER)
            residual = Lately(self._often)
        sizes = self._sizes(z[: self._size])
        return _polished(residual, z, linear, held.fixed, sizes, value, most, enough), linear

    def _sizes(self, x: Tensor) -> Tensor:
        """How large each unknown is: at the start, or here. Nothing else tells its unit."""
        return ad.maximum(x.abs(), self._start.abs())

    def _clipped(self, x: Tensor) -> Tensor:
        return x if self._bounds is None else x.clamp(*(b.detach() for b in self._bounds))

    def _near(self, x: Tensor) -> Tensor:
        """The distance from a bound at which an element is at it."""
        near = self._sizes(x)
        if self._bounds is not None:
            near = ad.minimum(near, self._bounds[1].detach() - self._bounds[0].detach())
        return self._relative * near

    def _at_bounds(self, x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Which elements are at their bounds, as far as their distance tells."""
        assert self._bounds is not None
        near, (least, most) = self._near(x), (b.detach() for b in self._bounds)
        low, high = x <= least + near, x >= most - near
        # An element that began at its bound has no unit there. It has not left it, if the gradient
        # presses it there by far more than its distance can change it.
        from_low = (self._start <= least) & ~low & (gradient > 0)
        from_high = (self._start >= most) & ~high & (gradient < 0)
        if self._size > LARGE or not somewhere(from_low | from_high):
            return low, high
        bend = self._bend(x)
        low = low | (from_low & ((x - least) * bend <= self._relative * gradient))
        high = high | (from_high & ((most - x) * bend <= -self._relative * gradient))
        return low, high

    def _bend(self, x: Tensor) -> Tensor:
        """The diagonal of the second derivative of the objective, without signs."""
        known = self._known
        if self._second is None:
            slope, objective = self._given, self._objective
            often = Often(objective, _hessian, NEVER) if slope is None else jacfwd(slope)
            self._second = Lately(often)
        return ad.diagonal(self._second(x) if known is None else known.curvature(x)).abs()

    def _close(self, x: Tensor, value: Tensor, slope: Tensor) -> Tensor:
        """The same for the constraints: relative to what they are made of."""
        return self._relative * ad.maximum(value.abs(), slope.abs() @ self._sizes(x))

    def _is_inside(self, x: Tensor) -> Tensor:
        """Whether bounds and constraints are kept."""
        kept = ((self._clipped(x) - x).abs() <= self._near(x)).all()
        c = self._constraints
        if c.size:
            value = c.here(x)
            close = self._close(x, value, c.slopes(x))
            kept = kept & ((value >= c.low - close) & (value <= c.high + close)).all()
        return kept

    def _nearly(self, held: Held, curvature: Function) -> Linear:
        """Nearly the derivative of the residual, by that of the objective."""
        at_bound = (held.low | held.high)[:, None]
        return Dense(lambda z: ad.where(at_bound, ad.eye(self._size, dtype=z.dtype), curvature(z)))

    def is_differentiated(self, x: Tensor) -> bool:
        """Whether something that the problem reads has a gradient or a tangent."""

        def look() -> bool:
            bounds = () if self._bounds is None else self._bounds
            parts = [(self._given or self._objective)(x), *bounds, self._constraints(x)]
            return any(t.requires_grad or has_tangent(t) for t in parts)

        found: bool = ad._core._unrecorded(look)
        return found

    def _slope(self, v: Tensor, multipliers: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient of the Lagrangian, and the values of the constraints."""
        if self._known is not None:
            return self._known.slope(v), multipliers
        given = self._given
        if not self._constraints.size:
            slope: Tensor = (given or grad(self._objective))(v)
            return slope, multipliers

        def lagrangian(v: Tensor) -> tuple[Tensor, Tensor]:
            value = self._constraints(v)
            objective = self._objective(v) if given is None else 0.0
            return objective - multipliers @ value, value

        found: tuple[Tensor, Tensor] = grad(lagrangian, has_aux=True)(v)
        return found if given is None else (given(v) + found[0], found[1])

    def _residual(self, held: Held) -> Function:
        c = self._constraints
        if self._known is not None and self._known.conditions is not None:
            recorded = self._known.conditions[0]
            return lambda z: recorded(z, *held)

        def residual(z: Tensor) -> Tensor:
            v, multipliers = z[: self._size], z[self._size :]
            top, value = self._slope(v, multipliers)
            if self._bounds is not None:
                for mask, bound in ((held.low, self._bounds[0]), (held.high, self._bounds[1])):
                    top = ad.where(mask, v - ad.where(mask, bound, 0.0), top)
            if not c.size:
                return top
            target = ad.where(held.active_low, c.low, ad.where(held.active_high, c.high, 0.0))
            active = held.active_low | held.active_high
            return ad.cat([top, ad.where(active, value - target, multipliers)])

        return residual

    def _held(self, x: Tensor) -> tuple[Held, Tensor]:
        """Which bounds and constraints hold the answer, and the multipliers of the latter."""
        c = self._constraints
        known = self._known
        gradient = self._gradient(x) if known is None else known.slope(x)
        low = high = ad.zeros_like(x, dtype=ad.bool)
        if self._bounds is not None:
            low, high = self._at_bounds(x, gradient)
        none = c.low != c.low
        active_low = active_high = none
        multipliers = ad.zeros_like(c.low)
        if c.size:
            value, slope = c.here(x), c.slopes(x)
            close, sizes = self._close(x, value, slope), self._sizes(x)
            equal = c.low == c.high
            active_low, active_high = (
                equal | (value <= c.low + close),
                ~equal & (value >= c.high - close),
            )
            # Those that are broken are to hold, whatever the gradient says there.
            below, above = value < c.low - close, value > c.high + close
        for _ in range(2):  # as found; then without those that push the wrong way
            before = Held(low, high, active_low, active_high)
            if c.size:
                free = (~(low | high)).to(x.dtype)
                active = (active_low | active_high).to(x.dtype)
                rows = slope * active[:, None] * free
                multipliers = ad.linalg.pinv((rows * sizes).mT) @ (gradient * free * sizes)
                active_low = equal | below | (active_low & (multipliers > 0))
                active_high = above | (active_high & (multipliers < 0))
                multipliers = ad.where(active_low | active_high, multipliers, 0.0)
            pull = gradient - (multipliers @ slope if c.size else 0.0)
            low, high = low & (pull > 0), high & (pull < 0)
            if _is_same(before, Held(low, high, active_low, active_high)):
                break
        return Held(low, high, active_low, active_high), multipliers


def _hessian(objective: Function) -> Function:
    made: Function = jacfwd(grad(objective))
    return made


def _matrix(residual: Function) -> Function:
    """The derivative of a residual: by recordings where its value is all that is asked for."""
    recorded, plain = Lately(Often(residual, jacfwd, NEVER)), jacfwd(residual)
    return lambda z: (plain if ad.is_grad_enabled() else recorded)(z)


class Found:
    """A point and the conditions that are to hold there."""

    def __init__(
        self,
        residual: Function,
        z: Tensor,
        held: Held,
        sizes: Tensor,
        linear: Linear,
        inside: Tensor,
        is_differentiated: bool = True,
        often: Often | None = None,
    ) -> None:
        self._residual, self._z, self._sizes = residual, z, sizes
        self.held, self._often = held, often
        self._linear, self._is_differentiated = linear, is_differentiated
        self._inside, self._size = inside, sizes.numel()
        self._units = ad.where(sizes > 0, sizes, 1.0)

    @property
    def z(self) -> Tensor:
        """The point and the multipliers of constraints, without history."""
        return self._z.detach()

    @property
    def x(self) -> Tensor:
        """The point, without history."""
        return self._z[: self._size].detach()

    def is_finite(self) -> bool:
        """Whether it is a point at all."""
        return everywhere(ad.isfinite(self._z))

    def is_met(self, before: Tensor) -> bool:
        """Whether the conditions hold to a few digits; ``before`` is the gradient at the start.

        Newton's step from here says how far the answer is, in the unit of each unknown. Where
        there is none, as where the objective is flat or the problem is large, the gradient must
        have become small: what its unknowns can change by it, of what they could at the start.
        """
        with ad.no_grad():
            r = (self._often or self._residual)(self._z)
            met = self._inside
            if self._size > LARGE and not isinstance(self._linear, Large):
                return everywhere(met & (self._is_flat(r, before) | self._is_near(r, before)))
            return everywhere(met & (self._is_near(r, before) | self._is_flat(r, before)))

    def is_saddle(self) -> bool:
        """Whether the objective falls from here in some direction that is free."""
        if self._z.numel() > self._size or not isinstance(self._linear, Dense):
            return False  # constraints bend what is free; large matrices are not written down
        if self._size > LARGE:
            return False
        with ad.no_grad():
            matrix = self._linear.matrix(self._residual, self._z)
            free = (~(self.held.low | self.held.high)).to(matrix.dtype) * self._units
            matrix = matrix * free * free[:, None]
            floor = _FALLS * matrix.abs().max() + ad.finfo(matrix.dtype).tiny
            _, info = ad.linalg.cholesky_ex(matrix + floor * ad.eye(self._size, dtype=matrix.dtype))
        return somewhere(info != 0)

    def _is_flat(self, r: Tensor, before: Tensor) -> Tensor:
        at_bound = self.held.low | self.held.high
        gain = ad.where(at_bound, 0.0, r[: self._size] * self._units).abs().max()
        most = (before * self._units).abs().max()
        return (gain <= _MET * 1e-2 * most) & ad.isfinite(most)

    def _is_near(self, r: Tensor, before: Tensor) -> Tensor:
        try:
            step, solved = self._linear.newton_step(self._residual, self._z, r)
            step = self.held.fixed(step, r)
        except ConvergenceError:
            return ad.zeros((), dtype=ad.bool)
        met = solved & self._is_short(step)
        if everywhere(met) or isinstance(self._linear, Large) or self._z.numel() > self._size:
            return met
        # Directions in which the objective is flat have no step.
        matrix, right = self._linear.matrix(self._residual, self._z), r * self._units
        matrix = matrix * self._units * self._units[:, None]
        if not everywhere(ad.isfinite(matrix) & ad.isfinite(right)):
            return met & False
        shortest = ad.linalg.pinv(matrix, rtol=_RANK) @ right
        left = (right - matrix @ shortest).abs().max()
        # Else it goes on forever; or a gradient that has grown without bound hides the others.
        most = ad.minimum(right.abs().max(), (before * self._units).abs().max())
        solved = left <= _GAIN * most
        return met | (solved & self._is_short(shortest * self._units))

    def _is_short(self, step: Tensor) -> Tensor:
        return (step[: self._size].abs() <= _MET * self._sizes).all()

    def active(self) -> Tensor:
        """The numbers of the elements that are at a bound; a mask under vmap."""
        mask = self.held.low | self.held.high
        return mask if is_batched(mask) else ad.nonzero(mask).flatten()

    def active_mask(self) -> Tensor:
        """SciPy's: -1 where the lower bound holds an element, 1 where the upper one does."""
        return self.held.high.int() - self.held.low.int()

    def answer(self) -> Tensor:
        """The point, with its derivatives."""
        if not self._is_differentiated:
            return self.x
        return answer(self._residual, self._z, self._linear, self._often)[: self._size]


def _is_same(held: Held, other: Held) -> bool:
    return all(everywhere(a == b) for a, b in zip(held, other, strict=True))


def _polished(
    residual: Function,
    z: Tensor,
    linear: Linear,
    fixed: Callable[[Tensor, Tensor], Tensor],
    sizes: Tensor,
    value: Function | None,
    most: int,
    enough: float = 0.0,
) -> Tensor:
    """Steps of Newton's method, as long as each leaves less to go, and no more of ``value``.

    What is left to go is the next step with the same matrix, in the unit of each unknown: neither
    the units nor how equations are scaled matter to that. So near to the answer the same factors
    serve for several steps.
    """
    eps, factored = ad.finfo(z.dtype).eps, None
    for _ in range(most):
        if factored is None:
            factored = linear.factored(residual, z)
            if factored is None:
                return _polished_by_products(residual, z, linear, fixed)
            solve, solved = factored
            r = residual(z)
            step = fixed(solve(r), r)
        unit = ad.maximum(z.abs(), step.abs())
        unit = ad.maximum(unit, ad.cat([sizes, ad.zeros_like(z[sizes.numel() :])]))
        unit = ad.where(unit > 0, unit, 1.0)
        here = norm(step / unit)
        if enough and everywhere(solved & (here <= enough)):
            break
        trial = z - step
        r = residual(trial)
        further = fixed(solve(r), r)
        left = norm(further / unit)
        good = solved & (left <= _GAIN * here)
        if value is not None:
            now = value(z)
            good = good & (value(trial) <= now + 64 * eps * now.abs())
        if not somewhere(good):
            break
        z = ad.where(good, trial, z)
        if not somewhere(good & (left > eps)):
            break
        step = ad.where(good, further, step)
        if somewhere(good & (left > _MUCH * here)):
            factored = None
    return z


def _polished_by_products(
    residual: Function, z: Tensor, linear: Linear, fixed: Callable[[Tensor, Tensor], Tensor]
) -> Tensor:
    """A few steps of Newton's method, as long as each is a gain."""
    size = norm(residual(z))
    for _ in range(_OF_PRODUCTS):
        try:
            r = residual(z)
            step, solved = linear.newton_step(residual, z, r)
            step = fixed(step, r)
        except ConvergenceError:  # of the products: then it stays as exact as the solver left it
            break
        trial = z - step
        after = norm(residual(trial))
        good = solved & (after < size)
        if not somewhere(good):
            break
        z, size = ad.where(good, trial, z), ad.where(good, after, size)
    return z
