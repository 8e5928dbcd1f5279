"""``root_scalar`` and ``minimize_scalar``: one unknown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._plain import refuse_structures
from adjoint._progress import CallsBar
from adjoint._samples import Arrays, batch_of, everywhere, is_batched, largest, somewhere
from adjoint.func import grad, jacfwd

from ._conditions import Conditions, Found, Known
from ._constraints import bounds_of, constraints_of
from ._implicit import answer
from ._inside import Inside, is_inside
from ._linear import Dense
from ._result import ConvergenceError, OptimizeResult
from ._scipy import scipy_optimize
from ._solver import Solver
from ._unknowns import Unknowns, as_arguments

__all__ = ["minimize_scalar", "root_scalar", "scalar_root"]

Function = Callable[[Tensor], Tensor]

_BRACKETS = ("bisect", "brentq", "brenth", "ridder", "toms748")
_POINTS = ("newton", "secant", "halley")


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find where a function of one number is zero; the answer is differentiable. See `root`.

    Parameters
    ----------
    f
        ``f(x, *args)`` gives one number.
    method
        ``"brentq"`` and SciPy's other names of methods with a bracket are all one method here, that
        of Chandrupatla; ``"newton"``, ``"secant"`` and ``"halley"`` are Newton's method from
        ``x0``.
    bracket
        Two numbers where ``f`` has different signs.
    fprime, fprime2
        Not needed: derivatives are exact. True says that ``f`` gives them after its value.
    x0, x1
        Where to begin without a bracket.

    Returns
    -------
    OptimizeResult
        ``root``, ``converged``, ``flag``, ``iterations``, ``function_calls``.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    >>> found = ad.optimize.root_scalar(lambda x: x**3 - a, bracket=(0, 2))
    >>> found.root.backward()
    >>> a.grad  # 1 / (3 a^(2/3))
    tensor(0.2100, dtype=torch.float64)
    """
    if method is None:
        method = "brentq" if bracket is not None else "newton"
    if method not in (*_BRACKETS, *_POINTS):
        raise ValueError(
            f"root_scalar(): method is one of {', '.join((*_BRACKETS, *_POINTS))}; got {method!r}"
        )
    if fprime is True or fprime2 is True:  # f gives them as well
        with_slopes = f

        def f(x: Any, *rest: Any) -> Any:
            found = with_slopes(x, *rest)
            return found[0] if isinstance(found, (tuple, list)) else found

    by_bracket = method in _BRACKETS
    return scalar_root(
        "root_scalar", f, args, method, bracket if by_bracket else x0, xtol, maxiter, options
    )


