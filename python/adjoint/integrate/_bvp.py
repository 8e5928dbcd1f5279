"""``solve_bvp``: boundary value problems whose solutions are differentiable.

SciPy finds the mesh and the values (``_bvp_search.py``). The derivative is that of the answer of
the collocation equations on that mesh, by the implicit function theorem. Inside a recording the
mesh must be one that does not grow; the search is an instruction of the program then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import batch_of, everywhere, largest, must_hold
from adjoint.composite._ravel import ravel
from adjoint.func import jacfwd, jvp
from adjoint.optimize import ConvergenceError
from adjoint.optimize._implicit import answer
from adjoint.optimize._inside import Inside, is_inside
from adjoint.optimize._large import ByFactors
from adjoint.optimize._linear import Dense, Linear, linalg_error
from adjoint.optimize._unknowns import Unknowns

from ._bvp_search import CONVERGED, Limits, Mesh, Search
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
        SciPy's. Inside `compile` and `scan`, ``max_nodes=len(x)`` fixes the shape of the answer.

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
    return _Bvp(fun, bc, x, y, p).solved(Limits(float(tol), int(max_nodes), int(verbose), bc_tol))


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
        self._samples = bool(batch_of(self.y.detach(), f, ends).levels)
        must_hold(ad.isfinite(f), self._not_finite)

    def _not_finite(self, _: Tensor) -> ConvergenceError:
        return ConvergenceError(
            "solve_bvp(): the slope is NaN or infinite for the guess that was given\n"
            "  fix: another guess y, or look at fun",
            OdeResult(x=self.x, y=self.y, success=False, status=2),
        )

    def _check(self) -> None:
        wrong = ValueError("solve_bvp(): x must be a row of increasing numbers")
        if self.x.ndim != 1 or len(self.x) < 2:
            raise wrong
        must_hold(self.x[1:] > self.x[:-1], lambda _: wrong)
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

    def matrices(self, x: Tensor, y: Tensor, p: Tensor | None) -> list[Tensor]:
        """The derivatives of the slopes by state and parameters, at all nodes."""

        def along(unit: Tensor) -> Tensor:
            direction = unit[:, None].expand_as(y)
            moved: Tensor = jvp(lambda u: self.slope(x, u, p), (y,), (direction,))[1]
            return moved

        columns = ad.func.vmap(along)(ad.eye(y.shape[0], dtype=y.dtype))
        by_state = columns.movedim(0, 1)
        if p is None:
            return [by_state]
        return [by_state, jacfwd(lambda u: self.slope(x, y, u))(p).movedim(-1, 1)]

    # -- the answer --------------------------------------------------------------------------------

    def solved(self, limits: Limits) -> OdeResult:
        """The answer, found by SciPy."""
        if is_inside():
            made = self._inside(limits)
            if made is not None:
                return made
        found = Search(self.slope, self.conditions, self.matrices, self.x, self.y, self.p).found(
            limits
        )
        equations = self._equations(found.x, found.p)
        v = _polished(equations, found)
        return self._differentiable(equations, v, found)

    def _inside(self, limits: Limits) -> OdeResult | None:
        """The same as an instruction of the program that is recorded; None where it cannot be.

        The functions that the search calls are programs: at all nodes, and between them.
        """
        x, y, p = self.x, self.y.detach(), self.p
        if limits.max_nodes > len(x):
            _core._refuse_recording(
                "how many nodes solve_bvp() adds depends on values; fix: max_nodes=len(x), with a "
                "mesh that is fine enough"
            )
            return None
        rest = [] if p is None else [p]
        equations = self._equations(x, p)
        start = ad.cat([y.flatten(), *rest])
        place = Inside(lambda v: equations.residual(v), start)
        at, half = [x, y, *rest], [x[1:], y[:, 1:], *rest]

        def slope(x: Tensor, y: Tensor, p: Any = None) -> Tensor:
            return self.slope(x, y, p)

        def conditions(a: Tensor, b: Tensor, p: Any = None) -> Tensor:
            return self.conditions(a, b, p)

        def matrices(x: Tensor, y: Tensor, p: Any = None) -> list[Tensor]:
            return self.matrices(x, y, p)

        kinds: list[Any] = [(slope, at), (slope, half), (conditions, [y[:, 0], y[:, -1], *rest])]
        kinds += [(equations.residual, [start]), (equations.matrix, [start])]
        if not place.has_samples:
            kinds += [(matrices, at), (matrices, half)]
        if not place.takes(kinds):
            return None
        size = y.numel()

        def solve(functions: list[Any], operands: list[Tensor]) -> list[Tensor]:
            whole, half, ends, residual, matrix, *more = functions
            x, v = operands
            nodes = batch_of(x).whole(x).reshape(-1, x.shape[-1])[0]  # the same for all samples
            y, p = v[:size].reshape(-1, len(nodes)), None if v.numel() == size else v[size:]

            def of(pair: Any) -> Any:
                def call(x: Tensor, y: Tensor, p: Tensor | None) -> Any:
                    given = (x, y) if p is None else (x, y, p)
                    return pair[len(x) != len(nodes)](*given)

                return call

            def bounds(a: Tensor, b: Tensor, p: Tensor | None) -> Any:
                return ends(a, b) if p is None else ends(a, b, p)

            found = Search(of((whole, half)), bounds, of(more), nodes, y, p).found(limits)
            solved = _Equations(residual, Dense(matrix), found.x)
            errors = ad.from_numpy(np.array(found.result.rms_residuals)).to(y.dtype)
            return [_polished(solved, found), errors, ad.tensor(int(found.result.niter))]

        v, errors, steps = place.solved(solve, x, start)
        q = None if p is None else v[size:]
        return self._differentiable(
            equations, v, Mesh(x, v[:size].reshape(y.shape), q, None), errors, steps
        )

    def _equations(self, x: Tensor, p: Tensor | None) -> _Equations:
        """Those of collocation on a mesh."""
        n, m = self.y.shape[0], len(x)
        h = x[1:] - x[:-1]
        middle = x[:-1] + 0.5 * h

        def residual(v: Tensor) -> Tensor:
            y, q = v[: n * m].reshape(n, m), None if p is None else v[n * m :]
            f = self.slope(x, y, q)
            half = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (f[:, 1:] - f[:, :-1])
            inner = self.slope(middle, half, q)
            between = y[:, 1:] - y[:, :-1] - h / 6 * (f[:, :-1] + f[:, 1:] + 4 * inner)
            return ad.cat([between.flatten(), self.conditions(y[:, 0], y[:, -1], q)])

        size = n * m + (0 if p is None else p.numel())
        linear: Linear
        if size <= _WHOLE or self._samples or is_inside():
            groups, pattern = sparse_columns(_pattern(n, m, size - n * m))
            linear = Dense(lambda v: columns_by_groups(residual, v, groups, pattern))
        else:
            linear = ByFactors()
        return _Equations(residual, linear, x)

    def _differentiable(
        self, equations: _Equations, v: Tensor, found: Mesh, errors: Any = None, steps: Any = None
    ) -> OdeResult:
        """The answer of the collocation equations, with its derivatives."""
        x, result = found.x, found.result
        n, m = found.y.shape
        v = answer(equations.residual, v, equations.linear)
        values, q = v[: n * m].reshape(n, m), None if found.p is None else v[n * m :]
        slopes = self.slope(x, values, q)

        def sol(at: Any) -> Any:
            return _spline(x, values, slopes, ad.as_tensor(at, dtype=x.dtype), self._tree)

        if result is not None:
            errors, steps = ad.from_numpy(np.array(result.rms_residuals)), int(result.niter)
        return OdeResult(
            sol=sol,
            p=None if q is None else q.clone(),  # results of a program share no memory
            x=x,
            y=self._tree(values),
            yp=self._tree(slopes),
            rms_residuals=errors,
            niter=steps,
            status=0,
            message=CONVERGED if result is None else str(result.message),
            success=True,
        )


class _Equations(NamedTuple):
    """What the values at the nodes solve."""

    residual: Callable[[Tensor], Tensor]
    linear: Linear
    x: Tensor

    def matrix(self, v: Tensor) -> Tensor:
        """Their derivative."""
        return self.linear.matrix(self.residual, v)


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


def _polished(equations: _Equations, found: Mesh) -> Tensor:
    """Newton's method from an answer that SciPy found to its tolerance, with the matrix there."""
    residual, linear = equations.residual, equations.linear
    with ad.no_grad():
        v = found.y.flatten() if found.p is None else ad.cat([found.y.flatten(), found.p])
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
        status, message = int(found.result.status), str(found.result.message)
        raise ConvergenceError(
            "solve_bvp(): the collocation equations are not solved, the last change was "
            f"{largest(change)}\n  fix: a smaller tol",
            OdeResult(success=False, status=status, message=message),
        )
    return v


def _spline(x: Tensor, y: Tensor, slopes: Tensor, at: Tensor, tree: Any) -> Any:
    """The cubic of each interval, by values and slopes at its ends."""
    place = at.detach()

    def outside(_: Tensor, x: Tensor) -> ValueError:
        first, last = (float(x.reshape(-1)[k]) for k in (0, -1))
        return ValueError(
            f"solve_bvp(): a place lies outside of the interval from {first:g} to {last:g}"
        )

    must_hold((place >= x[0]) & (place <= x[-1]), outside, x)
    k = ad.searchsorted(x, place.reshape(-1).contiguous(), right=True) - 1
    k = k.clamp(0, len(x) - 2)
    h = (x[1:] - x[:-1])[k]
    s = (at.reshape(-1) - x[k]) / h
    a, b, da, db = y[:, k], y[:, k + 1], slopes[:, k], slopes[:, k + 1]
    step = b - a
    inner = (1 - 2 * s) * step + (s - 1) * h * da + s * h * db
    values = tree(a + s * step + s * (s - 1) * inner)
    return values if at.ndim else ad.map(lambda t: t[..., 0], values)
