"""Stochastic differential equations: steps of fixed length along a Brownian path."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import must_hold
from adjoint.func import jvp
from adjoint.optimize import ConvergenceError
from adjoint.optimize._unknowns import Unknowns, as_arguments

from ._brownian import BrownianPath
from ._problem import OdeResult

__all__ = ["sdeint", "solve_sde"]

Function = Callable[[Tensor, Tensor], Tensor]

METHODS = ("euler", "milstein", "heun")
NOISES = ("diagonal", "scalar", "general")


def solve_sde(
    drift: Callable[..., Any],
    diffusion: Callable[..., Any],
    t_span: Sequence[float],
    y0: Any,
    method: str = "euler",
    t_eval: Any = None,
    args: Any = (),
    *,
    steps: int | None = None,
    noise: str = "diagonal",
    seed: Any = 0,
    path: BrownianPath | None = None,
    memory: Any = "all",
    snapshots: int | None = None,
) -> OdeResult:
    """Solve ``dy = drift(t, y, *args) dt + diffusion(t, y, *args) dW`` along a Brownian path.

    The path is that of the seed, whatever the number of steps (`BrownianPath`): solutions with more
    steps converge to that of the same path, and gradients are those of the steps along it.

    Parameters
    ----------
    drift, diffusion
        ``drift(t, y, *args)`` has the structure of ``y``, and so has ``diffusion`` unless the noise
        is general: then it is a matrix of the elements of ``y`` by the Brownian motions.
    t_span
        Where it begins and ends: numbers, the first before the second.
    y0
        The state at the beginning: a tensor, a number, or a structure of tensors.
    method
        ``"euler"`` (Euler-Maruyama; strong order 1/2) and ``"milstein"`` (order 1, not for general
        noise) solve Ito's equation, ``"heun"`` that of Stratonovich (order 1 for diagonal and
        scalar noise, 1/2 for general noise).
    t_eval
        The times of the result; without them, the ends of all steps.
    args
        Further arguments of both functions: a tuple, or one.
    steps
        How many steps there are in the interval; 100 if it is omitted. Between two times of
        ``t_eval`` they are of equal length, and no longer than that.
    noise
        ``"diagonal"``: a Brownian motion for each element of ``y``. ``"scalar"``: one for all of
        them. ``"general"``: as many as ``diffusion`` has columns.
    seed
        Of the path: an integer, or a tensor of one.
    path
        The path itself, in place of the seed.
    memory, snapshots
        Those of `adjoint.scan`.

    Returns
    -------
    OdeResult
        ``t``, ``y`` (time is the last axis), ``path``, ``nsteps``, ``status``, ``message``,
        ``success``.

    Raises
    ------
    ConvergenceError
        If the solution becomes NaN or infinite.

    Examples
    --------
    >>> import adjoint as ad
    >>> mu = ad.tensor(0.5, dtype=ad.float64, requires_grad=True)
    >>> found = ad.integrate.solve_sde(lambda t, y: mu * y, lambda t, y: 0.2 * y, (0, 1), [1.0])
    >>> found.y.shape
    torch.Size([1, 101])
    >>> found.y[0, -1].backward()  # about y, as y = exp((mu - 0.02) t + 0.2 W)
    """
    arguments = as_arguments(args)
    unknowns = Unknowns(y0, "solve_sde")
    y = unknowns.vector(y0, "y0")
    _check(method, noise, t_span, t_eval)
    t0, t1 = float(t_span[0]), float(t_span[1])
    f, g = _functions(drift, diffusion, unknowns, arguments, noise)
    start = ad.tensor(t0, dtype=y.dtype)
    shape = _shape_of_noise(g, start, y, noise, method)
    if path is None:
        path = BrownianPath(t0, t1, shape, seed, y.dtype)
    elif path.shape != shape or not (path.t0 <= t0 and t1 <= path.t1):
        raise ValueError(
            f"solve_sde(): the path has values of the shape {list(path.shape)} from {path.t0:g} to "
            f"{path.t1:g}; this equation needs {list(shape)} from {t0:g} to {t1:g}"
        )
    marks, places = _marks(t0, t1, t_eval, 100 if steps is None else int(steps), path)
    times = ad.tensor(marks, dtype=y.dtype)
    w = path.at(marks)
    one = _STEPS[method]

    def step(y: Tensor, row: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        t, h, dw = row
        new = one(f, g, t, y, h, dw, noise)
        return new, new

    rows = times[:-1], times[1:] - times[:-1], w[1:] - w[:-1]
    _, states = ad.scan(step, y, rows, memory=memory, snapshots=snapshots)
    every = ad.cat([y[None], states])
    must_hold(ad.isfinite(every.detach()), _not_finite)
    chosen = every.index_select(0, ad.tensor(places))
    return OdeResult(
        t=times.index_select(0, ad.tensor(places)),
        y=unknowns.stacked(chosen),
        path=path,
        nsteps=len(marks) - 1,
        status=0,
        message="the end of the interval was reached",
        success=True,
    )


def sdeint(
    drift: Callable[..., Any],
    diffusion: Callable[..., Any],
    y0: Any,
    t: Any,
    args: Any = (),
    **options: Any,
) -> Any:
    """Solve a stochastic equation at the times ``t``, the first of which is that of ``y0``.

    Time is the first axis of the result. ``options`` are those of `solve_sde`.
    """
    times = t.tolist() if isinstance(t, Tensor) else [float(s) for s in t]
    span = times[0], times[-1]
    found = solve_sde(drift, diffusion, span, y0, t_eval=times, args=args, **options)
    return ad.map(lambda y: y.movedim(-1, 0), found.y)


# -- steps -----------------------------------------------------------------------------------------


def _noise(g: Tensor, dw: Tensor, noise: str) -> Tensor:
    return g @ dw if noise == "general" else g * dw


def _euler(
    f: Function, g: Function, t: Tensor, y: Tensor, h: Tensor, dw: Tensor, noise: str
) -> Tensor:
    return y + f(t, y) * h + _noise(g(t, y), dw, noise)


def _milstein(
    f: Function, g: Function, t: Tensor, y: Tensor, h: Tensor, dw: Tensor, noise: str
) -> Tensor:
    at = g(t, y)
    along: Tensor = jvp(lambda v: g(t, v), (y,), (at,))[1]
    return y + f(t, y) * h + at * dw + 0.5 * along * (dw * dw - h)


def _heun(
    f: Function, g: Function, t: Tensor, y: Tensor, h: Tensor, dw: Tensor, noise: str
) -> Tensor:
    slope, at = f(t, y), g(t, y)
    guess = y + slope * h + _noise(at, dw, noise)
    after, there = f(t + h, guess), g(t + h, guess)
    return y + 0.5 * (slope + after) * h + 0.5 * _noise(at + there, dw, noise)


_STEPS = {"euler": _euler, "milstein": _milstein, "heun": _heun}


# -- what is given ---------------------------------------------------------------------------------


def _check(method: str, noise: str, t_span: Any, t_eval: Any) -> None:
    if method not in METHODS:
        raise ValueError(
            f"solve_sde(): there is no method {method!r}; there are {', '.join(METHODS)}"
        )
    if noise not in NOISES:
        raise ValueError(f"solve_sde(): there is no noise {noise!r}; there are {', '.join(NOISES)}")
    if method == "milstein" and noise == "general":
        raise ValueError(
            "solve_sde(): Milstein's method needs the areas that general noise sweeps out, which "
            "are not drawn\n  fix: method='euler', or 'heun' for Stratonovich's equation"
        )
    if len(t_span) != 2 or not float(t_span[0]) < float(t_span[1]):
        raise ValueError(f"solve_sde(): t_span is {tuple(t_span)}, not a beginning and a later end")
    times = [*t_span, *([] if t_eval is None or not isinstance(t_eval, Tensor) else [t_eval])]
    if any(isinstance(t, Tensor) and t.requires_grad for t in times):
        raise ValueError(
            "solve_sde(): a Brownian path has no derivative by time\n  fix: t.detach()"
        )


def _functions(
    drift: Callable[..., Any],
    diffusion: Callable[..., Any],
    unknowns: Unknowns,
    args: tuple[Any, ...],
    noise: str,
) -> tuple[Function, Function]:
    def f(t: Tensor, v: Tensor) -> Tensor:
        return unknowns.vector(drift(t, unknowns.tree(v), *args), "the drift")

    def g(t: Tensor, v: Tensor) -> Tensor:
        made = diffusion(t, unknowns.tree(v), *args)
        if noise != "general":
            return unknowns.vector(made, "the diffusion")
        if not isinstance(made, Tensor) or made.ndim != 2 or made.shape[0] != unknowns.size:
            raise ValueError(
                f"solve_sde(): the diffusion is a matrix with {unknowns.size} rows where noise="
                f"'general', not {list(made.shape) if isinstance(made, Tensor) else type(made)}"
            )
        return made.to(unknowns.start.dtype)

    return f, g


def _shape_of_noise(g: Function, t: Tensor, y: Tensor, noise: str, method: str) -> tuple[int, ...]:
    if noise == "scalar":
        return ()
    if noise == "diagonal":
        if method == "milstein":
            _check_diagonal(g, t, y.detach())
        return (y.numel(),)
    with ad.no_grad():
        return (g(t, y).shape[1],)


def _check_diagonal(g: Function, t: Tensor, y: Tensor) -> None:
    """Milstein's method for diagonal noise holds if each element has a noise of its own alone."""
    with ad.no_grad():
        weights = 1 + ad.arange(y.numel(), dtype=y.dtype) % 7 / 3
        _, total = jvp(lambda v: g(t, v), (y,), (ad.ones_like(y),))
        _, probe = jvp(lambda v: g(t, v), (y,), (weights,))
        right = (probe - weights * total).abs() <= 1e-6 * (1 + probe.abs())
        must_hold(right, _not_diagonal)


