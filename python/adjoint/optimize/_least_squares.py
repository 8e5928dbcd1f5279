"""``least_squares``: SciPy's methods, handed exact Jacobians; the answer is differentiable."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._evaluated import each_input_once
from adjoint._progress import CallsBar
from adjoint._samples import Arrays, batch_of, everywhere, is_batched, largest
from adjoint.func import grad, jacfwd, jacobian, jacrev

from ._conditions import LARGE, Conditions, Found, Known
from ._constraints import bounds_of, constraints_of
from ._inside import Inside, is_inside
from ._often import Lately, Often
from ._result import ConvergenceError, OptimizeResult
from ._scipy import scipy_optimize
from ._unknowns import Unknowns, as_arguments, raise_unless_read

__all__ = ["as_ends", "least_squares"]

Function = Callable[[Tensor], Tensor]

_DIFFERENCES = ("2-point", "3-point", "cs")  # SciPy's, for a Jacobian that is exact here

# rho(z) of SciPy's losses; the cost is the sum of half of them at the squares of the residuals.
_LOSSES: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (ad.sqrt(1 + z) - 1),
    "huber": lambda z: ad.where(z <= 1, z, 2 * ad.sqrt(ad.where(z <= 1, 1.0, z)) - 1),
    "cauchy": ad.log1p,
    "arctan": ad.atan,
}


@each_input_once
def least_squares(
    fun: Callable[..., Any],
    x0: Any,
    jac: Any = "exact",
    bounds: Any = None,
    method: str = "trf",
    ftol: float | None = 1e-12,
    xtol: float | None = 1e-12,
    gtol: float | None = 1e-12,
    x_scale: Any = 1.0,
    loss: str = "linear",
    f_scale: float = 1.0,
    diff_step: Any = None,
    tr_solver: str | None = None,
    tr_options: dict[str, Any] | None = None,
    jac_sparsity: Any = None,
    max_nfev: int | None = None,
    verbose: int = 0,
    args: Any = (),
    kwargs: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find the parameters for which the sum of squares of residuals is least; differentiable.

    The methods are those of `scipy.optimize.least_squares`, with its names. They are handed exact
    Jacobians. The derivative is that of the answer, by the implicit function theorem on the exact
    conditions of a minimum (not those of Gauss and Newton), with the bounds that hold.

    Parameters
    ----------
    fun
        ``fun(x, *args, **kwargs)`` gives the residuals, in any structure.
    x0
        Where to begin: a tensor, a number, or a structure of tensors.
    jac
        ``"exact"``, or ``"sparse"``: by colours of the pattern that is found in the graph of
        ``fun``; the result has a sparse ``jac`` then, and so has the derivative of the answer.
        SciPy's ``"2-point"``, ``"3-point"``, ``"cs"`` and functions are taken as ``"exact"``.
    bounds
        SciPy's pair ``(low, high)``, each for all or a sequence; a list of any other length has one
        pair for each number. They may be tensors: the answer is differentiable by them as well.
    method, ftol, xtol, gtol, x_scale, loss, f_scale, tr_solver, tr_options, max_nfev, verbose
        SciPy's; tolerances are tighter here.
    diff_step, jac_sparsity
        Not needed: no differences are taken. A pattern is the same as ``jac="sparse"``.

    Returns
    -------
    OptimizeResult
        ``x``, ``cost``, ``fun`` (these are differentiable), ``jac``, ``grad``, ``active``,
        ``active_mask``, ``optimality``, ``nfev``, ``njev``, ``success``, ``message``.

    Examples
    --------
    >>> import adjoint as ad
    >>> t = ad.linspace(0, 1, 5, dtype=ad.float64)
    >>> y = (2 * ad.exp(-t)).requires_grad_()
    >>> fit = ad.optimize.least_squares(lambda p: p[0] * ad.exp(-p[1] * t) - y, [1.0, 0.0])
    >>> fit.x.detach().round(decimals=9)
    tensor([2., 1.], dtype=torch.float64)
    """
    if loss not in _LOSSES:
        raise ValueError(f"least_squares(): loss is one of {', '.join(_LOSSES)}, got {loss!r}")
    if not callable(jac) and jac not in ("exact", "sparse", *_DIFFERENCES):
        raise ValueError(
            "least_squares(): jac is 'exact', 'sparse', a function, or one of SciPy's "
            f"{', '.join(map(repr, _DIFFERENCES))}; got {jac!r}"
        )
    is_sparse = jac == "sparse" or jac_sparsity is not None
    unknowns = Unknowns(x0, "least_squares")
    arguments, named = as_arguments(args), kwargs or {}

    def residuals(v: Tensor) -> Tensor:
        value = fun(unknowns.tree(v), *arguments, **named)
        if value is None or isinstance(value, str):
            raise TypeError(f"least_squares(): fun gives {value!r}, not the residuals as tensors")
        parts = _tree.flatten(value)[0]
        return ad.cat([unknowns.real(ad.as_tensor(p).reshape(-1)).to(v.dtype) for p in parts])

    def weighed(r: Tensor) -> Tensor:
        return 0.5 * f_scale**2 * _LOSSES[loss]((r / f_scale) ** 2).sum()

    def cost(v: Tensor) -> Tensor:
        return weighed(residuals(v))

    def with_history(found: OptimizeResult, x: Tensor) -> OptimizeResult:
        found.x, found.fun = unknowns.tree(x), residuals(x)
        found.cost = weighed(found.fun)
        return found

    limits = bounds_of(as_ends(bounds), unknowns)
    settings = {"method": method, "ftol": ftol, "xtol": xtol, "gtol": gtol, "x_scale": x_scale}
    settings |= {"loss": loss, "f_scale": f_scale, "max_nfev": max_nfev, "verbose": verbose}
    settings |= {"tr_solver": tr_solver, "tr_options": tr_options or {}}
    fit = _Fit(residuals, cost, limits, unknowns, settings)
    if is_inside() and not is_sparse:
        inside = fit.inside()
        if inside is not None:
            return with_history(inside, inside.x)
    result, point = fit.found(is_sparse)
    return with_history(result, point.answer())


