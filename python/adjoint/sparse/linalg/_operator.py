"""Linear operators: matrices that are known by their products.

A plain callable is one, if it is linear: that is checked with two vectors. Its transpose is found
by reverse mode, so nobody has to write it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import must_hold
from adjoint._tensor.creation import as_tensor, from_numpy
from adjoint.func import vjp, vmap
from adjoint.sparse._matrix import SparseMatrix, as_sparse_matrix

__all__ = ["LinearOperator", "as_columns", "aslinearoperator", "matrix_of"]

Map = Callable[[Tensor], Tensor]


class LinearOperator:
    """A matrix that is known by its products.

    Parameters
    ----------
    shape
        Rows and columns.
    matvec
        ``matvec(v)`` gives the product with a vector, by adjoint's operations. It may read other
        tensors; what is solved with the operator is differentiable by these.
    rmatvec
        The product with the conjugate transpose; found by reverse mode if it is not given.
    matmat
        The product with the columns of a matrix; `matvec` is mapped over them if it is not given.
    dtype
        Of the numbers; that of the vectors if it is not given.

    Examples
    --------
    >>> import adjoint as ad
    >>> second = ad.sparse.linalg.LinearOperator((3, 3), lambda v: 2 * v - v.roll(1) - v.roll(-1))
    >>> second.matvec(ad.tensor([1.0, 0.0, 0.0]))
    tensor([ 2., -1., -1.])
    >>> second.T @ ad.tensor([1.0, 2.0, 3.0])
    tensor([-3.,  0.,  3.])
    """

    def __init__(
        self,
        shape: tuple[int, int],
        matvec: Map,
        rmatvec: Map | None = None,
        matmat: Map | None = None,
        dtype: Any = None,
        rmatmat: Map | None = None,
    ) -> None:
        self.shape, self.dtype = (int(shape[0]), int(shape[1])), dtype
        self._matvec, self._rmatvec = matvec, rmatvec
        self._matmat, self._rmatmat = matmat, rmatmat

    def __repr__(self) -> str:
        return f"LinearOperator(shape={self.shape})"

    def matvec(self, v: Any) -> Tensor:
        """The product with a vector."""
        v = self._taken(v, self.shape[1])
        return self._given(self._matvec(v), self.shape[0])

    def rmatvec(self, u: Any) -> Tensor:
        """The product of the conjugate transpose with a vector."""
        u = self._taken(u, self.shape[0])
        if self._rmatvec is not None:
            return self._given(self._rmatvec(u), self.shape[1])
        with ad.enable_grad():
            _, pull = vjp(self._matvec, u.detach().new_zeros(self.shape[1]))
            return self._given(pull(u)[0], self.shape[1])

    def matmat(self, v: Tensor) -> Tensor:
        """The product with the columns of a matrix."""
        return _columns(self.matvec, self._matmat, v)

    def rmatmat(self, u: Tensor) -> Tensor:
        """The product of the conjugate transpose with the columns of a matrix."""
        return _columns(self.rmatvec, self._rmatmat, u)

    def dot(self, v: Any) -> Tensor:
        """The product with a vector, or with columns."""
        v = as_tensor(v)
        return self.matvec(v) if v.ndim == 1 else self.matmat(v)

    __matmul__ = __call__ = dot

    @property
    def H(self) -> LinearOperator:
        """The conjugate transpose."""
        n, m = self.shape
        return LinearOperator(
            (m, n), self.rmatvec, self.matvec, self.rmatmat, self.dtype, self.matmat
        )

    @property
    def T(self) -> LinearOperator:
        """The transpose."""
        n, m = self.shape
        return LinearOperator(
            (m, n), _conjugated(self.rmatvec), _conjugated(self.matvec), dtype=self.dtype
        )

    def check(self, like: Tensor) -> None:
        """Refuse a function that is not linear; ``like`` gives the dtype of the vectors."""
        n = self.shape[1]
        steps = ad.arange(1, n + 1, dtype=ad.float64)
        x = ad.sin(1.3 * steps).to(like.dtype)
        y = ad.cos(0.7 * steps * steps).to(like.dtype)
        with ad.no_grad():
            together, one, other = self.matvec(x + y), self.matvec(x), self.matvec(y)
            size = (one.abs() + other.abs()).max() if n else one.abs().sum()
            off = (together - one - other).abs().max() if n else size
            must_hold(off <= ad.finfo(like.dtype).eps ** 0.5 * size, _not_linear, off, size)

    def _taken(self, v: Any, size: int) -> Tensor:
        vector: Tensor = as_tensor(v)
        if vector.shape != (size,):
            raise ValueError(f"an operator of shape {self.shape} was given {list(vector.shape)}")
        return vector

    def _given(self, v: Any, size: int) -> Tensor:
        if not isinstance(v, Tensor):
            raise TypeError(
                f"the function of a linear operator must return a tensor, got {type(v).__name__}"
            )
        if v.numel() != size:
            raise ValueError(
                f"an operator of shape {self.shape} returned {list(v.shape)}, where a vector of "
                f"{size} was expected"
            )
        return v.reshape(size)


def _not_linear(holds: Tensor, off: Tensor, size: Tensor) -> Exception:
    much = "" if off.ndim else f" by {float(off):.3g} of {float(size):.3g}"
    return ValueError(
        f"the operator is not linear: A(x + y) differs from A x + A y{much}.\n"
        "  fix: take what does not depend on x to the right side; for equations that are "
        "not linear use adjoint.optimize.root"
    )


def _conjugated(f: Map) -> Map:
    def map_conjugate(v: Tensor) -> Tensor:
        return f(v.conj_physical()).conj_physical() if v.is_complex() else f(v)

    return map_conjugate


def _columns(f: Map, by_columns: Map | None, v: Tensor) -> Tensor:
    if by_columns is not None:
        return by_columns(v)
    if v.shape[1] == 1:
        return f(v.squeeze(1)).unsqueeze(1)
    mapped: Tensor = vmap(f, in_dims=1, out_dims=1)(v)
    return mapped


def aslinearoperator(A: Any) -> LinearOperator:
    """Whatever has products as a `LinearOperator`: matrices of all kinds, SciPy's operators."""
    if isinstance(A, LinearOperator):
        return A
    matrix = matrix_of(A)
    if matrix is not None:
        return LinearOperator(
            matrix.shape,
            lambda v: matrix @ v,
            lambda u: matrix.H @ u,
            lambda v: matrix @ v,
            matrix.dtype,
            lambda u: matrix.H @ u,
        )
    if isinstance(A, Tensor) and A.ndim == 2:
        return LinearOperator(
            (A.shape[0], A.shape[1]), lambda v: A @ v, lambda u: A.mH @ u, None, A.dtype
        )
    if hasattr(A, "matvec") and hasattr(A, "shape"):  # SciPy's: arrays in, arrays out, constant
        return LinearOperator(A.shape, _of_arrays(A.matvec), _of_arrays(A.rmatvec), None, None)
    raise TypeError(f"expected a matrix, a LinearOperator or a function, got {type(A).__name__}")


