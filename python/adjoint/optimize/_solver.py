"""Running a solver of nonlinear equations: ours, SciPy's, or the user's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint._core import Tensor
from adjoint._progress import CallsBar
from adjoint._samples import Arrays, batch_of, failing, is_batched, must_hold, somewhere

from ._inside import Inside, is_inside
from ._iteration import Iteration, Stop, norm
from ._large import ByPart, Large
from ._linear import Dense, Linear
from ._newton import newton, whole_step
from ._quasi_newton import anderson, broyden
from ._result import ConvergenceError, OptimizeResult
from ._scipy import Theirs, scipy_optimize
from ._unknowns import Unknowns, raise_unless_read

__all__ = ["Solver", "called"]

Function = Callable[[Tensor], Tensor]

OURS = ("newton", "broyden", "anderson")
SCIPYS = (
    "hybr",
    "lm",
    "broyden1",
    "broyden2",
    "linearmixing",
    "diagbroyden",
    "excitingmixing",
    "krylov",
    "df-sane",
)
_JACOBIAN_OF = ("hybr", "lm")
_MORE = {"fsolve": "maxfev=...", "newton": "maxiter=...", "fixed_point": "maxiter=..."}
_POLISHING = 10  # steps of Newton's method after SciPy's, at most: one is usual


class Solver:
    """An equation, and how exactly it is to be solved."""

    def __init__(
        self,
        name: str,
        residual: Function,
        linear: Linear,
        tolerance: float | None,
        callback: Any,
        options: dict[str, Any] | None,
        recorded: Any = None,
    ) -> None:
        self._name = name
        self._residual, self._linear = residual, linear
        self._tolerance, self._callback = tolerance, callback
        self._options = dict(options or {})
        self._recorded = recorded
        self._is_recorded = False  # the residual is a program, which has no derivatives

    def by_name(self, start: Tensor, method: str) -> OptimizeResult:
        """Solve from ``start``; ``x`` of the result is a vector without history."""
        inside = self._inside(start, method) if is_inside() else None
        if inside is not None:
            return inside
        if method in OURS:
            return self._by_ours(start, method)
        if method in SCIPYS:
            return self._by_scipy(start, method)
        raise ValueError(
            f"{self._name}(): there is no method {method!r}; there are {', '.join(OURS)}, and "
            f"SciPy's {', '.join(SCIPYS)}; or give a callable method(fun, x0, args)"
        )

    def _inside(self, start: Tensor, method: str) -> OptimizeResult | None:
        """The same as an instruction of the program that is recorded; counts are tensors then.

        None where that cannot be.
        """
        known = method in OURS or method in SCIPYS
        if not known or self._callback is not None:
            return None
        place = Inside(self._residual, start)
        if isinstance(self._linear, Large):
            return self._inside_by_part(place, self._linear, start, method)
        if not isinstance(self._linear, Dense):
            return None
        kinds: list[Any] = [(self._residual, [start]), (self._matrix, [start])]
        if method == "newton" and not place.has_samples:
            kinds.append((self._whole_step, [start, start, start.sum()]))
        if not place.takes(kinds):
            return None

        def solve(functions: list[Any], operands: list[Tensor]) -> list[Tensor]:
            residual, matrix, *step = functions
            recorded = (lambda x, r, size, _: step[0](x, r, size)) if step else None
            solver = Solver(
                self._name,
                residual,
                Dense(matrix),
                self._tolerance,
                None,
                self._options,
                recorded,
            )
            solver._is_recorded = True
            return _counted(solver.by_name(operands[0], method))

        return _uncounted(place.solved(solve, start))

    def _inside_by_part(
        self, place: Inside, linear: Large, start: Tensor, method: str
    ) -> OptimizeResult | None:
        """The same where the derivative is too large to be written down."""
        part = linear.part(self._residual, start, False)
        if part is None or place.has_samples:
            return None
        if not place.takes([(self._residual, [start]), (part.function, part.like)]):
            return None

        def solve(functions: list[Any], operands: list[Tensor]) -> list[Tensor]:
            residual, made = functions
            solver = Solver(
                self._name, residual, ByPart(linear, made), self._tolerance, None, self._options
            )
            solver._is_recorded = True
            return _counted(solver.by_name(operands[0], method))

        return _uncounted(place.solved(solve, start))

    def _whole_step(self, x: Tensor, r: Tensor, size: Tensor) -> tuple[Tensor, ...]:
        tolerance = Iteration("", x.dtype, self._tolerance, 0).tolerance
        return whole_step(self._residual, Dense(self._matrix), x, r, size, tolerance)

    def by_callable(self, solve: Callable[[], Tensor]) -> OptimizeResult:
        """Take what the user's solver returns, if it solves the equation."""
        with ad.no_grad():
            x = solve().detach()
            r = self._residual(x)
            self._check(x, r, "the solver that was given returned")
            return _result(x, r, "the solver that was given", 0, 1, 0)

    def _check(self, x: Tensor, r: Tensor, who: str) -> None:
        """Refuse an x that is not an answer: its derivative would be that of something else."""
        with ad.no_grad():
            step, solved = self._linear.newton_step(self._residual, x, r)
            loose = ad.finfo(x.dtype).eps ** 0.25
            fine = solved & (norm(step) <= loose * (1 + norm(x)))
            short = norm(step) <= loose * norm(x)
            if ad._core._is_recording() or somewhere(fine & ~short):
                # Either x is small because its unit is, and wrong; or the answer is zero but for
                # rounding: then Newton's method leads there.
                there = x - step
                further, _ = self._linear.newton_step(self._residual, there, self._residual(there))
                fine = fine & (short | (norm(there - further) <= 1e-3 * norm(step)))
        must_hold(fine, lambda _, *found: self._wrong(who, *found), x, r, norm(step))

    def _wrong(self, who: str, x: Tensor, r: Tensor, step: Tensor) -> ConvergenceError:
        return ConvergenceError(
            f"{self._name}(): {who} something that does not solve the equation: {_where(x, r)}, "
            f"and Newton's step from there is {_size(step)} long\n"
            "  fix: begin nearer to the answer, or ask the solver for more digits; where the step "
            "is not finite the answer is a multiple root, or the residual is: it has no derivative",
            _result(x, r, "not an answer", 0, 1, 0, False),
        )

    def _polished(self, x: Tensor) -> Tensor:
        """Newton's method from where SciPy stopped.

        Most of its tolerances are numbers for residuals of about one: in other units it stops
        early, or at the start, and calls that a success.
        """
        run = Iteration(self._name, x.dtype, None, _POLISHING)
        try:
            return newton(self._residual, x, self._linear, run).detach()
        except (Stop, ConvergenceError):  # the check will tell
            return x
        finally:
            run.end()

    def _more(self) -> str:
        """How the function that was called is told to go on."""
        return _MORE.get(self._name, "options={'maxiter': ...}")

    def _fix(self) -> str:
        return (
            f"  fix: begin nearer to the answer (x0), allow more steps ({self._more()}), look at "
            "the function where it is not finite, or try another method"
        )

    def _matrix(self, x: Tensor) -> Tensor:
        return self._linear.matrix(self._residual, x)

    def _by_ours(self, start: Tensor, method: str) -> OptimizeResult:
        options = dict(self._options)
        most = int(options.pop("maxiter", 100 if method == "newton" else 500))
        memory, mixing = int(options.pop("memory", 5)), float(options.pop("mixing", 1.0))
        if options:
            raise TypeError(
                f"{self._name}(): method {method!r} has no option {next(iter(options))!r}"
            )
        run = Iteration(
            f"{self._name} by {method}", start.dtype, self._tolerance, most, self._callback
        )
        with ad.no_grad():
            try:
                if method == "newton":
                    x = newton(self._residual, start, self._linear, run, self._recorded)
                elif method == "broyden":
                    x = broyden(self._residual, start, self._matrix, run)
                else:
                    x = anderson(self._residual, start, run, memory, mixing)
            except Stop as stop:
                if "singular" in stop.reason and not (self._is_recorded or is_batched(stop.r)):
                    raise_unless_read(self._name, "the residual", self._residual, start)
                result = _result(
                    stop.x, stop.r, stop.reason, run.steps, run.evaluations, run.jacobians, False
                )
                raise ConvergenceError(
                    f"{self._name}() by {method} found no answer: {stop.reason}. After "
                    f"{run.steps} steps {_where(stop.x, stop.r)}.\n"
                    "  fix: begin nearer to the answer (x0), allow more steps "
                    f"({self._more()}), or try another method",
                    result,
                ) from None
            finally:
                run.end()
            r = self._residual(x)
        return _result(x.detach(), r, "converged", run.steps, run.evaluations, run.jacobians)

    def _by_scipy(self, start: Tensor, method: str) -> OptimizeResult:
        with ad.no_grad(), CallsBar(f"{self._name} by {method}") as bar:
            arrays = Arrays(batch_of(self._residual(start)), start.dtype)
            each, flat, theirs = arrays.each, arrays.flat, Theirs()

            def slope(v: Any) -> Any:
                return arrays.blocks(self._matrix(each(v)))

            try:
                found = scipy_optimize().root(
                    theirs.watching(bar.counting(lambda v: flat(self._residual(each(v))))),
                    flat(start),
                    method=method,
                    jac=theirs.watching(slope) if method in _JACOBIAN_OF else None,
                    tol=self._tolerance,
                    callback=self._callback and theirs.watching(self._callback),
                    options=self._options,
                )
            except Theirs.kinds as error:
                if not theirs.is_scipys(error):
                    raise
                r = self._residual(start)
                raise ConvergenceError(
                    f"{self._name}() by SciPy's {method} found no answer: it ended in "
                    f"{type(error).__name__} ({error}). It began where {_where(start, r)}\n"
                    f"{self._fix()}",
                    _result(start, r, str(error), 0, 0, 0, False),
                ) from error
            x = each(found.x).detach()
            if found.success:
                x = self._polished(x)
            r = self._residual(x)
            result = _result(
                x, r, str(found.message), int(found.get("nit", 0)), int(found.get("nfev", 0)), 0
            )
            if not found.success:
                result.success = False
                raise ConvergenceError(
                    f"{self._name}() by SciPy's {method} found no answer: {found.message} "
                    f"{_where(x, r)}\n{self._fix()}",
                    result,
                )
            self._check(x, r, f"SciPy's {method} returned")
        return result