def _marks(
    t0: float, t1: float, t_eval: Any, steps: int, path: BrownianPath
) -> tuple[list[float], list[int]]:
    """The ends of steps, and which of them are asked for."""
    if steps < 1:
        raise ValueError(f"solve_sde(): steps is {steps}; there must be one at least")
    if (t1 - t0) / steps < 2 * path.resolution:
        raise ValueError(
            f"solve_sde(): steps are shorter than {2 * path.resolution:.3g}, to which the path is "
            "drawn\n  fix: fewer steps, or path=BrownianPath(..., levels=30)"
        )
    if t_eval is None:
        marks = [t0 + (t1 - t0) * k / steps for k in range(steps)] + [t1]
        return marks, list(range(steps + 1))
    asked = t_eval.tolist() if isinstance(t_eval, Tensor) else [float(t) for t in t_eval]
    if sorted(set(asked)) != asked or not asked or asked[0] < t0 or asked[-1] > t1:
        raise ValueError(f"solve_sde(): t_eval must increase, from {t0:g} to {t1:g} at most")
    longest = (t1 - t0) / steps
    marks, places = [t0], []
    for t in asked:
        a = marks[-1]
        count = math.ceil((t - a) / longest - 1e-9)
        marks += [a + (t - a) * k / count for k in range(1, count)]
        if t > a:
            marks.append(t)
        places.append(len(marks) - 1)
    return marks, places


def _not_diagonal(holds: Tensor) -> Exception:
    return ValueError(
        "solve_sde(): the diffusion of an element depends on another one, for which Milstein's "
        "method does not hold\n  fix: method='euler', or 'heun' for Stratonovich's equation"
    )


def _not_finite(holds: Tensor) -> Exception:
    return ConvergenceError(
        "solve_sde(): the solution became NaN or infinite\n"
        "  fix: more steps, or look at drift and diffusion",
        OdeResult(success=False, status=-1, message="the solution became NaN or infinite"),
    )
