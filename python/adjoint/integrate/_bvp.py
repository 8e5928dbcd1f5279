"""``solve_bvp``: boundary value problems whose solutions are differentiable.

SciPy finds the mesh and the values (collocation with control of the residual). The derivative is
that of the answer of the collocation equations on that mesh, by the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint._core import Tensor
from adjoint._progress import CallsBar
from adjoint._samples import batch_of, everywhere, largest
from adjoint.composite._ravel import ravel
from adjoint.func import jacfwd, jvp
from adjoint.optimize import ConvergenceError
from adjoint.optimize._implicit import answer
from adjoint.optimize._large import ByFactors
from adjoint.optimize._linear import Dense, Linear, linalg_error
from adjoint.optimize._unknowns import Unknowns

from ._problem import OdeResult
from ._system import columns_by_groups, sparse_columns

__all__ = ["solve_bvp"]

_WHOLE = 100  # unknowns up to which a matrix with all its zeros costs less than its factors


def solve_bvp(
    fun: Callable[..., Any],
    bc: Callable[..., Any],
    x: Any,
    y: Any,
    p: Any = None,
    S: Any = None,
    fun_jac: Any = None,
    bc_jac: Any = None,
    tol: float = 1e-3,
    max_nodes: int = 1000,
    verbose: int = 0,
    bc_tol: float | None = None,
) -> OdeResult:
    """Solve ``dy/dx = fun(x, y, p)`` with ``bc(y(a), y(b), p) = 0``; the answer is differentiable.

    SciPy's function, with tensors: derivatives by everything that ``fun`` and ``bc`` read are those
    of the answer of the collocation equations on the final mesh.

    Parameters
    ----------
    fun
        ``fun(x, y)``, or ``fun(x, y, p)``: the slopes at all nodes, in the structure of ``y``.
    bc
        ``bc(ya, yb)``, or ``bc(ya, yb, p)``: as many conditions as there are numbers in ``ya`` and
        ``p``, as a tensor or a structure of tensors.
    x
        The first mesh: an increasing row of numbers.
    y
        A guess: a tensor of components by nodes, or a structure of tensors whose last axis are the
        nodes.
    p
        A guess of unknown parameters: a vector.
    S
        Not there: write the singular term into ``fun``, and begin beside the singular place.
    fun_jac, bc_jac
        Ignored: derivatives are exact.
    tol, max_nodes, verbose, bc_tol
        SciPy's.

    Returns
    -------
    OdeResult
        ``sol`` (a function of x), ``p``, ``x``, ``y``, ``yp``, ``rms_residuals``, ``niter``,
        ``status``, ``message``, ``success``.

    Raises
    ------
    ConvergenceError
        If the equations are not solved to ``tol`` with ``max_nodes``, or are singular.

    Examples
    --------
    >>> import adjoint as ad
    >>> k = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    >>> x = ad.linspace(0, 1, 11, dtype=ad.float64)
    >>> found = ad.integrate.solve_bvp(
    ...     lambda x, y: ad.stack([y[1], k * k * y[0]]),
    ...     lambda a, b: ad.stack([a[0] - 1, b[0]]),
    ...     x,
    ...     ad.zeros(2, 11, dtype=ad.float64),
    ...     tol=1e-6,
    ... )
    >>> found.sol(0.5)[0]  # sinh(1) / sinh(2)
    tensor(0.3240, dtype=torch.float64, grad_fn=<...>)
    """
    if S is not None:
        raise NotImplementedError(
            "solve_bvp(): there is no singular term S\n  fix: write S @ y / (x - a) into fun, and "
            "let the mesh begin a little after a"
        )
    problem = _Bvp(fun, bc, x, y, p)
    found = problem.found(float(tol), int(max_nodes), int(verbose), bc_tol)
    return problem.differentiable(found)


class _Bvp:
    """A problem on vectors: columns of y are nodes."""

    def __init__(self, fun: Any, bc: Any, x: Any, y: Any, p: Any) -> None:
        plain = isinstance(y, (list, tuple, np.ndarray))
        guess = _as_tensor(y) if plain else ad.map(_as_tensor, y)
        first = ad.map(lambda t: t[..., 0], guess)
        self._unknowns = Unknowns(first, "solve_bvp")
        self._fun, self._bc = fun, bc
        self.y = self._matrix(guess)
        self.x = _as_tensor(x).to(self.y.dtype).detach()
        self.p = None if p is None else ad.as_tensor(p, dtype=self.y.dtype).reshape(-1).detach()
        self._check()
        with ad.no_grad():
            f = self.slope(self.x, self.y, self.p)
            ends = self.conditions(self.y[:, 0], self.y[:, -1], self.p)
        wanted = self.y.shape[0] + (0 if self.p is None else self.p.numel())
        if ends.numel() != wanted:
            raise ValueError(
                f"solve_bvp(): bc gives {ends.numel()} conditions where y has {self.y.shape[0]} "
                f"components and p {wanted - self.y.shape[0]}"
            )
        if not everywhere(ad.isfinite(f)):
            raise ConvergenceError(
                "solve_bvp(): the slope is NaN or infinite for the guess that was given\n"
                "  fix: another guess y, or look at fun",
                OdeResult(x=self.x, y=self.y, success=False, status=2),
            )
        self._batch = batch_of(self.y.detach(), f.detach(), ends.detach())

    def _check(self) -> None:
        if self.x.ndim != 1 or len(self.x) < 2 or not bool((self.x[1:] > self.x[:-1]).all()):
            raise ValueError("solve_bvp(): x must be a row of increasing numbers")
        if self.y.shape[1] != len(self.x):
            raise ValueError(
                f"solve_bvp(): y has {self.y.shape[1]} nodes in its last axis where x has "
                f"{len(self.x)}"
            )

    # -- the problem on matrices -------------------------------------------------------------------

    def _matrix(self, tree: Any) -> Tensor:
        """A structure whose last axes are nodes as a matrix of components by nodes."""
        moved = ad.map(lambda t: t.movedim(-1, 0), tree)
        rows: Tensor = ad.func.vmap(lambda one: self._unknowns.vector(one, "y"))(moved)
        return rows.mT

    def _tree(self, matrix: Tensor) -> Any:
        trees = ad.func.vmap(self._unknowns.tree)(matrix.mT)
        return ad.map(lambda t: t.movedim(0, -1), trees)

    def slope(self, x: Tensor, y: Tensor, p: Tensor | None) -> Tensor:
        """The slopes at nodes."""
        rest = () if p is None else (p,)
        made = self._matrix(self._fun(x, self._tree(y), *rest))
        if made.shape != y.shape:
            raise ValueError(
                f"solve_bvp(): fun gives slopes of the shape {list(made.shape)} for {list(y.shape)}"
            )
        return made

    def conditions(self, a: Tensor, b: Tensor, p: Tensor | None) -> Tensor:
        """What is zero at the ends."""
        rest = () if p is None else (p,)
        made = self._bc(self._unknowns.tree(a), self._unknowns.tree(b), *rest)
        flat, _ = ravel(_as_tensor(made) if isinstance(made, (list, tuple)) else made)
        return flat.to(a.dtype)

    # -- by SciPy ----------------------------------------------------------------------------------

    def found(self, tol: float, max_nodes: int, verbose: int, bc_tol: float | None) -> Any:
        """SciPy's answer; samples of `vmap` are components of one problem, on one mesh."""
        from scipy.integrate import solve_bvp as by_scipy

        n, samples = self.y.shape[0], int(np.prod(self._batch.shape))

        def each(array: Any, *axes: int) -> Tensor:
            given = ad.from_numpy(np.array(array, dtype=float)).to(self.y.dtype)
            return self._batch.each(given.reshape(*self._batch.shape, *axes))

        def whole(t: Tensor) -> Any:
            return self._batch.whole(t.detach()).double().numpy()

        def split(p: Any) -> Any:
            return None if self.p is None else each(p, self.p.numel())

        def slope(x: Any, y: Any, p: Any = None) -> Any:
            with ad.no_grad():
                t = ad.from_numpy(np.array(x)).to(self.y.dtype)
                return whole(self.slope(t, each(y, n, len(x)), split(p))).reshape(-1, len(x))

        def conditions(a: Any, b: Any, p: Any = None) -> Any:
            with ad.no_grad():
                return whole(self.conditions(each(a, n), each(b, n), split(p))).ravel()

        guess = whole(self.y).reshape(samples * n, -1)
        start = None if self.p is None else whole(self.p).ravel()
        exact = {} if self._batch.levels else {"fun_jac": self._slope_matrix}
        with np.errstate(all="ignore"), CallsBar("solve_bvp") as bar:
            result = by_scipy(
                bar.counting(slope),
                conditions,
                self.x.double().numpy(),
                guess,
                start,
                tol=tol,
                max_nodes=max_nodes,
                verbose=verbose,
                bc_tol=bc_tol,
                **exact,
            )
        if not result.success:
            raise _stopped(result)
        mesh = ad.from_numpy(np.array(result.x)).to(self.y.dtype)
        parameters = None if self.p is None else each(result.p, self.p.numel())
        return result, mesh, each(result.y, n, len(result.x)), parameters

    def _slope_matrix(self, x: Any, y: Any, p: Any = None) -> Any:
        """The derivatives of the slope by state and parameters, at all nodes."""
        with ad.no_grad():
            t, v = (ad.from_numpy(np.array(a)).to(self.y.dtype) for a in (x, y))
            q = None if p is None else ad.from_numpy(np.array(p)).to(self.y.dtype)

            def along(unit: Tensor) -> Tensor:
                direction = unit[:, None].expand_as(v)
                moved: Tensor = jvp(lambda u: self.slope(t, u, q), (v,), (direction,))[1]
                return moved

            n = v.shape[0]
            columns = ad.func.vmap(along)(ad.eye(n, dtype=v.dtype))
            by_state = columns.movedim(0, 1).detach().double().numpy()
            if q is None:
                return by_state
            by_p = jacfwd(lambda u: self.slope(t, v, u))(q)
            return by_state, by_p.movedim(-1, 1).detach().double().numpy()

    # -- the answer --------------------------------------------------------------------------------

    def differentiable(self, found: Any) -> OdeResult:
        """The answer of the collocation equations, with its derivatives."""
        result, x, y, p = found
        n, m = y.shape
        h = x[1:] - x[:-1]
        middle = x[:-1] + 0.5 * h

        def parts(v: Tensor) -> tuple[Tensor, Tensor | None]:
            return v[: n * m].reshape(n, m), None if p is None else v[n * m :]

        def residual(v: Tensor) -> Tensor:
            y, q = parts(v)
            f = self.slope(x, y, q)
            half = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (f[:, 1:] - f[:, :-1])
            inner = self.slope(middle, half, q)
            between = y[:, 1:] - y[:, :-1] - h / 6 * (f[:, :-1] + f[:, 1:] + 4 * inner)
            return ad.cat([between.flatten(), self.conditions(y[:, 0], y[:, -1], q)])

        v = y.flatten() if p is None else ad.cat([y.flatten(), p])
        linear: Linear
        if v.numel() <= _WHOLE or self._batch.levels:
            groups, pattern = sparse_columns(_pattern(n, m, 0 if p is None else p.numel()))
            linear = Dense(lambda v: columns_by_groups(residual, v, groups, pattern))
        else:
            linear = ByFactors()
        v = answer(residual, _polished(residual, v, linear, result), linear)
        values, q = parts(v)
        slopes = self.slope(x, values, q)

        def sol(at: Any) -> Any:
            return _spline(x, values, slopes, ad.as_tensor(at, dtype=y.dtype), self._tree)

        return OdeResult(
            sol=sol,
            p=q,
            x=x,
            y=self._tree(values),
            yp=self._tree(slopes),
            rms_residuals=ad.from_numpy(np.array(result.rms_residuals)),
            niter=int(result.niter),
            status=int(result.status),
            message=str(result.message),
            success=True,
        )