def _counted(found: OptimizeResult) -> list[Tensor]:
    return [found.x, found.fun, ad.tensor([found.nit, found.nfev, found.njev])]


def _uncounted(tensors: list[Tensor]) -> OptimizeResult:
    x, r, counts = tensors
    steps, calls, jacobians = counts.unbind()
    return _result(x, r, "converged", steps, calls, jacobians)


def called(
    method: Callable[..., Any], fun: Callable[..., Any], x0: Any, args: Any, unknowns: Unknowns
) -> Tensor:
    """What the user's method returns: an answer, or a result of SciPy's with one in it."""

    def on_arrays(x: Any, *rest: Any) -> Any:
        if not isinstance(x, (np.ndarray, np.generic)):
            return fun(x, *rest)
        tree = unknowns.tree(ad.from_numpy(np.array(x, dtype=float)).reshape(-1))
        return unknowns.vector(fun(tree, *rest), "the residual").detach().numpy()

    with CallsBar(unknowns.name) as bar:
        found = method(bar.counting(on_arrays), x0, args)
    if isinstance(found, dict) and "x" in found and "success" in found:
        if not found["success"]:
            raise ConvergenceError(
                f"{unknowns.name}(): the method that was given found no answer: "
                f"{found.get('message', '')}",
                OptimizeResult(found),
            )
        found = found["x"]
    return unknowns.vector(found, "the answer")


def _where(x: Tensor, r: Tensor) -> str:
    if is_batched(x, r) or r.ndim > 1:  # of all samples
        return f"{failing(r)}"
    return f"the residual is {_size(norm(r))} at x = {_short(x)}"


def _short(x: Tensor) -> str:
    values = ", ".join(f"{v:.6g}" for v in x[:4].tolist())
    return f"[{values}{', ...' if x.numel() > 4 else ''}]"


def _size(t: Tensor) -> str:
    if is_batched(t):
        t = batch_of(t).whole(t)
    return f"{float(t.max()):.3g}"


def _result(
    x: Tensor, r: Tensor, message: str, steps: Any, calls: Any, jacobians: Any, good: bool = True
) -> OptimizeResult:
    return OptimizeResult(
        x=x,
        success=good,
        status=1 if good else 0,  # as in SciPy's root
        message=message,
        fun=r.detach(),
        nit=steps,
        nfev=calls,
        njev=jacobians,
    )
