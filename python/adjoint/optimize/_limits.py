"""``Bounds``, ``LinearConstraint``, ``NonlinearConstraint``: SciPy's names for `minimize`.

SciPy's own classes make arrays of what they are given, which have no derivatives and no samples;
these keep tensors as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as ad
from adjoint._core import Tensor

__all__ = ["Bounds", "LinearConstraint", "NonlinearConstraint"]


class Bounds:
    """Bounds ``lb <= x <= ub`` of the unknowns, which may be tensors.

    Parameters
    ----------
    lb, ub
        A number for all unknowns, or one for each: an array, a tensor, or a list of numbers and
        tensors. The answer of `minimize` is differentiable by tensors here.
    keep_feasible
        SciPy's, and not used: an answer is never beyond its bounds.

    Examples
    --------
    >>> import adjoint as ad
    >>> top = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    >>> bounds = ad.optimize.Bounds(0.0, [top, 1.0])
    >>> found = ad.optimize.minimize(lambda x: ((x - 3) ** 2).sum(), [0.5, 0.5], bounds=bounds)
    >>> found.x
    tensor([2., 1.], dtype=torch.float64, grad_fn=<...>)
    >>> found.x.sum().backward()
    >>> top.grad
    tensor(1., dtype=torch.float64)
    """

    def __init__(self, lb: Any = -np.inf, ub: Any = np.inf, keep_feasible: Any = False) -> None:
        self.lb, self.ub = _limits("Bounds", lb, ub)
        self.keep_feasible = keep_feasible

    def __repr__(self) -> str:
        return f"Bounds({self.lb!r}, {self.ub!r})"

    def residual(self, x: Any) -> tuple[Any, Any]:
        """How far ``x`` is above the lower bounds, and below the upper ones."""
        x = ad.as_tensor(x)
        return x - _tensor(self.lb), _tensor(self.ub) - x


class LinearConstraint:
    """A constraint ``lb <= A @ x <= ub`` of the unknowns, of numbers that may be tensors.

    Parameters
    ----------
    A
        A row of numbers, or a matrix: a tensor, an array, a list, or a sparse matrix of SciPy's.
        The answer of `minimize` is differentiable by a tensor here.
    lb, ub
        A number for all rows, or one for each; the same where they are equal. They may be tensors,
        too.
    keep_feasible
        SciPy's, and not used: an answer meets its constraints.

    Examples
    --------
    >>> import adjoint as ad
    >>> a = ad.tensor([1.0, 1.0], dtype=ad.float64, requires_grad=True)
    >>> line = ad.optimize.LinearConstraint(a, 1.0, 1.0)
    >>> found = ad.optimize.minimize(lambda x: (x**2).sum(), [1.0, 0.0], constraints=line)
    >>> found.x
    tensor([0.5000, 0.5000], dtype=torch.float64, grad_fn=<...>)
    >>> found.x[0].backward()
    >>> a.grad  # of a / |a|²
    tensor([ 0.0000, -0.5000], dtype=torch.float64)
    """

    def __init__(
        self, A: Any, lb: Any = -np.inf, ub: Any = np.inf, keep_feasible: Any = False
    ) -> None:
        self.A = A if hasattr(A, "toarray") else _matrix(A)
        self.lb, self.ub = _limits("LinearConstraint", lb, ub, int(self.A.shape[0]))
        self.keep_feasible = keep_feasible

    def __repr__(self) -> str:
        return f"LinearConstraint({self.A!r}, {self.lb!r}, {self.ub!r})"

    def residual(self, x: Any) -> tuple[Any, Any]:
        """How far ``A @ x`` is above the lower limits, and below the upper ones."""
        rows = ad.as_tensor(self.A.toarray() if hasattr(self.A, "toarray") else self.A)
        value = rows @ ad.as_tensor(x, dtype=rows.dtype)
        return value - _tensor(self.lb), _tensor(self.ub) - value


class NonlinearConstraint:
    """A constraint ``lb <= fun(x) <= ub`` of the unknowns, whose limits may be tensors.

    Parameters
    ----------
    fun
        ``fun(x)`` gives a number or several, made of adjoint's operations.
    lb, ub
        A number for all of them, or one for each; the same where they are equal.
    jac, hess, finite_diff_rel_step, finite_diff_jac_sparsity
        Not needed, and not used: derivatives are exact.
    keep_feasible
        SciPy's, and not used: an answer meets its constraints.

    Examples
    --------
    >>> import adjoint as ad
    >>> r = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    >>> disc = ad.optimize.NonlinearConstraint(lambda x: (x**2).sum(), 0.0, r**2)
    >>> found = ad.optimize.minimize(lambda x: -x[0], [0.5, 0.5], constraints=disc)
    >>> found.x[0].backward()
    >>> r.grad
    tensor(1., dtype=torch.float64)
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        lb: Any,
        ub: Any,
        jac: Any = "2-point",
        hess: Any = None,
        keep_feasible: Any = False,
        finite_diff_rel_step: Any = None,
        finite_diff_jac_sparsity: Any = None,
    ) -> None:
        if not callable(fun):
            raise TypeError(
                f"NonlinearConstraint(): expected a function first, got {type(fun).__name__}\n"
                "  fix: for numbers that multiply x, LinearConstraint"
            )
        self.fun = fun
        self.lb, self.ub = _limits("NonlinearConstraint", lb, ub)
        self.jac, self.hess, self.keep_feasible = jac, hess, keep_feasible
        self.finite_diff_rel_step = finite_diff_rel_step
        self.finite_diff_jac_sparsity = finite_diff_jac_sparsity

    def __repr__(self) -> str:
        return f"NonlinearConstraint({self.fun!r}, {self.lb!r}, {self.ub!r})"


