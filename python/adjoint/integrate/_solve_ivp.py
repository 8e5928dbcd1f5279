"""``solve_ivp`` and ``odeint``: initial value problems whose solutions are differentiable."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import _tree
from adjoint._core import Tensor
from adjoint._samples import everywhere, is_batched
from adjoint.optimize._unknowns import Unknowns, as_arguments

from ._bdf import BDF
from ._dop853 import DOP853
from ._gradients import check as check_gradient
from ._gradients import choose, inputs_of
from ._methods import Method, explicit_method
from ._problem import OdeResult, Problem, check_start, followed, planned
from ._radau import Radau
from ._recorded import Recorded, can_be_recorded
from ._recorded_result import recorded_result
from ._result import result
from ._rosenbrock import Rodas3, Rodas5P
from ._system import Slope, System, sparse_columns
from ._tolerance import Tolerance
from ._watch import Watcher
from ._ways import ByAdjoint, ByTangents, Path

__all__ = ["OdeResult", "odeint", "solve_ivp"]

METHODS = ("RK45", "RK23", "DOP853", "Radau", "BDF", "Rodas5P", "Rodas3")


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Sequence[Any],
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = (),
    *,
    rtol: float = 1e-3,
    atol: Any = 1e-6,
    first_step: float | None = None,
    max_step: float = np.inf,
    jac: Any = None,
    jac_sparsity: Any = None,
    mass: Any = None,
    max_steps: int | None = None,
    max_events: int | None = None,
    gradient: str | None = None,
    memory: Any = "all",
    snapshots: int | None = None,
) -> OdeResult:
    """Solve ``dy/dt = fun(t, y, *args)`` from ``y0``; the solution is differentiable.

    The steps are chosen first, without being recorded. The gradient is the exact one of the
    solution by these steps (the discrete adjoint): by ``y0``, the ends of ``t_span``, the times
    ``t_eval`` and everything that ``fun`` reads. The steps of explicit methods and of Rosenbrock's
    run as one `adjoint.scan`, whose ``memory`` bounds what is kept for the backward pass.

    Parameters
    ----------
    fun
        ``fun(t, y, *args)`` gives the slope of ``y``, in its structure or in the same order.
    t_span
        Where it begins and ends; numbers or tensors. It may run backward.
    y0
        The state at the beginning: a tensor, a number, or a structure of tensors.
    method
        ``"RK45"``, ``"RK23"``, ``"DOP853"`` (order 8); for stiff problems ``"Radau"`` (order 5),
        ``"BDF"`` (order 1 to 5), ``"Rodas5P"`` (order 5, without iterations) and ``"Rodas3"``.
    t_eval
        The times of the result; without them, the ends of the steps.
    dense_output
        Whether the result has ``sol``, a function of time.
    events
        A function ``event(t, y, *args)`` or a list of them, whose zeros are looked for. Attributes
        as SciPy's: ``terminal`` (a bool, or after how many) and ``direction``. Their times are
        differentiable. Under `vmap` and in programs what is not met is NaN, and so are times and
        states after the end.
    vectorized
        Whether ``fun`` takes states as columns of a matrix; it is called with one.
    args
        Further arguments of ``fun`` and of events: a tuple, or one.
    rtol, atol, first_step, max_step
        SciPy's.
    max_steps
        Where to give up: 100,000, and 4,096 inside a recording.
    max_events
        How many places ``t_events`` and ``y_events`` have for an event that is not terminal,
        whatever happens; those that are left are NaN. A terminal event has as many as it takes to
        end the solution.
    jac
        The derivative of the slope by a state that is a vector, as a function ``jac(t, y, *args)``
        or a matrix, for implicit methods. It is compared with the exact derivative at the
        beginning, which is used without it.
    jac_sparsity
        Which entries of that matrix may be nonzero: those that share no row are computed together.
    mass
        A matrix ``M``, for ``M y' = fun(t, y)`` by an implicit method. It may be singular: rows of
        zeros are equations without derivatives, which ``y0`` must satisfy (index 1).
    gradient
        ``"discrete"``: the derivative of the steps that were taken. ``"continuous"``: the adjoint
        equation, solved back in time. ``"forward"``: tangents along with the steps. None: what
        suits, which `OdeResult.explain` tells.
    memory, snapshots
        Those of `adjoint.scan`.

    Returns
    -------
    OdeResult
        ``t``, ``y`` (time is the last axis), ``sol``, ``t_events``, ``y_events``, ``nfev``,
        ``njev``, ``nlu``, ``nsteps``, ``rejected``, ``status``, ``message``, ``success``,
        ``gradient``; ``explain()`` and ``event()``.

    Raises
    ------
    ConvergenceError
        If the end is not reached; its ``result`` has the times that were.

    Examples
    --------
    >>> import adjoint as ad
    >>> k = ad.tensor(0.5, dtype=ad.float64, requires_grad=True)
    >>> found = ad.integrate.solve_ivp(lambda t, y: -k * y, (0, 2), [1.0], rtol=1e-9, atol=1e-12)
    >>> found.y[0, -1]  # exp(-1)
    tensor(0.3679, dtype=torch.float64, grad_fn=<...>)
    >>> found.y[0, -1].backward()
    >>> k.grad  # -2 exp(-1)
    tensor(-0.7358, dtype=torch.float64)
    """
    arguments = as_arguments(args)
    unknowns = Unknowns(y0, "solve_ivp")
    flat = unknowns.vector(y0, "y0")
    allowed = _tolerance(rtol, atol, unknowns)
    if isinstance(method, type):  # a class of SciPy's
        method = method.__name__
    chosen = _method(method, allowed)
    chosen.name = method
    begin, end = _ends(t_span, flat.dtype)
    _check_steps(first_step, max_step, max_steps, t_span)
    check_gradient(gradient)

    def system_of(args: tuple[Any, ...]) -> System:
        return _system(fun, unknowns, args, vectorized, chosen, mass, jac, jac_sparsity)

    system = system_of(arguments)
    watcher = Watcher(events, unknowns, arguments) or None
    options = {"memory": memory, "snapshots": snapshots}
    problem = Problem(chosen, system, allowed, first_step, float(max_step), max_steps)
    chosen.between = bool(dense_output or events is not None or _is_between(t_eval, t_span))

    def eager() -> OdeResult:
        if is_batched(begin, end):
            raise NotImplementedError(
                "solve_ivp(): the samples of a vmap take the same steps, and so the same t_span\n"
                "  fix: take t_span out of the samples: with T = t1 - t0 as an argument, solve "
                "lambda s, y: T * fun(t0 + s * T, y) from 0 to 1"
            )
        if not everywhere(ad.isfinite(flat.detach())):
            raise ValueError(
                "solve_ivp(): y0 has numbers that are NaN or infinite\n"
                "  fix: look at what computes y0"
            )
        check_start(system, begin, flat)
        plan = planned(problem, begin, end, flat, watcher)
        leaves, spec = _tree.flatten(arguments)
        given = [flat, begin, end, *(x for x in leaves if isinstance(x, Tensor))]
        inputs = inputs_of(problem, begin, flat, given)
        way = choose(gradient, problem, plan, inputs, flat, watcher is not None, options)
        path: Path
        if way.name == "discrete":
            path = followed(problem, plan, begin, end, flat, way.options)
        else:
            chosen.between = True
            if way.name == "continuous":
                path = ByAdjoint(problem, plan, (flat, begin, end), inputs)
            else:
                path = ByTangents(problem, plan, (flat, begin, end), leaves, spec, system_of)
        return result(path, plan, unknowns, watcher, max_events, t_eval, dense_output, chosen, way)

    if not can_be_recorded(t_eval, watcher, max_events, dense_output, gradient):
        return eager()
    at = ad.as_tensor([] if t_eval is None else t_eval, dtype=flat.dtype).reshape(-1)
    inside = Recorded(problem, begin, end, flat, at, options, watcher, max_events, dense_output)
    return recorded_result(inside, begin, end, unknowns, t_eval is None, dense_output, eager)


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    Dfun: Callable[..., Any] | None = None,
    col_deriv: bool = False,
    full_output: bool = False,
    *,
    rtol: Any = 1.49012e-8,
    atol: Any = 1.49012e-8,
    h0: float = 0.0,
    hmax: float = 0.0,
    mxstep: int = 0,
    tfirst: bool = False,
    **options: Any,
) -> Any:
    """Solve ``dy/dt = func(y, t, *args)`` at the times ``t``, the first of which is that of ``y0``.

    SciPy's older form: the state comes first (unless ``tfirst``), and the result has time as its
    first axis. With ``full_output=True`` a dict comes with it: ``nfe``, ``nje``, ``message``. Of
    SciPy's arguments the rest set up LSODA, which is not there; ``options`` are those of
    `solve_ivp`, which takes RK45 unless ``method=`` says otherwise.
    """
    options |= {"rtol": rtol, "atol": atol}
    options |= {"first_step": h0} if h0 else {}
    options |= {"max_step": hmax} if hmax else {}
    options |= {"max_steps": mxstep} if mxstep else {}
    if Dfun is not None:
        options["jac"] = _jacobian(Dfun, col_deriv, tfirst)
    times = ad.as_tensor(t)

    def fun(t: Tensor, y: Any, *rest: Any) -> Any:
        return func(y, t, *rest)

    if tfirst:
        fun = func
    found = solve_ivp(fun, (times[0], times[-1]), y0, t_eval=times, args=args, **options)
    path = ad.map(lambda y: y.movedim(-1, 0), found.y)
    if not full_output:
        return path
    return path, {"nfe": found.nfev, "nje": found.njev, "message": found.message}


def _jacobian(Dfun: Callable[..., Any], col_deriv: bool, tfirst: bool) -> Callable[..., Tensor]:
    """`odeint`'s derivative of the slope, as `solve_ivp` takes it."""

    def jac(t: Tensor, y: Any, *rest: Any) -> Tensor:
        made = Dfun(t, y, *rest) if tfirst else Dfun(y, t, *rest)
        if isinstance(made, (list, tuple)):
            made = ad.stack([ad.stack([ad.as_tensor(v) for v in row]) for row in made])
        made = ad.as_tensor(made)
        return made.mT if col_deriv else made

    return jac


