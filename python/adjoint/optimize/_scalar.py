"""``root_scalar`` and ``minimize_scalar``: one unknown."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import everywhere, is_batched, somewhere

from ._conditions import Conditions
from ._constraints import bounds_of, constraints_of
from ._implicit import answer
from ._linear import Dense
from ._result import ConvergenceError, OptimizeResult
from ._scipy import scipy_optimize
from ._solver import Solver
from ._unknowns import Unknowns, as_arguments

__all__ = ["minimize_scalar", "root_scalar"]

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
        Not needed: derivatives are exact.
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
    by_bracket = method in _BRACKETS
    if (bracket if by_bracket else x0) is None:
        raise ValueError(
            f"root_scalar(): method {method!r} needs {'a bracket' if by_bracket else 'x0'}"
        )
    unknowns = Unknowns(_float(bracket[0] if by_bracket else x0), "root_scalar")
    residual = unknowns.function(f, as_arguments(args), "the value of f")
    if by_bracket:
        end = Unknowns(_float(bracket[1]), "root_scalar").start
        most = 200 if maxiter is None else maxiter
        x, steps = _bracketed(residual, unknowns.start, end, xtol, most)
        calls = steps + 2
    else:
        given = {**(options or {}), **({} if maxiter is None else {"maxiter": maxiter})}
        solver = Solver("root_scalar", residual, Dense(), xtol, None, given)
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


def _bracketed(
    f: Callable[[Tensor], Tensor], a: Tensor, b: Tensor, xtol: float | None, most: int
) -> tuple[Tensor, int]:
    """Chandrupatla's method: inverse quadratic steps where they can be trusted, else halves."""
    eps = ad.finfo(a.dtype).eps
    with ad.no_grad():
        fa, fb = f(a), f(b)
        a, b = a + 0 * fa, b + 0 * fb
        if not everywhere(ad.isfinite(fa) & ad.isfinite(fb)):
            raise ValueError("root_scalar(): f is not finite at the ends of the bracket")
        if somewhere(fa * fb > 0):
            raise ValueError(
                "root_scalar(): f has the same sign at both ends of the bracket"
                + ("" if is_batched(fa) else f": {float(fa):.3g} and {float(fb):.3g}")
            )
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
                return best, step + 1
            xi, phi = (a - b) / _nonzero(c - b), (fa - fb) / _nonzero(fc - fb)
            trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi)
            quadratic = fa / _nonzero(fb - fa) * fc / _nonzero(fb - fc) + (c - a) / _nonzero(
                b - a
            ) * fa / _nonzero(fc - fa) * fb / _nonzero(fc - fb)
            t = ad.where(trusted, quadratic, 0.5)
            t = ad.where(ad.isfinite(t), t, 0.5).maximum(width).minimum(1 - width)
    raise ConvergenceError(
        f"root_scalar() found no root in {most} steps",
        OptimizeResult(root=best, converged=False, iterations=most),
    )


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
        Those of `scipy.optimize.minimize_scalar`.

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
    unknowns = Unknowns(0.0, "minimize_scalar")

    def objective(v: Tensor) -> Tensor:
        return ad.as_tensor(fun(unknowns.tree(v), *arguments)).reshape(()).to(v.dtype)

    with ad.no_grad():
        if is_batched(objective(unknowns.start)):
            raise NotImplementedError(
                "minimize_scalar(): one problem at a time, not the samples of vmap\n"
                "  fix: use minimize, which takes them"
            )

        def value(x: float) -> float:
            return float(objective(ad.tensor([float(x)], dtype=ad.float64)))

        found = scipy_optimize().minimize_scalar(
            value, bracket=bracket, bounds=bounds, method=method, tol=tol, options=options
        )
    if not found.success:
        raise ConvergenceError(
            f"minimize_scalar() found no minimum: {found.get('message', 'it did not converge')}",
            OptimizeResult(x=found.x, success=False, message=str(found.get("message", ""))),
        )
    best = float(found.x)
    for end in bounds or ():  # SciPy's method comes near, but never there
        if math.isfinite(end) and value(end) <= value(best):
            best = float(end)
    start = ad.tensor([best], dtype=ad.float64)
    limits = bounds_of([tuple(bounds)] if bounds is not None else None, unknowns)
    conditions = Conditions(objective, limits, constraints_of((), unknowns), start)
    point = conditions.at(start)
    x = point.answer()
    return OptimizeResult(
        x=unknowns.tree(x),
        fun=objective(x).detach(),
        success=True,
        message=str(found.get("message", "")),
        nit=int(found.get("nit", 0)),
        nfev=int(found.get("nfev", 0)),
    )