class _Fit(NamedTuple):
    """Residuals, half the sum of whose squares (or of what a loss makes of them) is least."""

    residuals: Function
    cost: Function
    limits: tuple[Tensor, Tensor] | None
    unknowns: Unknowns
    settings: dict[str, Any]

    def found(
        self, is_sparse: bool, programs: tuple[Function, ...] = ()
    ) -> tuple[OptimizeResult, Found]:
        """What SciPy found, with the conditions there.

        ``programs`` are the residuals, their derivative, and, unless the conditions of Gauss and
        Newton do, the first two of the cost.
        """
        residuals, cost, limits, unknowns, settings = self
        method = settings["method"]
        with ad.no_grad():
            start = unknowns.start
            at_start = residuals(start)
            if not everywhere(ad.isfinite(at_start)):
                raise ConvergenceError(
                    "least_squares(): residuals are NaN or infinite at the start, where unknowns "
                    f"are up to {largest(start)}\n  fix: begin elsewhere (x0, or p0 of curve_fit), "
                    "or look at the function and the data there",
                    OptimizeResult(x=unknowns.tree(start), success=False, message="not finite"),
                )
            arrays = Arrays(batch_of(at_start, *(limits or ())), start.dtype)
            each, flat = arrays.each, arrays.flat
            if method == "lm" and arrays.shape:
                raise NotImplementedError(
                    "least_squares(): SciPy's 'lm' takes one problem at a time, not the "
                    f"{arrays.shape} samples of vmap\n  fix: use method='trf'"
                )
            by_rows = at_start.numel() < unknowns.size
            often = programs[:2] or (
                Often(residuals),
                Often(residuals, jacrev if by_rows else jacfwd),
            )
            here, matrix = map(Lately, often)
            sparse = jacobian(residuals) if is_sparse else None

            def slope(v: Tensor) -> Tensor:
                product: Tensor = here(v) @ matrix(v)
                return product

            def gauss_newton(v: Tensor) -> Tensor:
                product: Tensor = matrix(v).mT @ matrix(v)
                return product

            # SciPy's tolerance of the gradient is for residuals of about one.
            height = float(np.abs(flat(at_start)).max(initial=0.0))
            height = 1.0 if not 0 < height < math.inf or 0.01 < height < 100 else height
            scaled = {**settings, "f_scale": settings["f_scale"] / height}

            def derivative(v: Any) -> Any:
                if sparse is not None and not arrays.shape:
                    return sparse(each(v)) / height
                return arrays.blocks(matrix(each(v))) / height

            is_plain = settings["loss"] == "linear" and not is_sparse
            gradient = slope if is_plain else programs[2] if programs else grad(cost)
            before = gradient(start)
            if not programs and not is_batched(before) and not bool((before != 0).any()):
                raise_unless_read("least_squares", "what fun gives", residuals, start)
            given: dict[str, Any] = {}
            if limits is not None:
                given["bounds"] = tuple(flat(b) for b in limits)
            with CallsBar(f"least_squares by {method}") as bar:
                found = scipy_optimize().least_squares(
                    bar.counting(lambda v: flat(here(each(v))) / height),
                    flat(start),
                    jac=derivative,
                    **scaled,
                    **given,
                )
        how = "sparse" if is_sparse and not arrays.shape else None
        conditions = Conditions(cost, limits, constraints_of((), unknowns), start, how)
        enough = settings["xtol"] or 0.0
        known = Known(slope, gauss_newton, enough=enough) if is_plain else None
        if programs[2:]:
            known = Known(programs[2], programs[3], True)
        point = conditions.at(each(found.x), known)
        with ad.no_grad():
            inner = point.x
            result = OptimizeResult(
                cost=here(inner).square().sum() / 2 if is_plain else cost(inner).detach(),
                fun=here(inner).detach(),
                jac=sparse(inner) if how and sparse else matrix(inner).detach(),
                grad=gradient(inner).detach(),
                active=point.active(),
                active_mask=point.active_mask(),
                optimality=_optimality(gradient(inner).detach(), point),
                nfev=int(found.nfev),
                njev=int(found.njev or 0),
                status=int(found.status),
                success=bool(found.success),
                message=str(found.message),
            )
        if not found.success or not point.is_finite() or not point.is_met(before):
            result.success, result.x = False, unknowns.tree(inner)
            raise ConvergenceError(
                f"least_squares() by {method} found no minimum: {found.message} After "
                f"{result.nfev} evaluations the cost is {largest(result.cost)}, its gradient up to "
                f"{largest(result.grad)}.\n  fix: begin nearer to it (x0), or allow more "
                f"(max_nfev=...)",
                result,
            )
        return result, point

    def inside(self) -> OptimizeResult | None:
        """The fit as an instruction of the program that is recorded; None where it cannot be one.

        Counts are tensors then, and ``active`` is a mask.
        """
        residuals, cost, limits, unknowns, settings = self
        start, slope = unknowns.start, grad(cost)
        if unknowns.size > LARGE:
            return None
        of_minimum = Conditions(cost, limits, constraints_of((), unknowns), start)
        by_rows = self._count() < unknowns.size
        kinds = [cost, residuals, (jacrev if by_rows else jacfwd)(residuals)]
        if settings["loss"] != "linear" or of_minimum.is_differentiated(start):
            kinds += [slope, jacfwd(slope)]
        place = Inside(residuals, start, *(limits or ()))
        if not place.takes([(function, [start]) for function in kinds]):
            return None

        def solve(functions: list[Any], operands: list[Tensor]) -> list[Tensor]:
            at, *bounds = operands
            ends = (bounds[0], bounds[1]) if bounds else None
            fit = _Fit(functions[1], functions[0], ends, unknowns.moved(at), settings)
            result, point = fit.found(False, tuple(functions[1:]))
            counts = ad.tensor([result.nfev, result.njev])
            held = point.held
            fields = [result.cost, result.fun, result.jac, result.grad, counts]
            return [point.answer(), *fields, held.low, held.high]

        x, *fields, counts, low, high = place.solved(solve, start, *(limits or ()))
        nfev, njev = counts.unbind()
        return OptimizeResult(
            x=of_minimum.answer_at(x, low, high),
            **dict(zip(("cost", "fun", "jac", "grad"), fields, strict=True)),
            active=low | high,
            active_mask=high.int() - low.int(),
            optimality=ad.where(low | high, 0.0, fields[3]).abs().max(),
            nfev=nfev,
            njev=njev,
            status=1,
            success=True,
            message="converged",
        )

    def _count(self) -> int:
        def count() -> int:
            with ad.no_grad():
                return int(self.residuals(self.unknowns.start).numel())

        found: int = _core._unrecorded(count)
        return found


def _optimality(gradient: Tensor, point: Found) -> Tensor:
    """The largest part of the gradient where no bound holds."""
    return ad.where(point.active_mask() != 0, 0.0, gradient).abs().max()


def as_ends(bounds: Any) -> Any:
    """SciPy's form here is a pair of all lows and all highs."""
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        return bounds
    return _Ends(*bounds)


class _Ends:
    def __init__(self, low: Any, high: Any) -> None:
        self.lb, self.ub = low, high