def scalar_root(
    name: str,
    f: Callable[..., Any],
    args: Any,
    method: str,
    begin: Any,
    xtol: float | None,
    maxiter: int | None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """`root_scalar` for a method that there is; ``begin`` is a bracket, or where to begin.

    ``name`` is that of the function that was called: errors begin with it.
    """
    by_bracket = method in _BRACKETS
    if begin is None:
        raise ValueError(f"{name}(): method {method!r} needs {'a bracket' if by_bracket else 'x0'}")
    refuse_structures(name, begin)
    unknowns = Unknowns(_float(begin[0] if by_bracket else begin), name)
    residual = unknowns.function(f, as_arguments(args), "the value of f")
    if by_bracket:
        end = Unknowns(_float(begin[1]), name).start
        most = 200 if maxiter is None else maxiter
        x, steps = _in_bracket(name, residual, unknowns.start, end, xtol, most)
        calls = steps + 2
    else:
        given = {**(options or {}), **({} if maxiter is None else {"maxiter": maxiter})}
        solver = Solver(name, residual, Dense(), xtol, None, given)
        found = solver.by_name(unknowns.start, "newton")
        x, steps, calls = found.x, found.nit, found.nfev
    return OptimizeResult(
        root=unknowns.tree(answer(residual, x)),
        converged=True,
        flag="converged",
        iterations=steps,
        function_calls=calls,
        method=method,
    )


def _float(x: Any) -> Any:
    return x.detach() if isinstance(x, Tensor) else float(x)


def _in_bracket(
    name: str, f: Function, a: Tensor, b: Tensor, xtol: float | None, most: int
) -> tuple[Tensor, Any]:
    """The root, and how many steps there were: inside a recording one instruction, and a tensor."""
    place = Inside(f, a, b) if is_inside() else None
    if place is None or not place.takes([(f, [a])]):
        return _bracketed(name, f, a, b, xtol, most)

    def solve(functions: list[Any], operands: list[Tensor]) -> list[Tensor]:
        x, steps = _bracketed(name, functions[0], operands[0], operands[1], xtol, most)
        return [x, ad.tensor(steps)]

    x, steps = place.solved(solve, a, b)
    return x, steps


def _bracketed(
    name: str, f: Function, a: Tensor, b: Tensor, xtol: float | None, most: int
) -> tuple[Tensor, int]:
    """Chandrupatla's method: inverse quadratic steps where they can be trusted, else halves."""
    eps = ad.finfo(a.dtype).eps
    with ad.no_grad(), CallsBar(name) as bar:
        f = bar.counting(f)
        fa, fb = f(a), f(b)
        a, b = a + 0 * fa, b + 0 * fb
        if not everywhere(ad.isfinite(fa) & ad.isfinite(fb)):
            raise ValueError(
                f"{name}(): f is not finite at the ends of the bracket{_pair(fa, fb)}\n"
                "  fix: a bracket inside of what f is defined on"
            )
        if somewhere(fa * fb > 0):
            raise ValueError(
                f"{name}(): f has the same sign at both ends of the bracket{_pair(fa, fb)}\n"
                "  fix: a bracket with a change of sign between its ends; a root that f touches "
                "without crossing has none, and no derivative"
            )
        begun = ad.maximum(fa.abs(), fb.abs())
        c, fc, t = a, fa, ad.full_like(a, 0.5)
        for step in range(most):
            x = a + t * (b - a)
            fx = f(x)
            same = ad.sign(fx) == ad.sign(fa)
            b, fb, c, fc = (
                ad.where(same, b, a),
                ad.where(same, fb, fa),
                ad.where(same, a, b),
                ad.where(same, fa, fb),
            )
            a, fa = x, fx
            best = ad.where(fa.abs() < fb.abs(), a, b)
            least = ad.minimum(fa.abs(), fb.abs())
            near = (xtol or 0.0) + 2 * eps * best.abs() + 1e-300
            width = near / (b - a).abs().clamp(min=1e-300)
            if everywhere((width > 0.5) | (least == 0)):
                if somewhere(least > begun):  # nothing that is continuous grows towards its root
                    raise ConvergenceError(
                        f"{name}() found a pole where f changes its sign, and no root: f is "
                        f"{largest(least)} at {largest(best)}, more than at the ends of the "
                        "bracket\n  fix: a bracket without the pole",
                        OptimizeResult(root=best, converged=False, iterations=step + 1),
                    )
                return best, step + 1
            xi, phi = (a - b) / _nonzero(c - b), (fa - fb) / _nonzero(fc - fb)
            trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            quadratic = fa / _nonzero(fb - fa) * fc / _nonzero(fb - fc) + (c - a) / _nonzero(
                b - a
            ) * fa / _nonzero(fc - fa) * fb / _nonzero(fc - fb)
            t = ad.where(trusted, quadratic, 0.5)
            t = ad.where(ad.isfinite(t), t, 0.5).maximum(width).minimum(1 - width)
    raise ConvergenceError(
        f"{name}() found no root in {most} steps: f is {largest(fa)} at {largest(best)}\n"
        "  fix: a tolerance (xtol=) where f is flat at its root, a narrower bracket, or more steps "
        "(maxiter=)",
        OptimizeResult(root=best, converged=False, iterations=most),
    )


def _pair(fa: Tensor, fb: Tensor) -> str:
    return "" if is_batched(fa, fb) else f": {float(fa):.3g} and {float(fb):.3g}"


def _nonzero(x: Tensor) -> Tensor:
    return ad.where(x == 0, 1.0, x)


def minimize_scalar(
    fun: Callable[..., Any],
    bracket: Any = None,
    bounds: Any = None,
    args: Any = (),
    method: str | None = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find a minimum of a function of one number; the answer is differentiable. See `minimize`.

    Parameters
    ----------
    fun
        ``fun(x, *args)`` gives one number.
    bracket, bounds, method, tol, options
        Those of `scipy.optimize.minimize_scalar`; bounds may be tensors, and have gradients.

    Returns
    -------
    OptimizeResult
        ``x``, ``fun``, ``nit``, ``nfev``, ``success``, ``message``.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor(3.0, dtype=ad.float64, requires_grad=True)
    >>> found = ad.optimize.minimize_scalar(lambda x: (x - a) ** 2 + x**2)
    >>> found.x.backward()
    >>> a.grad
    tensor(0.5000, dtype=torch.float64)
    """
    arguments = as_arguments(args)
    refuse_structures("minimize_scalar", bracket or (), bounds or ())
    unknowns = Unknowns(0.0, "minimize_scalar")

    def objective(v: Tensor) -> Tensor:
        return ad.as_tensor(fun(unknowns.tree(v), *arguments)).reshape(()).to(v.dtype)

    limits = bounds_of([tuple(bounds)] if bounds is not None else None, unknowns)
    settings = {"bracket": bracket, "method": method, "tol": tol, "options": options}
    if is_inside():
        inside = _minimum_inside(objective, limits, unknowns, settings)
        if inside is not None:
            return inside
    found, counts = _minimum(objective, limits, unknowns, settings)
    x = found.answer()
    return _minimum_result(unknowns.tree(x), objective(x), *counts)


def _minimum_result(x: Any, value: Tensor, nit: Any, nfev: Any) -> OptimizeResult:
    return OptimizeResult(x=x, fun=value, success=True, message="converged", nit=nit, nfev=nfev)


def _minimum(
    objective: Function,
    limits: tuple[Tensor, Tensor] | None,
    unknowns: Unknowns,
    settings: dict[str, Any],
    known: Known | None = None,
) -> tuple[Found, tuple[int, int]]:
    """The minimum of each sample, and how many steps and evaluations they took."""
    with ad.no_grad(), CallsBar("minimize_scalar") as bar:
        batch = batch_of(objective(unknowns.start), *(limits or ()))
        arrays = Arrays(batch, ad.float64)
        ends = None if limits is None else [arrays.flat(end) for end in limits]
        best, nit, nfev = [], 0, 0
        for k in range(arrays.samples):

            def value(x: float, k: int = k) -> float:
                at = ad.tensor([float(x)], dtype=ad.float64)
                return float(arrays.flat(objective(at))[k])

            pair = None if ends is None else (float(ends[0][k]), float(ends[1][k]))
            x, found = _searched(bar.counting(value), pair, settings)
            best.append(x)
            nit, nfev = nit + int(found.get("nit", 0)), nfev + int(found.get("nfev", 0))
        start = arrays.each(best)
    none = constraints_of((), unknowns)
    point = Conditions(objective, limits, none, start).at(start, known)
    slope = grad(objective) if known is None else known.slope
    with ad.no_grad():
        before = ad.cat([slope(x) for x in _begun(limits, settings["bracket"])]).abs()
        before = ad.where(ad.isfinite(before), before, 0.0).max()
    if not (point.is_finite() and point.is_met(before)):
        raise ConvergenceError(
            "minimize_scalar() found no minimum: the derivative is not zero at "
            f"{largest(start)}\n{_FIX}",
            OptimizeResult(x=start, success=False, message="the derivative is not zero"),
        )
    return point, (nit, nfev)


def _begun(limits: tuple[Tensor, Tensor] | None, bracket: Any) -> list[Tensor]:
    """Where the search begins; SciPy's bracket is from 0 to 1."""
    if limits is not None:
        low, high = (end.detach() for end in limits)
        return [low + 0.382 * (high - low)]
    ends = (0.0, 1.0) if bracket is None else bracket
    return [ad.tensor([float(end)], dtype=ad.float64) for end in ends]


_FIX = (
    "  fix: a bracket (low, inner, high) whose inner value is the least, or bounds=, inside of "
    "what fun is defined on"
)


def _searched(
    value: Callable[[float], float], bounds: tuple[float, float] | None, settings: dict[str, Any]
) -> tuple[float, Any]:
    """SciPy's minimum of one sample."""
    if bounds is not None and settings["tol"] is None:
        # SciPy's tolerance is a number, whatever the unit of x.
        width = abs(bounds[1] - bounds[0])
        xatol = 1e-5 * min(1.0, width if math.isfinite(width) else 1.0)
        settings = {**settings, "options": {"xatol": xatol, **(settings["options"] or {})}}
    found = scipy_optimize().minimize_scalar(value, bounds=bounds, **settings)
    if not found.success:
        raise ConvergenceError(
            f"minimize_scalar() found no minimum: {found.get('message', 'it did not converge')} "
            f"It stopped at {float(found.x):.6g}, where fun is {float(found.fun):.6g}.\n{_FIX}",
            OptimizeResult(x=found.x, success=False, message=str(found.get("message", ""))),
        )
    best = float(found.x)
    for end in bounds or ():  # SciPy's method comes near, but never there
        if math.isfinite(end) and value(end) <= value(best):
            best = float(end)
    return best, found


def _minimum_inside(
    objective: Function,
    limits: tuple[Tensor, Tensor] | None,
    unknowns: Unknowns,
    settings: dict[str, Any],
) -> OptimizeResult | None:
    """The minimum as an instruction of the program that is recorded; None where it cannot be."""
    start, slope = unknowns.start, grad(objective)
    place = Inside(objective, start, *(limits or ()))
    if not place.takes([(f, [start]) for f in (objective, slope, jacfwd(slope))]):
        return None

    def solve(functions: list[Any], operands: list[Tensor]) -> list[Tensor]:
        value, slope, bend = functions
        ends = (operands[1], operands[2]) if len(operands) > 1 else None
        found, counts = _minimum(value, ends, unknowns, settings, Known(slope, bend, True))
        return [found.answer(), found.held.low, found.held.high, ad.tensor(counts)]

    x, low, high, counts = place.solved(solve, start, *(limits or ()))
    none = constraints_of((), unknowns)
    x = Conditions(objective, limits, none, start).answer_at(x, low, high)
    return _minimum_result(unknowns.tree(x), objective(x), *counts.unbind())
