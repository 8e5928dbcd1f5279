"""``least_squares``: SciPy's methods, handed exact Jacobians; the answer is differentiable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._evaluated import each_input_once
from adjoint._samples import Arrays, batch_of, largest
from adjoint.func import grad, jacfwd, jacobian, jacrev

from ._conditions import Conditions, Known
from ._constraints import bounds_of, constraints_of
from ._often import Lately, Often
from ._result import ConvergenceError, OptimizeResult
from ._scipy import scipy_optimize
from ._unknowns import Unknowns, as_arguments

__all__ = ["least_squares"]

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
    jac: str = "exact",
    bounds: Any = None,
    method: str = "trf",
    ftol: float | None = 1e-12,
    xtol: float | None = 1e-12,
    gtol: float | None = 1e-12,
    x_scale: Any = 1.0,
    loss: str = "linear",
    f_scale: float = 1.0,
    max_nfev: int | None = None,
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
    bounds
        SciPy's pair ``(low, high)``, each for all or a sequence; or one pair for each number. They
        may be tensors: the answer is differentiable by them as well.
    method, ftol, xtol, gtol, x_scale, loss, f_scale, max_nfev
        SciPy's; tolerances are tighter here.

    Returns
    -------
    OptimizeResult
        ``x``, ``cost``, ``fun``, ``jac``, ``grad``, ``active``, ``nfev``, ``njev``, ``success``,
        ``message``.

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
    if jac not in ("exact", "sparse"):
        raise ValueError(
            f"least_squares(): jac is 'exact' or 'sparse', got {jac!r}: differences are not needed"
        )
    unknowns = Unknowns(x0, "least_squares")
    arguments, named = as_arguments(args), kwargs or {}

    def residuals(v: Tensor) -> Tensor:
        value = fun(unknowns.tree(v), *arguments, **named)
        parts = value if isinstance(value, (list, tuple)) else [value]
        return ad.cat([unknowns.real(ad.as_tensor(p).reshape(-1)).to(v.dtype) for p in parts])

    def cost(v: Tensor) -> Tensor:
        return 0.5 * f_scale**2 * _LOSSES[loss]((residuals(v) / f_scale) ** 2).sum()

    limits = bounds_of(_as_pairs(bounds, unknowns), unknowns)
    with ad.no_grad():
        start = unknowns.start
        at_start = residuals(start)
        arrays = Arrays(batch_of(at_start, *(limits or ())), start.dtype)
        each, flat = arrays.each, arrays.flat
        if method == "lm" and arrays.shape:
            raise NotImplementedError(
                "least_squares(): SciPy's 'lm' takes one problem at a time, not the "
                f"{arrays.shape} samples of vmap\n  fix: use method='trf'"
            )
        by_rows = at_start.numel() < unknowns.size
        matrix = Lately(Often(residuals, jacrev if by_rows else jacfwd))
        here = Lately(Often(residuals))
        sparse = jacobian(residuals) if jac == "sparse" else None

        def slope(v: Tensor) -> Tensor:
            product: Tensor = here(v) @ matrix(v)
            return product

        def gauss_newton(v: Tensor) -> Tensor:
            product: Tensor = matrix(v).mT @ matrix(v)
            return product

        def derivative(v: Any) -> Any:
            if sparse is not None and not arrays.shape:
                return sparse(each(v))
            return arrays.blocks(matrix(each(v)))

        is_plain = loss == "linear" and jac != "sparse"
        before = slope(start) if is_plain else grad(cost)(start)
        given: dict[str, Any] = {}
        if limits is not None:
            given["bounds"] = tuple(flat(b) for b in limits)
        found = scipy_optimize().least_squares(
            lambda v: flat(here(each(v))),
            flat(start),
            jac=derivative,
            method=method,
            ftol=ftol,
            xtol=xtol,
            gtol=gtol,
            x_scale=x_scale,
            loss=loss,
            f_scale=f_scale,
            max_nfev=max_nfev,
            **given,
        )
    how = "sparse" if jac == "sparse" and not arrays.shape else None
    conditions = Conditions(cost, limits, constraints_of((), unknowns), unknowns.start, how)
    known = Known(slope, gauss_newton, xtol or 0.0) if is_plain else None
    point = conditions.at(each(found.x), known)
    x = point.answer()
    answered = unknowns.tree(x)
    with ad.no_grad():
        inner = x.detach()
        result = OptimizeResult(
            x=answered,
            cost=here(inner).square().sum() / 2 if is_plain else cost(inner).detach(),
            fun=here(inner).detach(),
            jac=sparse(inner) if how and sparse else matrix(inner).detach(),
            grad=slope(inner) if is_plain else grad(cost)(inner).detach(),
            active=point.active(),
            nfev=int(found.nfev),
            njev=int(found.njev or 0),
            status=int(found.status),
            success=bool(found.success),
            message=str(found.message),
        )
    if not found.success or not point.is_finite() or not point.is_met(before):
        result.success = False
        raise ConvergenceError(
            f"least_squares() by {method} found no minimum: {found.message} After {result.nfev} "
            f"evaluations the cost is {largest(result.cost)}, its gradient up to "
            f"{largest(result.grad)}.\n  fix: begin nearer to it (x0), or allow more "
            f"(max_nfev=...)",
            result,
        )
    return result


def _as_pairs(bounds: Any, unknowns: Unknowns) -> Any:
    """SciPy's form here is a pair of all lows and all highs."""
    if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
        return bounds
    if unknowns.size == 2 and all(isinstance(b, tuple) for b in bounds):
        return bounds  # two pairs
    return _Ends(*bounds)


class _Ends:
    def __init__(self, low: Any, high: Any) -> None:
        self.lb, self.ub = low, high