def _slope(
    fun: Callable[..., Any], unknowns: Unknowns, args: tuple[Any, ...], vectorized: bool
) -> Slope:
    if vectorized:  # as SciPy calls such a function: with a column, which must be a tensor

        def column(t: Tensor, v: Tensor) -> Tensor:
            return unknowns.vector(fun(t, unknowns.tree(v)[:, None], *args)[:, 0], "the slope")

        return column

    def slope(t: Tensor, v: Tensor) -> Tensor:
        return unknowns.vector(fun(t, unknowns.tree(v), *args), "the slope")

    return slope


def _method(name: Any, tolerance: Tolerance) -> Method:
    made = explicit_method(name)
    if made is not None:
        return made
    if name == "LSODA":
        raise ValueError(
            "solve_ivp(): there is no LSODA, which changes between Adams' methods and BDF\n"
            "  fix: method='BDF' where the problem is stiff, 'RK45' or 'DOP853' where it is not"
        )
    others: dict[Any, Callable[[], Method]] = {
        "DOP853": DOP853,
        "Radau": lambda: Radau(tolerance),
        "BDF": lambda: BDF(tolerance),
        "Rodas3": Rodas3,
        "Rodas5P": Rodas5P,
    }
    if name not in others:
        raise ValueError(
            f"solve_ivp(): there is no method {name!r}; there are {', '.join(METHODS)}"
        )
    return others[name]()