def _limits(name: str, lb: Any, ub: Any, rows: int | None = None) -> tuple[Any, Any]:
    """Two limits: floats, arrays or tensors of at most one axis, which belong together."""
    low = _limit(name, lb)
    high = low if ub is lb else _limit(name, ub)  # one object says: an equality
    sizes = {n for limit in (low, high) if (n := _size(limit)) != 1}
    if rows is not None and rows != 1:
        sizes.add(rows)
    if len(sizes) > 1 or (rows == 1 and sizes):
        raise ValueError(
            f"{name}(): lb and ub have {_size(low)} and {_size(high)} elements"
            + ("" if rows is None else f" for {rows} rows of A")
            + "\n  fix: one number for all, or one for each"
        )
    return low, high


def _limit(name: str, given: Any) -> Any:
    if isinstance(given, (list, tuple)) and any(isinstance(x, Tensor) for x in given):
        dtype = next(x.dtype for x in given if isinstance(x, Tensor))
        given = ad.stack([ad.as_tensor(x, dtype=dtype).reshape(()) for x in given])
    if hasattr(given, "toarray"):
        raise ValueError(f"{name}(): lb and ub must be dense\n  fix: give lb.toarray()")
    made = given if isinstance(given, Tensor) else np.asarray(given, dtype=float)
    if made.ndim > 1:
        raise ValueError(f"{name}(): lb and ub have at most one axis, got {list(made.shape)}")
    return float(made) if isinstance(made, np.ndarray) and not made.ndim else made


def _size(limit: Any) -> int:
    return 1 if isinstance(limit, float) else int(np.prod(limit.shape))


def _matrix(given: Any) -> Any:
    if isinstance(given, (list, tuple)) and any(
        isinstance(x, Tensor) for row in given for x in (row if isinstance(row, list) else [row])
    ):
        given = ad.stack([_limit("LinearConstraint", row) for row in given])
    made = given if isinstance(given, Tensor) else np.asarray(given, dtype=float)
    if made.ndim > 2:
        raise ValueError(f"LinearConstraint(): A has two axes, got {list(made.shape)}")
    return made.reshape(-1, made.shape[-1]) if made.ndim else made.reshape(1, 1)


def _tensor(limit: Any) -> Tensor:
    return ad.as_tensor(limit, dtype=limit.dtype if isinstance(limit, Tensor) else ad.float64)
