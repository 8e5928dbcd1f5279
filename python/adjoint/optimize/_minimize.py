"""``minimize``: SciPy's methods, handed exact derivatives; the answer is differentiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint._core import Tensor
from adjoint._evaluated import each_input_once
from adjoint._progress import CallsBar
from adjoint._samples import Arrays, batch_of, largest, somewhere
from adjoint.func import grad, jacfwd, jvp

from ._conditions import LARGE, NEAR, Conditions, Found, Held, Known
from ._constraints import Constraints, bounds_of, constraints_of
from ._given import Given, given_of
from ._inside import Inside, is_inside
from ._often import Often
from ._result import ConvergenceError, OptimizeResult
from ._scipy import Theirs, scipy_optimize
from ._unknowns import Unknowns, as_arguments

__all__ = ["minimize"]

# What SciPy's methods take; those that are not here need no derivatives.
_GRADIENT = {
    "cg",
    "bfgs",
    "newton-cg",
    "l-bfgs-b",
    "tnc",
    "slsqp",
    "dogleg",
    "trust-ncg",
    "trust-krylov",
    "trust-exact",
    "trust-constr",
}
_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}
_HESSIAN = {"dogleg", "trust-exact"}
_SCALED = {"l-bfgs-b", "slsqp", "tnc", "bfgs", "cg"}  # that can be run in other units
_DOUBTING = ("bfgs", "cg")  # that end at rounding, and call it a failure
_HOLDS = "The conditions of a minimum were checked, and hold."
_WRONG = 1e-4  # of a gradient: what is given is not it


@each_input_once
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | Callable[..., Any] | None = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find a minimum of a function; the answer is differentiable.

    The methods are those of `scipy.optimize.minimize`, with its names and defaults. They are handed
    exact gradients, and exact Hessians or products with them where they take these. A few steps of
    Newton's method on the conditions of a minimum then make the answer exact to rounding.

    The derivative is that of the answer, by the implicit function theorem on these conditions, with
    the bounds and constraints that hold with equality there; never through the solver's steps.

    Parameters
    ----------
    fun
        ``fun(x, *args)`` gives one number.
    x0
        Where to begin: a tensor, a number, or a structure of tensors.
    args
        Further arguments: a tuple, or one.
    method, tol, callback, options
        SciPy's; a method may be a callable, which SciPy calls with arrays. ``callback(x)`` gets the
        structure of ``x0``.
    jac, hess, hessp
        Not needed: derivatives are exact without them. Where they are given, in SciPy's forms, the
        search uses them: ``jac(x, *args)``, or True where ``fun`` gives ``(f, g)``, or
        ``"2-point"``, ``"3-point"``; ``hess(x, *args)``, or SciPy's `HessianUpdateStrategy`;
        ``hessp(x, p, *args)``. The derivative of the answer is that of ``fun`` all the same; of
        ``jac`` where ``fun`` is not made of adjoint's operations.
    hess
        Or how the derivative of the answer solves with the Hessian: ``"exact"`` (the whole
        matrix), ``"sparse"`` (by colours) or ``"products"`` (by MINRES); chosen where it is not
        given: beyond 2000 unknowns it is one of the last two.
    bounds
        ``(low, high)`` for all, or one pair for each number in order, None for no bound; or SciPy's
        `Bounds`. The numbers may be tensors: the answer is differentiable by them as well.
    constraints
        SciPy's dicts ``{"type": "eq" | "ineq", "fun": c}``, `NonlinearConstraint` or
        `LinearConstraint`, one or a list. Their limits may be tensors, too.

    Returns
    -------
    OptimizeResult
        ``x``, ``fun`` (both differentiable), ``jac``, ``success``, ``message``, ``nit``,
        ``nfev``, ``njev``, ``active``: the numbers of the elements of x that are at a bound. What
        else SciPy's method tells (``hess_inv``, ``nhev``, ``multipliers``, ...) is there as it is.

    Raises
    ------
    ConvergenceError
        If there is no answer; its ``result`` is how far the solver got.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor(3.0, dtype=ad.float64, requires_grad=True)
    >>> start = ad.zeros(2, dtype=ad.float64)
    >>> found = ad.optimize.minimize(lambda x: ((x - a) ** 2).sum() + x[0] * x[1], start)
    >>> found.x
    tensor([2., 2.], dtype=torch.float64, grad_fn=<...>)
    >>> found.x.sum().backward()
    >>> a.grad
    tensor(1.3333, dtype=torch.float64)
    """
    unknowns = Unknowns(x0, "minimize")
    arguments = as_arguments(args)

    given, slope = given_of(fun, jac, hess, hessp, unknowns, arguments, method)
    with_gradient, is_unseen = jac is True, slope is not None

    def objective(v: Tensor) -> Tensor:
        value = fun(unknowns.tree(v), *arguments)
        if with_gradient:
            value = value[0]
        if is_unseen:
            value = ad.as_tensor(value, dtype=v.dtype)
        if not isinstance(value, Tensor) or value.numel() != 1:
            shape = list(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"minimize(): fun must give one number as a tensor, got {shape}")
        return value.reshape(()).to(v.dtype)

    limits, under = bounds_of(bounds, unknowns), constraints_of(constraints, unknowns)
    if method is None:
        method = "SLSQP" if under.size else "L-BFGS-B" if limits else "BFGS"
    problem = Problem(objective, limits, under, unknowns, given, slope)
    how = hess if hess in ("exact", "sparse", "products") else None
    is_plain = callback is None and how is None and not is_unseen
    if is_inside() and is_plain and isinstance(method, str):
        inside = minimum_inside(problem, method, tol, options)
        if inside is not None:
            inside.x = unknowns.tree(inside.x)
            return inside
    result, found = minimum_of(_Run(problem, callback), method, tol, options, how)
    result.active = found.active()
    x = found.answer()
    result.x = unknowns.tree(x)
    if not is_unseen:
        result.fun = objective(x)  # with the history of the answer, and of what fun reads
    return result


