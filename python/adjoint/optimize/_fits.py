"""``curve_fit``, ``nnls``, ``lsq_linear``: common fits."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint._core import Tensor, _host_call, _is_recording, _own_memory
from adjoint._plain import refuse_structures
from adjoint._samples import batch_of, is_batched, must_hold
from adjoint.func import jacfwd

from ._conditions import Conditions, Found, Known
from ._constraints import bounds_of, constraints_of
from ._least_squares import as_ends, least_squares
from ._linear import linalg_error
from ._result import ConvergenceError, OptimizeResult
from ._scipy import scipy_optimize
from ._unknowns import Unknowns

__all__ = ["curve_fit", "lsq_linear", "nnls"]


def curve_fit(
    f: Callable[..., Any],
    xdata: Any,
    ydata: Any,
    p0: Any = None,
    sigma: Any = None,
    absolute_sigma: bool = False,
    check_finite: bool | None = None,
    bounds: Any = None,
    method: str | None = None,
    jac: Any = "exact",
    *,
    full_output: bool = False,
    nan_policy: str | None = None,
    **kwargs: Any,
) -> tuple[Any, ...]:
    """Fit ``f(xdata, *parameters)`` to ``ydata``; parameters and covariance are differentiable.

    Parameters
    ----------
    f
        The model. The number of its parameters is that of ``p0``, or of its arguments.
    xdata, ydata
        Tensors, or what `as_tensor` takes. Gradients go to both, and to what ``f`` reads.
    p0
        Where to begin; if it is not given, ones, or a place between the bounds, as in SciPy.
    sigma
        Errors of ``ydata``, one for each; or their covariance matrix.
    absolute_sigma
        Whether ``sigma`` is in the units of ``ydata``, or only relative.
    check_finite, nan_policy
        SciPy's; data that are not finite are refused in any case.
    bounds, method, jac, kwargs
        Those of `least_squares`.

    Returns
    -------
    popt, pcov
        The parameters, and their covariance matrix; with ``full_output=True`` also a dict of
        ``nfev`` and ``fvec``, a message, and SciPy's flag of success.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.linspace(0, 1, 9, dtype=ad.float64)
    >>> y = 3 * ad.exp(-2 * x)
    >>> popt, pcov = ad.optimize.curve_fit(lambda x, a, b: a * ad.exp(-b * x), x, y)
    >>> popt.round(decimals=6)
    tensor([3., 2.], dtype=torch.float64)
    """
    for what, data in (("xdata", xdata), ("ydata", ydata)):
        if isinstance(data, (dict, str)) or data is None:
            raise TypeError(
                f"curve_fit(): {what} must be a tensor, an array or numbers, got "
                f"{type(data).__name__}\n  fix: give a tensor; xdata may be a tuple of several"
            )
    refuse_structures("curve_fit", ydata, () if p0 is None else p0)
    ydata = ad.as_tensor(ydata)
    if not ydata.numel():
        raise ValueError("curve_fit(): `ydata` must not be empty!")
    ydata = ydata if ydata.is_floating_point() else ydata.to(ad.float64)
    xdata = ad.as_tensor(xdata) if not isinstance(xdata, tuple) else xdata
    if nan_policy not in (None, "raise"):
        raise ValueError(
            f"curve_fit(): nan_policy={nan_policy!r} is not there\n  fix: leave such data out"
        )
    if p0 is None:
        count = len(inspect.signature(f).parameters) - 1
        if count < 1:
            raise ValueError("curve_fit(): give p0, f does not tell how many parameters it has")
        p0 = _between(bounds, ad.ones(count, dtype=ydata.dtype))
    start = ad.as_tensor(p0).to(ydata.dtype).detach()
    scale = None if sigma is None else ad.as_tensor(sigma).to(ydata.dtype)
    factor = ad.linalg.cholesky(scale) if scale is not None and scale.ndim == 2 else None

    def residuals(p: Tensor) -> Tensor:
        model = f(xdata, *p.unbind(0))
        if isinstance(model, Tensor) and model.ndim and model.shape != ydata.shape:
            raise ValueError(
                f"curve_fit(): f gives {list(model.shape)} numbers where ydata has "
                f"{list(ydata.shape)}"
            )
        off: Tensor = (model - ydata).reshape(-1)
        if factor is not None:
            whitened: Tensor = ad.linalg.solve_triangular(factor, off.unsqueeze(1), upper=False)
            return whitened.squeeze(1)
        return off if scale is None else off / scale.reshape(-1)

    if "maxfev" in kwargs:  # SciPy's name where method is 'lm'
        kwargs["max_nfev"] = kwargs.pop("maxfev")
    found = least_squares(residuals, start, jac, bounds, method or "trf", **kwargs)
    p = found.x
    slope = jacfwd(residuals)(p)
    n, k = slope.shape
    try:
        covariance: Tensor = ad.linalg.inv(slope.mT @ slope)
    except linalg_error:
        covariance = ad.full((k, k), math.inf, dtype=p.dtype)
    if not absolute_sigma:
        rest = (residuals(p) ** 2).sum() / (n - k) if n > k else ad.tensor(math.inf, dtype=p.dtype)
        covariance = covariance * rest
    if full_output:
        info = {"nfev": found.nfev, "fvec": found.fun}
        return p, covariance, info, found.message, found.status
    return p, covariance


def _between(bounds: Any, ones: Tensor) -> Tensor:
    """Where SciPy begins: in the middle, or one away from a bound."""
    limits = bounds_of(as_ends(bounds), Unknowns(ones, "curve_fit"))
    if limits is None:
        return ones
    low, high = (end.detach() for end in limits)
    below, above = ad.isfinite(low), ad.isfinite(high)
    beside = ad.where(below, low + 1, ad.where(above, high - 1, 1.0))
    return ad.where(below & above, 0.5 * (low + high), beside)


def nnls(A: Any, b: Any, *, maxiter: int | None = None, atol: Any = None) -> tuple[Tensor, Tensor]:
    """Minimise ``‖A x - b‖`` over ``x >= 0``; differentiable by ``A`` and ``b``.

    Returns
    -------
    x, rnorm
        The solution, and the length of the residual.

    Examples
    --------
    >>> import adjoint as ad
    >>> A = ad.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=ad.float64)
    >>> ad.optimize.nnls(A, ad.tensor([1.0, 0.5], dtype=ad.float64))[0]
    tensor([0.7500, 0.0000], dtype=torch.float64)
    """
    refuse_structures("nnls", A, b)
    found = lsq_linear(A, b, (0.0, math.inf))
    return found.x, ad.linalg.vector_norm(found.fun)


def lsq_linear(
    A: Any,
    b: Any,
    bounds: Any = (-math.inf, math.inf),
    method: str = "bvls",
    tol: float = 1e-12,
    lsq_solver: str | None = None,
    lsmr_tol: Any = None,
    max_iter: int | None = None,
    verbose: int = 0,
) -> OptimizeResult:
    """Minimise ``‖A x - b‖²`` between bounds; differentiable by ``A``, ``b`` and the bounds.

    Parameters
    ----------
    A, b
        Tensors; `sparse.linalg.lsqr` takes sparse matrices, without bounds.
    bounds
        ``(low, high)``, numbers or tensors, or SciPy's `Bounds`.
    method, lsq_solver, lsmr_tol, max_iter, verbose
        SciPy's; both of its methods have one answer, which is found exactly.

    Returns
    -------
    OptimizeResult
        ``x``, ``fun`` (the residuals), ``cost``, ``active``, ``active_mask``, ``optimality``,
        ``nit``, ``status``, ``success``, ``message``.
    """
    if method not in ("trf", "bvls"):
        raise ValueError(f"lsq_linear(): method is 'trf' or 'bvls', got {method!r}")
    refuse_structures("lsq_linear", A, b)
    A, b = ad.as_tensor(A), ad.as_tensor(b)
    dtype = ad.promote_types(A.dtype, b.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = ad.float64  # as SciPy takes whole numbers
    A, b = A.to(dtype), b.to(dtype)
    if A.ndim != 2 or b.shape != A.shape[:1]:
        raise ValueError(
            f"expected a matrix and a vector with as many rows, got {list(A.shape)} and "
            f"{list(b.shape)}"
        )
    n = A.shape[1]
    for given in (A, b):
        must_hold(ad.isfinite(given), _not_finite)
    unknowns = Unknowns(ad.zeros(n, dtype=dtype), "lsq_linear")
    low, high = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") else bounds
    pairs = [(_at(low, k), _at(high, k)) for k in range(n)]
    limits = bounds_of(pairs, unknowns)
    assert limits is not None

    def result(x: Tensor, low: Tensor, high: Tensor, nit: Any) -> OptimizeResult:
        mask, fun = low | high, A @ x - b
        gradient = (A.mH @ fun).detach()
        return OptimizeResult(
            x=x,
            fun=fun,
            optimality=ad.where(mask, 0.0, gradient).abs().max(),
            status=1,
            cost=_half_square(A, b)(x),
            active=mask if is_batched(mask) or _is_recording() else ad.nonzero(mask).flatten(),
            active_mask=high.int() - low.int(),
            nit=nit,
            success=True,
            message="converged",
        )

    batch = batch_of(A, b, *limits)
    operands = [batch.whole(t.detach()) for t in (A, b, *limits)]
    if _is_recording():
        found = _host_call(lambda given: _each_minimum(given, tol), operands)
        x, low, high, nit = (batch.each(t) for t in found)
        none = constraints_of((), unknowns)
        conditions = Conditions(_half_square(A, b), limits, none, unknowns.start)
        return result(conditions.answer_at(x, low, high), low, high, nit)
    nearly, steps = _by_scipy(operands, tol)
    point = _minimum(A, b, limits, batch.each(nearly))
    return result(point.answer(), point.held.low, point.held.high, steps)


def _half_square(A: Tensor, b: Tensor) -> Callable[[Tensor], Tensor]:
    def cost(x: Tensor) -> Tensor:
        half: Tensor = 0.5 * ((A @ x - b) ** 2).sum()
        return half

    return cost


def _by_scipy(given: Sequence[Tensor], tol: float) -> tuple[Tensor, int]:
    """About the answers of all samples, which are in front, and the number of steps."""
    flat = [t.reshape(-1, *t.shape[t.ndim - n :]) for t, n in zip(given, (2, 1, 1, 1), strict=True)]
    answers, steps = [], 0
    for A, b, low, high in zip(*flat, strict=True):
        ends = low.numpy(), high.numpy()
        found = scipy_optimize().lsq_linear(A.numpy(), b.numpy(), ends, method="bvls", tol=tol)
        if not found.success:
            raise ConvergenceError(
                f"lsq_linear() found no minimum: {found.message}\n"
                "  fix: scale the columns of A to about one size, or a larger tol",
                OptimizeResult(x=found.x, success=False, message=str(found.message)),
            )
        answers.append(ad.from_numpy(found.x).to(A.dtype))
        steps += int(found.nit)
    return ad.stack(answers).reshape(given[2].shape), steps


def _minimum(A: Tensor, b: Tensor, limits: tuple[Tensor, Tensor], nearly: Tensor) -> Found:
    start = ad.zeros(A.shape[1], dtype=A.dtype)
    none = constraints_of((), Unknowns(start, "lsq_linear"))
    known = Known(lambda x: A.mT @ (A @ x - b), lambda _: A.mT @ A, True)
    point = Conditions(_half_square(A, b), limits, none, start).at(nearly, known)
    if not point.is_met((A.mT @ b).detach()):
        raise ConvergenceError(
            "lsq_linear() found no minimum: the gradient is not zero at SciPy's answer\n"
            "  fix: scale the columns of A to about one size",
            OptimizeResult(x=point.x, success=False, message="the gradient is not zero"),
        )
    return point


def _each_minimum(given: Sequence[Tensor], tol: float) -> list[Tensor]:
    """Of all samples, which are in front: answers, what is at a bound, and steps."""
    nearly, nit = _by_scipy(given, tol)
    depth = nearly.ndim - 1

    def one(A: Tensor, b: Tensor, low: Tensor, high: Tensor, x: Tensor) -> tuple[Tensor, ...]:
        point = _minimum(A, b, (low, high), x)
        return point.x, point.held.low, point.held.high

    each: Callable[..., tuple[Tensor, ...]] = one
    for _ in range(depth):
        each = ad.vmap(each)
    with ad.no_grad():
        found = each(*given, nearly)
    steps = ad.full(nearly.shape[:-1], nit)
    made: list[Tensor] = _own_memory([*found, steps], given)
    return made


def _not_finite(holds: Tensor) -> Exception:
    return ValueError(
        "lsq_linear(): A and b must not contain infs or NaNs\n  fix: leave such rows out"
    )


def _at(bound: Any, k: int) -> Any:
    bound = ad.as_tensor(bound)
    return bound if bound.ndim == 0 else bound[k]