def _of_arrays(f: Callable[..., Any]) -> Map:
    return lambda v: from_numpy(f(v.detach().numpy())).to(v.dtype)


def matrix_of(A: Any) -> SparseMatrix | None:
    """A sparse matrix, if that is what was given."""
    if isinstance(A, SparseMatrix):
        return A
    if isinstance(A, Tensor):
        return None if A._layout_name == "strided" else as_sparse_matrix(A, "aslinearoperator")
    if type(A).__module__.startswith("scipy.sparse") and hasattr(A, "tocsr"):
        return as_sparse_matrix(A, "aslinearoperator")
    return None


def as_columns(A: Any, n: int, like: Tensor, adjoint: bool) -> Map | None:
    """Products with columns, of a preconditioner: a matrix, an operator, or a function."""
    if A is None:
        return None
    if callable(A) and not isinstance(A, LinearOperator) and not hasattr(A, "matvec"):
        A = LinearOperator((n, n), A, dtype=like.dtype)
    operator = aslinearoperator(A)
    if operator.shape != (n, n):
        raise ValueError(f"a preconditioner of shape {operator.shape} for a matrix of order {n}")

    def apply(v: Tensor) -> Tensor:
        with ad.no_grad():
            return operator.rmatmat(v) if adjoint else operator.matmat(v)

    return apply