class Problem(NamedTuple):
    """What is minimised, where; functions of the vector of the unknowns."""

    objective: Callable[[Tensor], Tensor]
    bounds: tuple[Tensor, Tensor] | None
    constraints: Constraints
    unknowns: Unknowns
    given: Given = Given()
    slope: Callable[[Tensor], Tensor] | None = None  # where objective has none


def minimum_of(
    run: _Run, method: Any, tol: float | None, options: Any, how: Any, known: Known | None = None
) -> tuple[OptimizeResult, Found]:
    """What SciPy's method found, and the minimum near it."""
    try:
        return _near_minimum(run, run.by_scipy(method, tol, options), method, how, known)
    except ConvergenceError:
        if _kind(method) not in _SCALED or not run.has_units():
            raise
        # SciPy's tolerances are for numbers of about one: once more, in units of the start.
        again = run.by_scipy(method, tol, options, True)
        return _near_minimum(run, again, method, how, known)


def _near_minimum(
    run: _Run, result: OptimizeResult, method: Any, how: Any, known: Known | None
) -> tuple[OptimizeResult, Found]:
    objective, limits, under, unknowns, _, slope = run.problem
    is_doubted = result.success and result.status != 0 and _kind(method) in _DOUBTING
    if not result.success:
        raise run.lost(method, result)
    with ad.no_grad():
        before = run.gradient(unknowns.start)
    for near in NEAR if limits or under.size else NEAR[:1]:
        start, gradient = unknowns.start, run.gradient
        of_minimum = Conditions(objective, limits, under, start, how, gradient, near, slope)
        found = of_minimum.at(result.x, known)
        if found.is_finite() and found.is_met(before):
            if found.is_saddle():
                raise _at_saddle(method, result)
            if is_doubted:
                result.status, result.message = 0, _HOLDS
            return result, found
    raise run.lost(method, result)


