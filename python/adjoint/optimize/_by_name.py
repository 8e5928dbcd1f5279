"""``fsolve``, ``newton``, ``bisect``, ``brentq``, ...: SciPy's functions for one method each.

They call what `root` and `root_scalar` do, with the arguments and results that SciPy's have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._evaluated import each_input_once
from adjoint._plain import refuse_structures

from ._choice import linear_for
from ._implicit import answer
from ._scalar import scalar_root
from ._solver import Solver
from ._unknowns import Unknowns, as_arguments

__all__ = ["bisect", "brenth", "brentq", "fsolve", "newton", "ridder", "toms748"]


@each_input_once
def fsolve(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    fprime: Any = None,
    full_output: Any = False,
    col_deriv: Any = False,
    xtol: float | None = None,
    maxfev: int = 0,
    band: Any = None,
    epsfcn: float | None = None,
    factor: float = 100,
    diag: Any = None,
) -> Any:
    """Find where a function is zero by MINPACK's method; the answer is differentiable.

    The same as `root` with ``method="hybr"``, whose search is SciPy's, so that it arrives at the
    same root. Of samples of a `vmap` it makes one large problem: for many of them take `root`,
    whose own method solves each.

    Parameters
    ----------
    func
        ``func(x, *args)`` gives as many numbers as ``x`` has.
    x0
        Where to begin: numbers, an array or a tensor, which become a vector, as in SciPy.
    args
        Further arguments: a tuple, or one.
    fprime, col_deriv, band, epsfcn
        Not needed, and not used: derivatives are exact.
    full_output
        Whether to return more than the answer.
    xtol
        Where the search ends, relative; Newton's method goes on from there to rounding.
    maxfev, factor, diag
        SciPy's: how many evaluations at most, the length of the first step, units of unknowns.

    Returns
    -------
    x : Tensor
        The answer, a vector.
    infodict : dict
        ``nfev`` and ``fvec``; only with ``full_output``, as are the next two.
    ier : int
        Always 1: there is an answer.
    mesg : str
        What the search says of its end.

    Raises
    ------
    ConvergenceError
        If there is no answer, where SciPy warns; with ``full_output`` as well.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    >>> x = ad.optimize.fsolve(lambda x: x * x - a, 1.0)
    >>> x
    tensor([1.4142], dtype=torch.float64, grad_fn=<...>)
    >>> x.sum().backward()
    >>> a.grad  # 1 / (2 sqrt(2))
    tensor(0.3536, dtype=torch.float64)
    """
    refuse_structures("fsolve", x0)
    unknowns = Unknowns(_numbers("fsolve", x0).reshape(-1), "fsolve")
    residual = unknowns.function(func, as_arguments(args))
    options: dict[str, Any] = {"maxfev": maxfev, "factor": factor}
    if diag is not None:
        options["diag"] = diag
    linear = linear_for("fsolve", residual, unknowns.start)
    found = Solver("fsolve", residual, linear, xtol, None, options).by_name(unknowns.start, "hybr")
    x = unknowns.tree(answer(residual, found.x, linear))
    if not full_output:
        return x
    return x, {"nfev": found.nfev, "fvec": found.fun}, 1, found.message


def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Any = None,
    args: Any = (),
    tol: float | None = None,
    maxiter: int = 50,
    fprime2: Any = None,
    x1: Any = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Find where a function of one number is zero, from a point; the answer is differentiable.

    The same as `root_scalar` with ``x0=``: Newton's method with exact derivatives, also where SciPy
    takes the secant method for want of ``fprime``.

    Parameters
    ----------
    func
        ``func(x, *args)`` gives one number; or a number for each of ``x0``.
    x0
        Where to begin: a number, or several, for each of which there is an equation of its own.
    fprime, fprime2, x1
        Not needed, and not used: derivatives are exact.
    args
        Further arguments: a tuple, or one.
    tol
        The length of the last step, relative to one more than the size of ``x``; to rounding where
        it is not given.
    maxiter
        How many steps at most.
    rtol
        Not used: ``tol`` is relative.
    full_output
        Whether to return more than the answer.
    disp
        Not used: no answer raises.

    Returns
    -------
    root : Tensor
        The answer, of the form of ``x0``.
    r : OptimizeResult
        That of `root_scalar`; only with ``full_output``, for one number.
    converged, zero_der : Tensor
        True and False for each number; only with ``full_output``, for several numbers.

    Raises
    ------
    ConvergenceError
        If there is no answer, also with ``disp=False``.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor(8.0, dtype=ad.float64, requires_grad=True)
    >>> x = ad.optimize.newton(lambda x: x**3 - a, 1.5)
    >>> x
    tensor(2., dtype=torch.float64, grad_fn=<...>)
    >>> x.backward()
    >>> a.grad  # 1 / (3 a^(2/3))
    tensor(0.0833, dtype=torch.float64)
    """
    _check("newton", maxiter, tol=tol)
    refuse_structures("newton", x0)
    start = _numbers("newton", x0)
    if start.numel() == 1 and not start.is_complex():
        method = "secant" if fprime is None else "newton" if fprime2 is None else "halley"
        found = scalar_root("newton", func, args, method, start, tol, maxiter)
        return (found.root, found) if full_output else found.root
    unknowns = Unknowns(start, "newton")
    residual = unknowns.function(func, as_arguments(args), "the value of func")
    linear = linear_for("newton", residual, unknowns.start)
    solver = Solver("newton", residual, linear, tol, None, {"maxiter": maxiter})
    x = unknowns.tree(answer(residual, solver.by_name(unknowns.start, "newton").x, linear))
    if not full_output:
        return x
    return x, ad.ones_like(x, dtype=ad.bool), ad.zeros_like(x, dtype=ad.bool)


