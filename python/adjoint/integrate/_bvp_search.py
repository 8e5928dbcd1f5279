"""The search for the solution of a boundary value problem, by SciPy: on a mesh that grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjoint as ad
from adjoint._core import Tensor
from adjoint._progress import CallsBar
from adjoint._samples import batch_of
from adjoint.optimize import ConvergenceError

from ._problem import OdeResult

__all__ = ["CONVERGED", "Limits", "Mesh", "Search"]

CONVERGED = "The algorithm converged to the desired accuracy."

Slope = Callable[[Tensor, Tensor, Tensor | None], Any]


class Limits(NamedTuple):
    """SciPy's."""

    tol: float
    max_nodes: int
    verbose: int
    bc_tol: float | None


class Mesh(NamedTuple):
    """An answer: nodes, values, parameters, and what SciPy says of it."""

    x: Tensor
    y: Tensor
    p: Tensor | None
    result: Any


class Search:
    """A problem on matrices whose columns are nodes, of all samples of a `vmap`.

    Parameters
    ----------
    slope, conditions
        What a solution satisfies, along the way and at both ends.
    matrices
        The derivatives of the slope by state and parameters.
    x, y, p
        Where to begin.
    """

    def __init__(
        self,
        slope: Slope,
        conditions: Slope,
        matrices: Slope,
        x: Tensor,
        y: Tensor,
        p: Tensor | None,
    ) -> None:
        self._slope, self._conditions, self._matrices = slope, conditions, matrices
        self._x, self._y, self._p = x, y, p
        with ad.no_grad():
            f = slope(x, y, p)
            ends = conditions(y[:, 0].contiguous(), y[:, -1].contiguous(), p)
        self._batch = batch_of(y.detach(), f.detach(), ends.detach())

    def found(self, limits: Limits) -> Mesh:
        """SciPy's answer; samples of `vmap` are components of one problem, on one mesh."""
        from scipy.integrate import solve_bvp as by_scipy

        n, samples = self._y.shape[0], int(np.prod(self._batch.shape))

        def whole(t: Tensor) -> Any:
            return self._batch.whole(t.detach()).double().numpy()

        def slope(x: Any, y: Any, p: Any = None) -> Any:
            with ad.no_grad():
                made = self._slope(self._nodes(x), self._each(y, n, len(x)), self._parameters(p))
                return whole(made).reshape(-1, len(x))

        def conditions(a: Any, b: Any, p: Any = None) -> Any:
            with ad.no_grad():
                ends = self._each(a, n), self._each(b, n)
                return whole(self._conditions(*ends, self._parameters(p))).ravel()

        guess = whole(self._y).reshape(samples * n, -1)
        start = None if self._p is None else whole(self._p).ravel()
        exact = {} if self._batch.levels else {"fun_jac": self._exact}
        with np.errstate(all="ignore"), CallsBar("solve_bvp") as bar:
            result = by_scipy(
                bar.counting(slope),
                conditions,
                self._x.double().numpy(),
                guess,
                start,
                tol=limits.tol,
                max_nodes=limits.max_nodes,
                verbose=limits.verbose,
                bc_tol=limits.bc_tol,
                **exact,
            )
        if not result.success:
            raise _stopped(result)
        values = self._each(result.y, n, len(result.x))
        return Mesh(self._nodes(result.x), values, self._parameters(result.p), result)

    def _each(self, array: Any, *axes: int) -> Tensor:
        given = ad.from_numpy(np.array(array, dtype=float, order="C")).to(self._y.dtype)
        return self._batch.each(given.reshape(*self._batch.shape, *axes))

    def _nodes(self, x: Any) -> Tensor:
        return ad.from_numpy(np.array(x)).to(self._y.dtype)

    def _parameters(self, p: Any) -> Tensor | None:
        return None if self._p is None else self._each(p, self._p.numel())

    def _exact(self, x: Any, y: Any, p: Any = None) -> Any:
        """The derivatives of the slope by state and parameters, at all nodes."""
        with ad.no_grad():
            given = self._nodes(x), self._each(y, *np.shape(y)), self._parameters(p)
            found = [t.detach().double().numpy() for t in self._matrices(*given)]
        return found[0] if len(found) == 1 else tuple(found)


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
