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

from ._unknowns import dtype_in

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
        low, high = _limits("Bounds", lb, ub)
        self.lb, self.ub = _fixed(lb, low), _fixed(ub, high)
        self.keep_feasible = keep_feasible

    def __repr__(self) -> str:
        return f"Bounds({self.lb!r}, {self.ub!r})"

    def residual(self, x: Any) -> tuple[Any, Any]:
        """How far ``x`` is above the lower bounds, and below the upper ones."""
        x = _tensor(x)
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
        rows = _tensor(self.A.toarray() if hasattr(self.A, "toarray") else self.A)
        value = rows @ _tensor(x).to(rows.dtype)
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
    given = _joined(given)
    if hasattr(given, "toarray"):
        raise ValueError(f"{name}(): lb and ub must be dense\n  fix: give lb.toarray()")
    made = given if isinstance(given, Tensor) else np.asarray(given, dtype=float)
    if made.ndim > 1:
        raise ValueError(f"{name}(): lb and ub have at most one axis, got {list(made.shape)}")
    if isinstance(made, np.ndarray):
        if np.isnan(made).any():  # None, too
            raise ValueError(f"{name}(): a limit is not a number\n  fix: numpy.inf is no limit")
        return made if made.ndim else float(made)
    return made


def _size(limit: Any) -> int:
    return 1 if isinstance(limit, float) else int(np.prod(limit.shape))


def _matrix(given: Any) -> Any:
    made = _joined(given)
    if not isinstance(made, Tensor):
        made = np.asarray(made, dtype=float)
        if not isinstance(given, np.ndarray):  # which may change: a list's numbers are constants
            made = _constant(made)
    if made.ndim not in (1, 2) or not made.shape[-1]:
        raise ValueError(f"LinearConstraint(): A is a row or a matrix, got {list(made.shape)}")
    return made.reshape(-1, made.shape[-1])


def _joined(given: Any) -> Any:
    """A list with tensors in it as one tensor; all else as it is."""
    dtype = dtype_in(given) if isinstance(given, (list, tuple)) else None
    return given if dtype is None else _stacked(given, dtype)


def _stacked(given: Any, dtype: Any) -> Tensor:
    if isinstance(given, (list, tuple)):
        return ad.stack([_stacked(part, dtype) for part in given])
    return ad.as_tensor(given, dtype=dtype)


def _fixed(given: Any, limit: Any) -> Any:
    """A limit whose numbers came in a list as a constant of programs."""
    is_list = isinstance(given, (list, tuple)) and not isinstance(limit, Tensor)
    return _constant(limit) if is_list else limit


def _constant(array: Any) -> Tensor:
    made: Tensor = ad.tensor(array.tolist(), dtype=ad.float64)
    return made


def _tensor(given: Any) -> Tensor:
    return given if isinstance(given, Tensor) else ad.as_tensor(given, dtype=ad.float64)