def bisect(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Find where a function of one number is zero, in a bracket. See `brentq`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.optimize.bisect(lambda x: x * x - 2, 0, 2)
    tensor(1.4142, dtype=torch.float64)
    """
    return _bracketed("bisect", f, a, b, args, xtol, rtol, maxiter, full_output)


def brentq(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Find where a function of one number is zero, in a bracket; the answer is differentiable.

    The same as `root_scalar` with ``bracket=(a, b)``. `bisect`, `brenth`, `ridder` and `toms748`
    run the same method, that of Chandrupatla.

    Parameters
    ----------
    f
        ``f(x, *args)`` gives one number.
    a, b
        Two numbers where ``f`` has different signs.
    args
        Further arguments: a tuple, or one.
    xtol
        How far from the root the answer may be; rounding where it is not given.
    rtol
        Not used: what ``xtol`` leaves open is found to rounding.
    maxiter
        How many steps at most, 200 where it is not given.
    full_output
        Whether to return the result as well.
    disp
        Not used: no answer raises.

    Returns
    -------
    root : Tensor
        The answer.
    r : OptimizeResult
        That of `root_scalar`; only with ``full_output``.

    Raises
    ------
    ConvergenceError
        If there is no answer, also with ``disp=False``.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    >>> x = ad.optimize.brentq(lambda x: x * x - a, 0, 2)
    >>> x.backward()
    >>> a.grad  # 1 / (2 sqrt(2))
    tensor(0.3536, dtype=torch.float64)
    """
    return _bracketed("brentq", f, a, b, args, xtol, rtol, maxiter, full_output)


def brenth(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Find where a function of one number is zero, in a bracket. See `brentq`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.optimize.brenth(lambda x: x * x - 2, 0, 2)
    tensor(1.4142, dtype=torch.float64)
    """
    return _bracketed("brenth", f, a, b, args, xtol, rtol, maxiter, full_output)


def ridder(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Find where a function of one number is zero, in a bracket. See `brentq`.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.optimize.ridder(lambda x: x * x - 2, 0, 2)
    tensor(1.4142, dtype=torch.float64)
    """
    return _bracketed("ridder", f, a, b, args, xtol, rtol, maxiter, full_output)


def toms748(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: Any = (),
    k: int = 1,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Find where a function of one number is zero, in a bracket. See `brentq`; ``k`` is not used.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.optimize.toms748(lambda x: x * x - 2, 0, 2)
    tensor(1.4142, dtype=torch.float64)
    """
    return _bracketed("toms748", f, a, b, args, xtol, rtol, maxiter, full_output)


def _bracketed(
    name: str,
    f: Any,
    a: Any,
    b: Any,
    args: Any,
    xtol: float | None,
    rtol: float | None,
    maxiter: int | None,
    full_output: bool,
) -> Any:
    _check(name, maxiter, xtol=xtol, rtol=rtol)
    refuse_structures(name, a, b)
    found = scalar_root(name, f, args, name, (a, b), xtol, maxiter)
    return (found.root, found) if full_output else found.root


def _check(name: str, maxiter: int | None, **tolerances: float | None) -> None:
    """Refuse what SciPy refuses: tolerances that no step can meet, and no steps at all."""
    for key, tolerance in tolerances.items():
        if tolerance is not None and not tolerance > 0:
            raise ValueError(
                f"{name}(): {key} must be positive, got {tolerance!r}\n"
                f"  fix: leave {key} out for an answer to rounding"
            )
    if maxiter is not None and maxiter < 1:
        raise ValueError(f"{name}(): maxiter must be at least 1, got {maxiter!r}")


def _numbers(name: str, x0: Any) -> Tensor:
    """Where to begin, as a tensor; a list may hold tensors."""
    if isinstance(x0, Tensor):
        return x0.detach()
    if isinstance(x0, (list, tuple)) and any(isinstance(x, Tensor) for x in x0):
        dtype = next(x.dtype for x in x0 if isinstance(x, Tensor))
        return ad.cat([ad.as_tensor(x, dtype=dtype).detach().reshape(-1) for x in x0])
    unknowns = Unknowns(x0, name)
    made: Tensor = unknowns.tree(unknowns.start)
    return made