def _as_tensor(thing: Any) -> Tensor:
    if isinstance(thing, (list, tuple)) and any(isinstance(t, Tensor) for t in thing):
        return ad.stack([ad.as_tensor(t) for t in thing])
    made = ad.as_tensor(thing)
    return made if made.is_floating_point() or made.is_complex() else made.double()


def _pattern(n: int, m: int, k: int) -> Any:
    """Which equations read which unknowns: an interval its two nodes, the conditions both ends."""
    pattern = np.zeros((n, m - 1, n, m), dtype=bool)
    nodes = np.arange(m - 1)
    pattern[:, nodes, :, nodes] = True
    pattern[:, nodes, :, nodes + 1] = True
    ends = np.zeros((n + k, n, m), dtype=bool)
    ends[:, :, [0, -1]] = True
    states = np.concatenate([pattern.reshape(n * (m - 1), n * m), ends.reshape(n + k, n * m)])
    return np.concatenate([states, np.ones((len(states), k), dtype=bool)], axis=1)


def _factors(residual: Any, v: Tensor, linear: Linear) -> tuple[Any, Tensor]:
    linear.solve(residual, v, ad.zeros_like(v))  # raises where there is none
    return (lambda b: linear.solve(residual, v, b)), ad.tensor(True)


def _polished(residual: Any, v: Tensor, linear: Linear, result: Any) -> Tensor:
    """Newton's method from an answer that SciPy found to its tolerance, with the matrix there."""
    with ad.no_grad():
        v = v.detach()
        try:
            solve, good = linear.factored(residual, v) or _factors(residual, v, linear)
        except linalg_error:
            good = ad.tensor(False)
        if not everywhere(good):
            raise ConvergenceError(
                "solve_bvp(): the collocation equations are singular at the answer, so that it is "
                "not isolated and has no derivative\n"
                "  fix: add the condition that picks one answer",
                OdeResult(success=False, status=2, message="singular"),
            )
        for _ in range(10):
            change = solve(residual(v))
            v = v - change
            small = 1e-13 * v.abs().amax()
            if everywhere(change.abs().amax() <= small):
                return v
    if not everywhere(change.abs().amax() <= 1e-8 * v.abs().amax()):
        raise ConvergenceError(
            "solve_bvp(): the collocation equations are not solved, the last change was "
            f"{largest(change)}\n  fix: a smaller tol",
            OdeResult(success=False, status=int(result.status), message=str(result.message)),
        )
    return v