def minimum_inside(
    problem: Problem, method: str, tol: float | None, options: Any
) -> OptimizeResult | None:
    """The minimum as an instruction of the program that is recorded; None where it cannot be one.

    Counts are tensors then, and ``active`` is a mask.
    """
    objective, limits, under, unknowns, given, _ = problem
    start, kind, slope = unknowns.start, method.lower(), grad(objective)
    if not under.is_plain or unknowns.size > LARGE:
        return None
    kinds: list[Any] = [(objective, [start]), (slope, [start]), (jacfwd(slope), [start])]
    of_minimum = Conditions(objective, limits, under, start)
    has_products, newton = kind in _PRODUCTS | _HESSIAN, kind == "trust-constr"
    if has_products:
        kinds.append((_curvature(slope), [start, start]))
    if under.size:
        z = ad.cat([start, ad.zeros(under.size, dtype=start.dtype)])
        off, idle = ad.zeros_like(start, dtype=ad.bool), ad.zeros(under.size, dtype=ad.bool)
        like = [z, off, off, idle, idle]
        kinds += [(of_minimum.with_masks, like), (jacfwd(of_minimum.with_masks), like)]
        kinds += under.programs(start, newton)
    kinds += (own := given.programs(start))
    place = Inside(_with_constraints(objective, under), start, *(limits or ()))
    if not place.takes(kinds):
        return None

    def solve(functions: list[Any], operands: list[Tensor]) -> list[Tensor]:
        value, gradient, matrix, *more = functions
        used = given.recorded([more.pop() for _ in own][::-1])
        along = more.pop(0) if has_products else None
        at, *bounds = operands
        ends = (bounds[0], bounds[1]) if bounds else None
        held_by, known = under, Known(gradient, matrix, True)
        if under.size:
            known = known._replace(conditions=(more[0], more[1]))
            held_by = under.recorded(at, more[2:])
        here = Problem(value, ends, held_by, unknowns.moved(at), used)
        run = _Run(here, None, (value, gradient, along))
        result, found = minimum_of(run, method, tol, options, None, known)
        counts = ad.tensor([result.nit, result.nfev, result.njev])
        return [found.z, result.jac, counts, *found.held]

    z, gradient, counts, *masks = place.solved(solve, start, *(limits or ()))
    nit, nfev, njev = counts.unbind()
    low, high, *_ = masks
    x = of_minimum.answer_with(z, Held(*masks))
    return OptimizeResult(
        x=x,
        fun=objective(x),
        jac=gradient,
        success=True,
        status=0,
        message="converged",
        nit=nit,
        nfev=nfev,
        njev=njev,
        active=low | high,
    )


def _with_constraints(
    objective: Callable[[Tensor], Tensor], under: Constraints
) -> Callable[[Tensor], Tensor]:
    """A value that has the samples of both."""
    return lambda v: objective(v) + 0 * under(v).sum()


