"""``root`` and ``fixed_point``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._evaluated import each_input_once

from ._choice import linear_for
from ._implicit import answer
from ._inside import is_inside
from ._linear import Dense, Linear
from ._often import newton_steps
from ._result import OptimizeResult
from ._solver import Solver, called
from ._unknowns import Unknowns, as_arguments

__all__ = ["fixed_point", "root"]


@each_input_once
def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str | Callable[..., Any] = "newton",
    jac: Any = None,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find where a function is zero; the answer is differentiable.

    The derivative is that of the answer, by the implicit function theorem: one transposed solve,
    whatever steps the solver took. It is taken by everything that ``fun`` reads: ``args``, tensors
    of its closure, parameters of modules. ``x0`` has none, since the answer does not depend on it.

    Parameters
    ----------
    fun
        ``fun(x, *args)`` gives as many numbers as ``x`` has, in any structure.
    x0
        Where to begin: a tensor, a number, or a structure of tensors.
    args
        Further arguments: a tuple, or one.
    method
        ``"newton"`` (with a line search), ``"broyden"``, ``"anderson"``; or the name of a method of
        `scipy.optimize.root` (``"hybr"``, ``"lm"``, ``"krylov"``, ...); or a callable
        ``method(fun, x0, args)`` that returns the answer, or a result of SciPy's, whose derivative
        is then that of the equation. It may call ``fun`` with NumPy arrays, and gets some back.
    jac
        The derivative of ``fun`` by ``x``: a function ``jac(x, *args)`` that gives the matrix;
        ``"exact"``: the whole matrix, by forward mode; ``"sparse"``: by colours of the pattern in
        the graph of ``fun``, solved with by sparse factors; ``"products"``: solved with by GMRES,
        which needs products alone. Chosen where it is not given: beyond 2000 unknowns it is one of
        the last two.
    tol
        The length of the last step, relative to 1 + ‖x‖.
    callback
        Called after every step, ``callback(x, f)``.
    options
        ``maxiter``; ``memory`` and ``mixing`` of Anderson's method; SciPy's own for its methods.

    Returns
    -------
    OptimizeResult
        ``x``, ``success``, ``status``, ``message``, ``method``, ``fun``, ``nit``, ``nfev``,
        ``njev``.

    Raises
    ------
    ConvergenceError
        If there is no answer; its ``result`` is how far the solver got.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    >>> answer = ad.optimize.root(lambda x: x * x - a, 1.0)
    >>> answer.x
    tensor(1.4142, dtype=torch.float64, grad_fn=<...>)
    >>> answer.x.backward()
    >>> a.grad  # 1 / (2 sqrt(2))
    tensor(0.3536, dtype=torch.float64)
    """
    args = as_arguments(args)
    unknowns = Unknowns(x0, "root")
    residual = unknowns.function(fun, args)
    linear = _linear(unknowns, residual, jac, args)
    recorded = None
    if method == "newton" and jac is None and isinstance(linear, Dense) and not is_inside():
        steps = newton_steps(fun, unknowns, x0)
        if steps is not None:
            linear, recorded = steps.on(args)
    solver = Solver("root", residual, linear, tol, callback, options, recorded)
    if callable(method):
        result = solver.by_callable(lambda: called(method, fun, x0, args, unknowns))
    else:
        result = solver.by_name(unknowns.start, method)
    result.x = unknowns.tree(answer(residual, result.x, linear))
    result.method = method
    return result


def fixed_point(
    func: Callable[..., Any],
    x0: Any,
    args: Any = (),
    xtol: float | None = None,
    maxiter: int = 500,
    method: str | Callable[..., Any] = "anderson",
    options: dict[str, Any] | None = None,
) -> Any:
    """Find where ``func(x, *args) == x``; the answer is differentiable.

    Returns the answer itself, as SciPy's function of this name does. See `root` for the arguments;
    ``method`` may also be any of its.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.optimize.fixed_point(ad.cos, 1.0)
    tensor(0.7391, dtype=torch.float64)
    """
    args = as_arguments(args)
    unknowns = Unknowns(x0, "fixed_point")
    function = unknowns.function(func, args, "the value of func")

    def residual(v: Tensor) -> Tensor:
        return function(v) - v

    linear = linear_for("fixed_point", residual, unknowns.start)
    solver = Solver(
        "fixed_point",
        residual,
        linear,
        xtol,
        None,
        {"maxiter": maxiter, **(options or {})},
    )
    if callable(method):
        result = solver.by_callable(lambda: called(method, func, x0, args, unknowns))
    else:
        result = solver.by_name(unknowns.start, method)
    return unknowns.tree(answer(residual, result.x, linear))


def _linear(unknowns: Unknowns, residual: Any, jac: Any, args: tuple[Any, ...]) -> Linear:
    if not callable(jac):
        return linear_for("root", residual, unknowns.start, jac)
    n = unknowns.size
    return Dense(lambda v: ad.as_tensor(jac(unknowns.tree(v), *args), dtype=v.dtype).reshape(n, n))
