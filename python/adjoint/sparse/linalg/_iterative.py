"""``cg``, ``bicgstab``, ``minres``, ``gmres``: systems by products with the matrix alone.

The derivative is that of the solution: one more solve, with the adjoint, by the same method. For
sparse matrices it is a node of _solution.py, for operators that of adjoint.optimize. The loops are
in _krylov.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.creation import as_tensor
from adjoint.optimize._implicit import answer
from adjoint.optimize._inside import Inside, is_inside
from adjoint.optimize._large import ByProducts
from adjoint.optimize._result import ConvergenceError, OptimizeResult
from adjoint.sparse._matrix import SparseMatrix, product
from adjoint.sparse._places import Places

from ._krylov import Broken, Limits, solved
from ._operator import LinearOperator, as_columns, aslinearoperator, matrix_of
from ._solution import Solution

__all__ = ["bicgstab", "cg", "gmres", "minres"]

Callback = Callable[[Tensor], Any]


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callback | None = None,
) -> tuple[Tensor, int]:
    """Solve ``A x = b`` for a Hermitian positive definite matrix, by conjugate gradients.

    The solution is differentiable by ``b``, by the values of a sparse matrix, and by every tensor
    that a function reads which stands for one.

    Parameters
    ----------
    A
        A matrix of any kind (`adjoint.sparse.SparseMatrix`, a sparse or dense tensor, SciPy's), a
        `LinearOperator`, or a function ``A(v)`` that is linear.
    b
        The right side, a vector.
    x0
        Where to begin; the solution does not depend on it.
    rtol, atol
        The residual is to be at most ``max(rtol * ‖b‖, atol)``. SciPy's 1e-5 would leave
        derivatives of five digits: here it is 1e-10 for float64, 3e-5 for float32.
    maxiter
        How many steps there may be; ten for each unknown if it is not given.
    M
        The preconditioner: about the inverse of ``A``, as a matrix, an operator or a function. It
        has no gradient.
    callback
        Called after every step, ``callback(x)``.

    Returns
    -------
    x, info
        The solution, and 0: what does not converge raises.

    Raises
    ------
    ConvergenceError
        If the residual is not small in the end; says how far it got.

    Examples
    --------
    >>> import adjoint as ad
    >>> k = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    >>> b = ad.ones(3, dtype=ad.float64)
    >>> x, info = ad.sparse.linalg.cg(lambda v: k * v, b)
    >>> x.sum().backward()
    >>> k.grad  # of 3 / k
    tensor(-0.7500, dtype=torch.float64)
    """
    return _Problem("cg", A, b, M).answer(x0, rtol, atol, maxiter, callback), 0


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callback | None = None,
) -> tuple[Tensor, int]:
    """Solve ``A x = b`` for any square matrix, by stabilised biconjugate gradients; see `cg`."""
    return _Problem("bicgstab", A, b, M).answer(x0, rtol, atol, maxiter, callback), 0


def minres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float | None = None,
    shift: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callback | None = None,
) -> tuple[Tensor, int]:
    """Solve ``(A - shift) x = b`` for a Hermitian matrix, definite or not; see `cg`.

    The preconditioner must be positive definite.
    """
    if shift:
        A = _shifted(A, b, shift)
    return _Problem("minres", A, b, M).answer(x0, rtol, 0.0, maxiter, callback), 0


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    rtol: float | None = None,
    atol: float = 0.0,
    restart: int | None = None,
    maxiter: int | None = None,
    M: Any = None,
    callback: Callback | None = None,
    callback_type: str | None = None,
) -> tuple[Tensor, int]:
    """Solve ``A x = b`` for any square matrix, by generalised minimal residuals; see `cg`.

    Parameters
    ----------
    restart
        How many steps there are between restarts; each of them keeps a vector. 30 if it is not
        given. ``maxiter`` counts restarts, as SciPy does.
    callback_type
        SciPy's; ``callback`` gets ``x`` whatever it says.
    """
    restart = 30 if restart is None else int(restart)
    steps = None if maxiter is None else maxiter * restart
    problem = _Problem("gmres", A, b, M, restart)
    return problem.answer(x0, rtol, atol, steps, callback), 0


class _Problem:
    """A system, and the method that solves it."""

    def __init__(self, method: str, A: Any, b: Any, M: Any, restart: int = 30) -> None:
        self._method, self._M, self._restart = method, M, restart
        b = as_tensor(b)
        self._column = b.ndim == 2 and b.shape[1] == 1
        if self._column:
            b = b.squeeze(1)
        if b.ndim != 1:
            raise ValueError(f"{method}(): b must be a vector, got the shape {list(b.shape)}")
        n = b.shape[0]
        self._matrix: SparseMatrix | None = matrix_of(A)
        if self._matrix is None:
            plain = callable(A) and not isinstance(A, LinearOperator) and not hasattr(A, "matvec")
            A = LinearOperator((n, n), A) if plain else aslinearoperator(A)
        self._operator: LinearOperator | None = None if self._matrix is not None else A
        shape = A.shape if self._matrix is None else self._matrix.shape
        if tuple(shape) != (n, n):
            raise ValueError(
                f"{method}(): a matrix of shape {tuple(shape)} and a right side of {n} elements do "
                "not match"
            )
        dtype = b.dtype if self._matrix is None else self._matrix.dtype
        if self._operator is not None and self._operator.dtype is not None:
            dtype = self._operator.dtype
        dtype = _core.promote_types(b.dtype, dtype)
        if not (dtype.is_floating_point or dtype.is_complex):
            dtype = _core.float64
        self._b = b.to(dtype)

    def answer(
        self,
        x0: Any,
        rtol: float | None,
        atol: float,
        most: int | None,
        callback: Callback | None,
    ) -> Tensor:
        """The solution, with its derivatives."""
        b = self._b
        eps = ad.finfo(b.dtype).eps
        rtol = max(eps**0.64, 2 * eps) if rtol is None else float(rtol)
        most = 10 * b.numel() if most is None else int(most)
        limits = Limits(rtol, atol, most, self._restart, callback)
        start = None if x0 is None else as_tensor(x0).detach().reshape(-1, 1).to(b.dtype)
        how = _ByKrylov(self._method, self._M, limits, start)
        x: Tensor
        if self._matrix is not None:
            values = self._matrix.values.to(b.dtype)
            x = Solution.apply(how, self._matrix.places, False, values, b.unsqueeze(1)).squeeze(1)
        else:
            x = self._by_operator(how)
        return x.unsqueeze(1) if self._column else x

    def _by_operator(self, how: _ByKrylov) -> Tensor:
        operator, b = self._operator, self._b
        assert operator is not None
        operator.check(b)

        def residual(x: Tensor) -> Tensor:
            off: Tensor = operator.matvec(x) - b
            return off

        def method(apply: Any, right: Tensor) -> Tensor:
            return how.by_products(apply, right, False)

        def transposed(apply: Any, right: Tensor) -> Tensor:
            return how.by_products(apply, right, True)

        with ad.no_grad():
            x = how.by_products(operator.matvec, b.detach(), False, how.start, operator.matmat)
        return answer(residual, x, ByProducts(method, transposed))


def _over_columns(apply: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    return lambda v: apply(v.squeeze(1)).unsqueeze(1)


class _ByKrylov:
    """How: by a method of Krylov's kind, called as _solution.py wants it."""

    def __init__(self, method: str, M: Any, limits: Limits, start: Tensor | None) -> None:
        self._method, self._M, self._limits = method, M, limits
        self.start = start

    def __call__(self, places: Places, values: Tensor, b: Tensor, adjoint: bool) -> Tensor:
        if adjoint:
            places, order = places.transposed
            values = values[order]
            values = values.conj_physical() if values.is_complex() else values
        start = None if adjoint else self.start
        return self.run(lambda v: product(places, values, v), b, adjoint, start)

    def by_products(
        self,
        apply: Callable[[Tensor], Tensor],
        b: Tensor,
        adjoint: bool,
        start: Tensor | None = None,
        by_columns: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """The solution for a vector, by a function that gives products with vectors."""
        if is_inside():
            found = self._inside(apply, b, adjoint, start)
            if found is not None:
                return found
        columns = by_columns or _over_columns(apply)
        return self.run(columns, b.unsqueeze(1), adjoint, start).squeeze(1)

    def _inside(self, apply: Any, b: Tensor, adjoint: bool, start: Tensor | None) -> Tensor | None:
        """The same as an instruction of the program that is recorded; None where it cannot be."""
        if self._limits.callback is not None:
            return None
        given = [b] if start is None else [b, start.squeeze(1)]
        place = Inside(apply, b, *given)
        kinds: list[Any] = [(apply, [b])]
        M = self._preconditioner(b, adjoint)
        if M is not None:
            kinds.append((lambda v: M(v.unsqueeze(1)).squeeze(1), [b]))
        if not place.takes(kinds):
            return None

        def solve(functions: list[Any], operands: list[Tensor]) -> list[Tensor]:
            A, *M = map(_over_columns, functions)
            b, *start = (t.unsqueeze(1) for t in operands)
            x = self.run(A, b, adjoint, start[0] if start else None, M[0] if M else None)
            return [x.squeeze(1)]

        return place.solved(solve, *given)[0]

    def _preconditioner(self, b: Tensor, adjoint: bool) -> Any:
        turned = adjoint and self._method in ("gmres", "bicgstab")
        return as_columns(self._M, b.shape[0], b, turned)

    def run(
        self, A: Any, b: Tensor, adjoint: bool, start: Tensor | None = None, M: Any = None
    ) -> Tensor:
        """The solution for columns, without history."""
        n = b.shape[0]
        M = self._preconditioner(b, adjoint) if M is None else M
        if start is not None and start.shape != b.shape:
            start = None
        try:
            x, _, _ = solved(self._method, A, M, b, start, self._limits)
        except Broken as stop:
            raise ConvergenceError(
                f"{self._method}() found no solution of {n} equations"
                f"{' (the transposed ones, for a derivative)' if adjoint else ''}: {stop}.\n"
                "  fix: give a preconditioner (M=...), allow more steps "
                f"(maxiter={2 * self._most()}), or ask for less (rtol=...); sparse matrices have "
                "sparse.linalg.spsolve",
                OptimizeResult(success=False, status=1, message=str(stop)),
            ) from None
        return x

    def _most(self) -> int:
        return self._limits.most // (self._limits.restart if self._method == "gmres" else 1)


def _shifted(A: Any, b: Any, shift: float) -> Any:
    matrix = matrix_of(A)
    if matrix is not None:
        from adjoint.sparse._matrix import eye_array

        return matrix - shift * eye_array(matrix.shape[0], dtype=matrix.dtype)
    n = as_tensor(b).shape[0]
    plain = callable(A) and not isinstance(A, LinearOperator)
    operator = LinearOperator((n, n), A) if plain else aslinearoperator(A)
    return LinearOperator((n, n), lambda v: operator.matvec(v) - shift * v, dtype=operator.dtype)