class _Run:
    """One run of a method of SciPy's, on all samples of a `vmap` as one problem."""

    def __init__(
        self, problem: Problem, callback: Any, programs: tuple[Any, ...] | None = None
    ) -> None:
        self.problem = problem
        objective, bounds, constraints, unknowns, given, slope = problem
        self._objective, self._bounds, self._constraints = objective, bounds, constraints
        self._unknowns, self._callback = unknowns, callback
        if programs is None:
            programs = (
                (Often(objective), Often(objective, grad), Often(objective, _curvature_of))
                if slope is None
                else (objective, slope, _curvature(slope))
            )
        self._often, self.gradient, self._along = programs
        self._given = given
        with ad.no_grad():
            values = objective(unknowns.start), *(bounds or ()), *constraints.values
        self._arrays = Arrays(batch_of(*values), unknowns.start.dtype)

    def has_units(self) -> bool:
        """Whether the start tells sizes other than one."""
        start = self._arrays.flat(self._unknowns.start)
        return bool(((start != 0) & (np.abs(start) != 1)).any())

    def by_scipy(
        self, method: Any, tol: float | None, options: Any, in_units: bool = False
    ) -> OptimizeResult:
        """The result, with ``x`` a vector; maybe found in units of the start."""
        kind = _kind(method)
        used = self._given
        objective = self._often if used.value is None else used.value
        gradient = used.jac if callable(used.jac) else self.gradient
        along = self._along if used.hessp is None else used.hessp
        arrays, flat = self._arrays, self._arrays.flat
        size, height = np.ones_like(flat(self._unknowns.start)), 1.0
        if in_units:
            with ad.no_grad():
                start = flat(self._unknowns.start)
                size = np.where(start != 0, np.abs(start), 1.0)
                height = float(np.abs(flat(gradient(self._unknowns.start)) * size).max()) or 1.0

        def each(v: Any) -> Tensor:
            return arrays.each(v * size if in_units else v)

        def value(v: Any) -> float:
            there = objective(each(v))
            return float(flat(there).sum() if arrays.shape else there) / height

        def slope(v: Any) -> Any:
            found = flat(gradient(each(v)))
            return found * (size / height) if in_units else found

        def product(v: Any, p: Any) -> Any:
            return flat(along(each(v), each(p)))

        def matrix(v: Any) -> Any:
            if callable(used.hess):
                return arrays.blocks(used.hess(each(v)))
            return np.stack([product(v, row) for row in np.eye(v.size)])

        given: dict[str, Any] = {}
        if kind in _GRADIENT or callable(method) or used.jac is not None:
            given["jac"] = used.jac if isinstance(used.jac, str) else slope
        if used.hess is not None or kind in _HESSIAN:
            given["hess"] = matrix if callable(used.hess) or used.hess is None else used.hess
        if used.hess is None and (kind in _PRODUCTS or used.hessp is not None):
            given["hessp"] = product
        if self._bounds is not None:
            given["bounds"] = scipy_optimize().Bounds(*(flat(b) / size for b in self._bounds))
        if self._constraints.size:
            made = self._constraints.for_scipy(arrays, kind == "trust-constr")
            given["constraints"] = [_in_units(c, size) for c in made] if in_units else made
        if self._callback is not None:
            given["callback"] = lambda v, *_: self._callback(self._unknowns.tree(each(v)))
        name, theirs = getattr(method, "__name__", method), Theirs()
        for key in ("jac", "hess", "hessp", "callback"):
            if callable(given.get(key)):
                given[key] = theirs.watching(given[key])
        with ad.no_grad(), CallsBar(f"minimize by {name}") as bar:
            start = flat(self._unknowns.start) / size
            counted = theirs.watching(bar.counting(value))
            try:
                found = scipy_optimize().minimize(
                    counted, start, method=method, tol=tol, options=options, **given
                )
            except Theirs.kinds as error:
                if callable(method) or not theirs.is_scipys(error):
                    raise
                raise self._ended(method, error) from error
            x = each(found.x)
            result = OptimizeResult(
                x=x,
                fun=self._objective(x).detach(),
                jac=self.gradient(x).detach(),
                success=bool(found.success),
                status=int(found.status),
                message=str(found.message),
                nit=int(found.get("nit", 0)),
                nfev=int(found.get("nfev", 0)),
                njev=int(found.get("njev", 0)),
            )
            if not (in_units or arrays.shape):  # else it is in other units than x
                result.update({k: v for k, v in found.items() if k not in result})
        # SciPy says "precision loss" where it is at the minimum to rounding, and where it is lost:
        # the conditions will tell.
        if kind in _DOUBTING and found.status == 2:
            result.success = True
        return result

    def _ended(self, method: Any, error: Exception) -> ConvergenceError:
        """That SciPy gave up with an error of its own; values are those at the start."""
        x = self._unknowns.start
        with ad.no_grad():
            fun, jac = self._objective(x).detach(), self.gradient(x).detach()
        said = f"it ended in {type(error).__name__} ({error})."
        return self.lost(method, OptimizeResult(x=x, fun=fun, jac=jac, message=said, nit=0))

    def lost(self, method: Any, result: OptimizeResult) -> ConvergenceError:
        """That there is no minimum, and what may be the reason."""
        result.success = False
        name = getattr(method, "__name__", method)
        return ConvergenceError(
            f"minimize() by {name} found no minimum: {result.message} After {result.nit} steps fun "
            f"is {largest(result.fun)}, and its gradient up to {largest(result.jac)}."
            f"{self._doubt()}\n"
            "  fix: begin nearer to it (x0), allow more steps (options={'maxiter': ...}), scale "
            "the unknowns to about one size, or try another method",
            result,
        )

    def _doubt(self) -> str:
        """That the gradient that was given is another function's, if it is so at the start."""
        if not callable(self._given.jac) or self.problem.slope is not None:
            return ""
        with ad.no_grad():
            start = self._unknowns.start
            exact = self.gradient(start)
            off, size = (exact - self._given.jac(start)).abs().max(), exact.abs().max()
        if not somewhere(off > _WRONG * size):
            return ""
        return f" jac is not the gradient of fun: at x0 it is off by {largest(off)}."


def _in_units(constraint: dict[str, Any], size: Any) -> dict[str, Any]:
    """A constraint on unknowns that are counted in units of some sizes."""
    fun, jac = constraint["fun"], constraint["jac"]
    return {**constraint, "fun": lambda v: fun(v * size), "jac": lambda v: jac(v * size) * size}


def _curvature(slope: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """The products of the derivative of a gradient with vectors."""

    def along(v: Tensor, p: Tensor) -> Tensor:
        product: Tensor = jvp(slope, (v,), (p,))[1]
        return product

    return along


def _curvature_of(objective: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    return _curvature(grad(objective))


def _at_saddle(method: Any, result: OptimizeResult) -> ConvergenceError:
    result.success = False
    return ConvergenceError(
        f"minimize() by {getattr(method, '__name__', method)} stopped at a saddle: the gradient is "
        "zero there, but the second derivative is negative in some direction, so that fun falls "
        "further.\n  fix: begin elsewhere (x0), or a little beside it",
        result,
    )


def _kind(method: Any) -> str:
    return "" if callable(method) else str(method).lower()