def _tolerance(rtol: Any, atol: Any, unknowns: Unknowns) -> Tolerance:
    if not float(rtol) > 0:
        raise ValueError(f"solve_ivp(): rtol is {rtol}; it must be positive")
    if isinstance(atol, (int, float)):
        allowed: Any = float(atol)
        smallest = allowed
    else:
        allowed = unknowns.vector(atol, "atol").detach()
        smallest = float(allowed.min())
    if not smallest >= 0:
        raise ValueError(f"solve_ivp(): atol is {smallest}; it must not be negative")
    # What rounding allows, as SciPy.
    least = 100 * float(ad.finfo(unknowns.start.dtype).eps)
    return Tolerance(max(float(rtol), least), allowed)


def _ends(t_span: Any, dtype: ad.dtype) -> tuple[Tensor, Tensor]:
    try:
        len(t_span)
    except TypeError:
        raise ValueError(
            f"solve_ivp(): t_span must be a beginning and an end, (t0, t1), got {t_span!r}"
        ) from None
    if len(t_span) != 2:
        raise ValueError(f"solve_ivp(): t_span has {len(t_span)} times, not a beginning and an end")
    for t in t_span:
        if isinstance(t, (int, float)) and not math.isfinite(t):
            raise ValueError(f"solve_ivp(): t_span is {tuple(t_span)}; times must be finite")
    begin, end = (ad.as_tensor(t, dtype=dtype).reshape(()) for t in t_span)
    return begin, end