def _spline(x: Tensor, y: Tensor, slopes: Tensor, at: Tensor, tree: Any) -> Any:
    """The cubic of each interval, by values and slopes at its ends."""
    place = at.detach()
    if bool(((place < x[0]) | (place > x[-1])).any()):
        raise ValueError(
            f"solve_bvp(): a place lies outside of the interval from {float(x[0]):g} to "
            f"{float(x[-1]):g}"
        )
    k = ad.searchsorted(x, place.reshape(-1).contiguous(), right=True) - 1
    k = k.clamp(0, len(x) - 2)
    h = (x[1:] - x[:-1])[k]
    s = (at.reshape(-1) - x[k]) / h
    a, b, da, db = y[:, k], y[:, k + 1], slopes[:, k], slopes[:, k + 1]
    step = b - a
    inner = (1 - 2 * s) * step + (s - 1) * h * da + s * h * db
    values = tree(a + s * step + s * (s - 1) * inner)
    return values if at.ndim else ad.map(lambda t: t[..., 0], values)


def _stopped(result: Any) -> ConvergenceError:
    reasons = {
        1: "the mesh has no room for more nodes (max_nodes)",
        2: "a singular Jacobian: the guess, or the conditions, do not determine a solution",
        3: "the conditions at the ends are not met to bc_tol",
    }
    left = float(np.max(result.rms_residuals)) if len(result.rms_residuals) else float("nan")
    why = reasons.get(int(result.status), str(result.message))
    return ConvergenceError(
        f"solve_bvp() stopped after {result.niter} iterations with {len(result.x)} nodes: {why}; "
        f"the largest residual is {left:.3g}\n"
        "  fix: a better guess y, a larger tol, or more nodes (max_nodes=)",
        OdeResult(x=result.x, y=result.y, success=False, status=int(result.status), message=why),
    )
