"""``solve_ivp`` and ``odeint``: initial value problems whose solutions are differentiable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint._core import Tensor
from adjoint.optimize import ConvergenceError, OptimizeResult
from adjoint.optimize._unknowns import Unknowns, as_arguments

from ._control import Plan, Tolerance, plan_steps
from ._events import Events
from ._methods import Method, Slope, explicit_method
from ._radau import Radau
from ._rosenbrock import Rodas3
from ._trajectory import Trajectory, follow

__all__ = ["OdeResult", "odeint", "solve_ivp"]

METHODS = ("RK45", "RK23", "Radau", "Rodas3")


class OdeResult(OptimizeResult):
    """The solution of an initial value problem, with SciPy's names."""


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Sequence[Any],
    y0: Any,
    method: str = "RK45",
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
    max_steps: int = 100_000,
    memory: Any = "all",
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
        ``"RK45"``, ``"RK23"``; for stiff problems ``"Radau"`` (order 5) and ``"Rodas3"``.
    t_eval
        The times of the result; without them, the ends of the steps.
    dense_output
        Whether the result has ``sol``, a function of time.
    events
        A function ``event(t, y, *args)`` or a list of them, whose zeros are looked for. Attributes
        as SciPy's: ``terminal`` (a bool, or after how many) and ``direction``. Their times are
        differentiable.
    vectorized
        Ignored: derivatives are exact.
    args
        Further arguments of ``fun`` and of events: a tuple, or one.
    rtol, atol, first_step, max_step
        SciPy's.
    max_steps
        Where to give up.
    memory
        That of `adjoint.scan`.

    Returns
    -------
    OdeResult
        ``t``, ``y`` (time is the last axis), ``sol``, ``t_events``, ``y_events``, ``nfev``,
        ``nsteps``, ``rejected``, ``status``, ``message``, ``success``.

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
    flat = _vector(y0, unknowns)
    slope = _slope(fun, unknowns, arguments)
    chosen = _method(method)
    begin, end = (ad.as_tensor(t, dtype=flat.dtype).reshape(()) for t in t_span)
    seen = Events(events, unknowns, arguments, chosen)
    allowed = Tolerance(float(rtol), _atol(atol, unknowns))
    with ad.no_grad():
        plan = plan_steps(
            chosen,
            slope,
            float(begin),
            float(end),
            flat.detach(),
            allowed,
            first_step,
            float(max_step),
            int(max_steps),
            seen.watch if seen else None,
        )
    if plan.status < 0:
        raise _stopped(method, plan)
    path = follow(chosen, slope, plan, begin, end, flat, memory)
    return _result(path, plan, unknowns, seen, t_eval, dense_output, chosen)


def odeint(func: Callable[..., Any], y0: Any, t: Any, args: Any = (), **options: Any) -> Any:
    """Solve ``dy/dt = func(y, t, *args)`` at the times ``t``, the first of which is that of ``y0``.

    SciPy's older form: the state comes first, and the result has time as its first axis.
    ``options`` are those of `solve_ivp`.
    """
    options.setdefault("rtol", 1.49012e-8)
    options.setdefault("atol", 1.49012e-8)
    times = ad.as_tensor(t)

    def fun(t: Tensor, y: Any, *rest: Any) -> Any:
        return func(y, t, *rest)

    found = solve_ivp(fun, (times[0], times[-1]), y0, t_eval=times, args=args, **options)
    return ad.map(lambda y: y.movedim(-1, 0), found.y)


def _vector(y0: Any, unknowns: Unknowns) -> Tensor:
    """The state as a vector, with its history."""
    return unknowns.vector(y0, "y0")


def _slope(fun: Callable[..., Any], unknowns: Unknowns, args: tuple[Any, ...]) -> Slope:
    def slope(t: Tensor, v: Tensor) -> Tensor:
        return unknowns.vector(fun(t, unknowns.tree(v), *args), "the slope")

    return slope


def _method(name: str) -> Method:
    explicit = explicit_method(name)
    if explicit is not None:
        return explicit
    if name == "Radau":
        return Radau()
    if name == "Rodas3":
        return Rodas3()
    raise ValueError(f"solve_ivp(): there is no method {name!r}; there are {', '.join(METHODS)}")


def _atol(atol: Any, unknowns: Unknowns) -> Any:
    if isinstance(atol, (int, float)):
        return float(atol)
    return unknowns.vector(atol, "atol").detach()


def _stopped(method: str, plan: Plan) -> ConvergenceError:
    t = plan.times[-1]
    result = OdeResult(
        t=plan.times, success=False, status=-1, message=plan.message, rejected=plan.rejected
    )
    stiff = " a stiff method (method='Radau')," if method.startswith("RK") else ""
    return ConvergenceError(
        f"solve_ivp() by {method} stopped at t = {t:.9g} after {len(plan.times) - 1} steps and "
        f"{plan.rejected} that were rejected: {plan.message}.\n"
        f"  fix: try{stiff} larger tolerances, or look at the slope there",
        result,
    )


def _result(
    path: Trajectory,
    plan: Plan,
    unknowns: Unknowns,
    seen: Events,
    t_eval: Any,
    dense: bool,
    method: Method,
) -> OdeResult:
    t_events, y_events = seen.found(path)
    if t_eval is None:
        times, states = path.times, path.states
        if seen.ended:
            last = seen.last(t_events)
            times = ad.cat([times[:-1], last[None]])
            states = ad.cat([states[:-1], path.at_step(len(states) - 2, last)[None]])
    else:
        times = ad.as_tensor(t_eval, dtype=path.times.dtype).reshape(-1)
        if seen.ended:
            times = times[: int(seen.before_end(times, path))]
        states = path.at(times)
    leaves = _trees(states, unknowns)
    steps = len(plan.times) - 1
    return OdeResult(
        t=times,
        y=leaves,
        sol=(lambda t: _trees(path.at(ad.as_tensor(t, dtype=states.dtype)), unknowns))
        if dense
        else None,
        t_events=t_events,
        y_events=y_events,
        nfev=method.cost * (steps + plan.rejected) + 2,
        nsteps=steps,
        rejected=plan.rejected,
        status=plan.status,
        message=plan.message,
        success=True,
    )


def _trees(states: Tensor, unknowns: Unknowns) -> Any:
    """States in rows as the structure of the state, with time as the last axis of every tensor."""
    if states.ndim == 1:
        return unknowns.tree(states)
    return unknowns.stacked(states)