def _check_steps(first_step: Any, max_step: Any, max_steps: Any, t_span: Any) -> None:
    for name, value in (("first_step", first_step), ("max_step", max_step)):
        if value is not None and not float(value) > 0:
            raise ValueError(f"solve_ivp(): {name} is {value}; it must be positive")
    if max_steps is not None and int(max_steps) < 1:
        raise ValueError(f"solve_ivp(): max_steps is {max_steps}; there must be one at least")
    plain = all(isinstance(t, (int, float)) for t in t_span)
    if first_step is not None and plain and first_step > abs(t_span[1] - t_span[0]) > 0:
        raise ValueError(
            f"solve_ivp(): first_step is {first_step}, longer than the interval {tuple(t_span)}"
        )


def _is_between(t_eval: Any, t_span: Any) -> bool:
    """Whether some of the times may lie between the ends of steps."""
    if t_eval is None:
        return False
    numbers = (int, float)
    if not all(isinstance(t, numbers) for t in t_span) or not isinstance(t_eval, (list, tuple)):
        return True
    return not all(isinstance(t, numbers) and t in t_span for t in t_eval)


def _system(
    fun: Callable[..., Any],
    unknowns: Unknowns,
    args: tuple[Any, ...],
    vectorized: bool,
    method: Method,
    mass: Any,
    jac: Any,
    jac_sparsity: Any,
) -> System:
    slope = _slope(fun, unknowns, args, vectorized)
    n, dtype = unknowns.size, unknowns.start.dtype
    if mass is not None:
        if not method.implicit:
            raise ValueError(
                "solve_ivp(): explicit methods take no mass matrix\n"
                "  fix: method='Radau', 'BDF' or 'Rodas5P', or solve with it in fun"
            )
        mass = ad.as_tensor(mass, dtype=dtype)
        if mass.shape != (n, n):
            raise ValueError(
                f"solve_ivp(): mass has the shape {list(mass.shape)} where y0 has {n} elements"
            )
    matrix: Slope | None = None
    if callable(jac):

        def matrix(t: Tensor, v: Tensor) -> Tensor:
            return ad.as_tensor(jac(t, unknowns.tree(v), *args), dtype=dtype)

    elif jac is not None:
        constant = ad.as_tensor(jac, dtype=dtype)

        def matrix(t: Tensor, v: Tensor) -> Tensor:
            return constant

    groups, pattern = (None, None) if jac_sparsity is None else sparse_columns(jac_sparsity)
    return System(slope, mass, matrix, groups, pattern)
