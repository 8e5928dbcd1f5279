"""`SparseMatrix`: the entries of a matrix as a tensor, in places that do not change.

SciPy's sparse matrices with tensors in them. Everything is made of ordinary operations on the
values, so a matrix may be batched by `vmap`, be an argument of a compiled function, a carry of a
`scan`, or a part of any structure. Read next: linalg/_direct.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import is_batched
from adjoint._tensor.creation import as_tensor, from_numpy
from adjoint.autograd.function import Function

from ._places import Places, fixed

__all__ = ["SparseMatrix", "as_sparse_matrix", "coo_array", "diags_array", "eye_array", "matrix"]


class SparseMatrix:
    """A sparse matrix whose values are a tensor.

    Made by `adjoint.sparse.matrix`, `coo_array`, `diags_array` or `eye_array`. It is a structure
    with one tensor in it, ``values``, the entries row by row; where they are does not change. Taken
    by ``@``, ``+``, ``-``, ``*`` with numbers, and by all of `adjoint.sparse.linalg`.
    """

    __array_priority__ = 100

    def __init__(self, places: Places, values: Tensor) -> None:
        self.places, self.values = places, values

    # --- what it is -------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.places.shape

    @property
    def dtype(self) -> Any:
        """Of the values."""
        return self.values.dtype

    @property
    def nnz(self) -> int:
        """How many entries there are."""
        return self.places.count

    @property
    def row(self) -> Tensor:
        """The row of each entry."""
        return self.places.rows

    @property
    def col(self) -> Tensor:
        """The column of each entry."""
        return self.places.columns

    def __repr__(self) -> str:
        return f"SparseMatrix(shape={self.shape}, nnz={self.nnz}, dtype={self.dtype})"

    def __tree_flatten__(self) -> tuple[tuple[Tensor], Any, tuple[str]]:
        return (self.values,), self.places, ("values",)

    @classmethod
    def __tree_unflatten__(cls, places: Any, values: Any) -> SparseMatrix:
        (made,) = values
        return cls(places, made)

    # --- other forms ------------------------------------------------------------------------------
    def to_dense(self) -> Tensor:
        """All elements."""
        n, m = self.shape
        place = self.row * m + self.col
        flat = self.values.new_zeros(n * m).index_add(0, place, self.values)
        return flat.reshape(n, m)

    def to_sparse_csr(self) -> Tensor:
        """A sparse tensor with PyTorch's methods."""
        p = self.places
        return _core._sparse_compressed(p.starts_tensor, p.columns, self.values, list(p.shape), 1)

    def to_scipy(self) -> Any:
        """SciPy's ``csr_array``, without history."""
        from scipy.sparse import csr_array

        p = self.places
        return csr_array((self.values.detach().numpy(), p.columns_array, p.starts), p.shape)

    def with_values(self, values: Any) -> SparseMatrix:
        """Other entries in the same places."""
        values = as_tensor(values)
        if values.shape != self.values.shape:
            raise ValueError(f"there are {self.nnz} entries, but got values of {values.shape}")
        return SparseMatrix(self.places, values)

    def diagonal(self) -> Tensor:
        """The elements on the diagonal, zero where there is no entry."""
        at = np.flatnonzero(self.places.rows_array == self.places.columns_array)
        own = self.values[fixed(at)]
        zeros = own.new_zeros(min(self.shape))
        return zeros.index_add(0, fixed(self.places.rows_array[at]), own)

    @property
    def T(self) -> SparseMatrix:
        """The transpose."""
        places, order = self.places.transposed
        return SparseMatrix(places, self.values[order])

    @property
    def H(self) -> SparseMatrix:
        """The conjugate transpose."""
        turned = self.T
        return SparseMatrix(turned.places, turned.values.conj_physical())

    def to(self, dtype: Any) -> SparseMatrix:
        """With values of another dtype."""
        return SparseMatrix(self.places, self.values.to(dtype))

    def detach(self) -> SparseMatrix:
        """Without history."""
        return SparseMatrix(self.places, self.values.detach())

    # --- arithmetic -------------------------------------------------------------------------------
    def __matmul__(self, x: Any) -> Any:
        x = as_tensor(x)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ValueError(
                f"a sparse matrix of shape {self.shape} cannot be multiplied with {list(x.shape)}"
            )
        dtype = _core.promote_types(x.dtype, self.dtype)
        return product(self.places, self.values.to(dtype), x.to(dtype))

    def __rmatmul__(self, x: Any) -> Any:
        x = as_tensor(x)
        return self.T @ x if x.ndim == 1 else (self.T @ x.mT).mT

    def __add__(self, other: Any) -> SparseMatrix:
        other = as_sparse_matrix(other, "+")
        if self.shape != other.shape:
            raise ValueError(
                f"sparse matrices of shapes {self.shape} and {other.shape} cannot be added"
            )
        if self.places.same(other.places):
            return SparseMatrix(self.places, self.values + other.values)
        places, mine, others = self.places.joined(other.places)
        dtype = _core.promote_types(self.dtype, other.dtype)
        values = _core.zeros(places.count, dtype=dtype)
        values = values.index_add(0, mine, self.values.to(dtype))
        return SparseMatrix(places, values.index_add(0, others, other.values.to(dtype)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> SparseMatrix:
        return self + (-as_sparse_matrix(other, "-"))

    def __rsub__(self, other: Any) -> SparseMatrix:
        return as_sparse_matrix(other, "-") + (-self)

    def __neg__(self) -> SparseMatrix:
        return SparseMatrix(self.places, -self.values)

    def __mul__(self, factor: Any) -> SparseMatrix:
        if isinstance(factor, SparseMatrix) or getattr(factor, "ndim", 0) > 0:
            raise TypeError(
                "a sparse matrix is multiplied by a number with *; for a product of matrices use @"
            )
        return SparseMatrix(self.places, self.values * factor)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> SparseMatrix:
        return SparseMatrix(self.places, self.values / divisor)


def product(places: Places, values: Tensor, x: Tensor) -> Tensor:
    """The product of a matrix with a vector, or with the columns of a matrix."""
    transformed = _core._current_dual_level() >= 0 or is_batched(values, x)
    if not (transformed or _core._is_recording()):  # these do not take sparse tensors
        if _core.is_grad_enabled() and (values.requires_grad or x.requires_grad):
            recorded: Tensor = _Product.apply(places, values, x)
            return recorded
        return _by_rows(places, values, x)
    picked = x.index_select(0, places.columns)
    terms = picked * (values if x.ndim == 1 else values.unsqueeze(-1))
    zeros = terms.new_zeros((places.shape[0], *x.shape[1:]))
    return zeros.index_add(0, places.rows, terms)


def _by_rows(places: Places, values: Tensor, x: Tensor) -> Tensor:
    found: Tensor = _core.matmul(SparseMatrix(places, values).to_sparse_csr(), x)
    return found


class _Product(Function):
    """The same with a history: unlike sparse tensors, its derivatives take samples of a `vmap`."""

    @staticmethod
    def forward(ctx: Any, places: Places, values: Tensor, x: Tensor) -> Tensor:
        ctx.places = places
        ctx.save_for_backward(values, x)
        return _by_rows(places, values, x)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        values, x = ctx.saved_tensors
        by_values = by_x = None
        if ctx.needs_input_grad[1]:
            picked = _conjugate(x).index_select(0, ctx.places.columns)
            terms = g.index_select(0, ctx.places.rows) * picked
            by_values = terms.sum(-1) if x.ndim == 2 else terms
        if ctx.needs_input_grad[2]:
            turned, order = ctx.places.transposed
            by_x = product(turned, _conjugate(values)[order], g)
        return None, by_values, by_x


def _conjugate(t: Tensor) -> Tensor:
    return t.conj_physical() if t.is_complex() else t


# --- making them ----------------------------------------------------------------------------------
def matrix(pattern: Any, values: Any = None) -> SparseMatrix:
    """A sparse matrix with the entries of another one, and a tensor of values.

    Parameters
    ----------
    pattern
        A sparse matrix of SciPy's, a sparse tensor, or a `SparseMatrix`: where the entries are.
    values
        One value for each entry of ``pattern``, in the order that it has them (``pattern.data`` of
        SciPy's formats); those of the pattern itself if they are not given.

    Examples
    --------
    >>> import adjoint as ad, scipy.sparse
    >>> second = scipy.sparse.diags_array([1.0, -2, 1], offsets=[-1, 0, 1], shape=(4, 4))
    >>> a = ad.sparse.matrix(second.tocsr())
    >>> (a @ ad.ones(4, dtype=ad.float64)).tolist()
    [-1.0, 0.0, 0.0, -1.0]
    """
    made, place = _entries(pattern, "matrix")
    if values is None:
        return made
    values = _numbers(values)
    count = made.nnz if place is None else int(place.numel())
    if values.shape != (count,):
        raise ValueError(
            f"sparse.matrix(): the pattern has {count} entries, but values are {values.shape}"
        )
    return SparseMatrix(made.places, _placed(values, place, made.places))


def coo_array(arg: Any, shape: tuple[int, int] | None = None) -> SparseMatrix:
    """A sparse matrix from its entries: ``coo_array((values, (rows, columns)), shape)``.

    Entries in one place are added, as in SciPy. Keep the matrix and use `SparseMatrix.with_values`,
    or call this outside of loops, so that places are sorted once.

    Examples
    --------
    >>> import adjoint as ad
    >>> v = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    >>> ad.sparse.coo_array((v, ([0, 1, 1], [0, 0, 1]))).to_dense()
    tensor([[1., 0.],
            [2., 3.]], grad_fn=<...>)
    """
    try:
        values, (rows, columns) = arg
    except (TypeError, ValueError):
        return as_sparse_matrix(arg, "coo_array")
    rows, columns = (t.numpy() if isinstance(t, Tensor) else np.asarray(t) for t in (rows, columns))
    if shape is None:
        shape = int(rows.max(initial=-1)) + 1, int(columns.max(initial=-1)) + 1
    values = _numbers(values)
    if values.shape != (rows.size,):
        raise ValueError(f"coo_array(): {rows.size} places, but values are {values.shape}")
    places, place = Places.of(rows, columns, (int(shape[0]), int(shape[1])))
    place = None if place is None else fixed(place)
    return SparseMatrix(places, _placed(values, place, places))


def diags_array(
    diagonals: Any, *, offsets: int | Sequence[int] = 0, shape: tuple[int, int] | None = None
) -> SparseMatrix:
    """A sparse matrix from its diagonals, with SciPy's arguments.

    Parameters
    ----------
    diagonals
        Tensors, one for each offset; a number or a tensor of one element fills its diagonal.
    offsets
        0 is the main diagonal, 1 the one above it, -1 the one below.

    Examples
    --------
    >>> import adjoint as ad
    >>> d = ad.tensor([4.0, 5.0, 6.0])
    >>> ad.sparse.diags_array([d, ad.tensor([1.0, 2.0])], offsets=[0, 1]).to_dense()
    tensor([[4., 1., 0.],
            [0., 5., 2.],
            [0., 0., 6.]])
    """
    if isinstance(offsets, int):
        offsets, diagonals = [offsets], [diagonals]
    given = [_numbers(d).reshape(-1) for d in diagonals]
    if len(given) != len(offsets):
        raise ValueError(f"diags_array(): {len(given)} diagonals, but {len(offsets)} offsets")
    if shape is None:
        n = given[0].numel() + abs(offsets[0])
        shape = n, n
    parts, rows, columns = [], [], []
    for diagonal, offset in zip(given, offsets, strict=True):
        row, column = max(-offset, 0), max(offset, 0)
        length = max(min(shape[0] - row, shape[1] - column), 0)
        if diagonal.numel() not in (1, length):
            raise ValueError(
                f"diags_array(): diagonal {offset} of a matrix of shape {tuple(shape)} has "
                f"{length} elements, but got {diagonal.numel()}"
            )
        parts.append(diagonal.expand(length))
        rows.append(np.arange(row, row + length))
        columns.append(np.arange(column, column + length))
    values = _core.cat(parts)
    return coo_array((values, (np.concatenate(rows), np.concatenate(columns))), shape)


def _numbers(values: Any) -> Tensor:
    """A tensor; Python's numbers are float64, as in SciPy."""
    if isinstance(values, Tensor):
        return values
    made = as_tensor(values, dtype=_core.float64 if isinstance(values, float | int) else None)
    return made if made.is_floating_point() or made.is_complex() else made.to(_core.float64)


def eye_array(n: int, *, dtype: Any = None) -> SparseMatrix:
    """The identity as a sparse matrix."""
    return diags_array(_core.ones(n, dtype=dtype or _core.float64))


def as_sparse_matrix(thing: Any, name: str) -> SparseMatrix:
    """Whatever may stand for a sparse matrix, as one."""
    return _entries(thing, name)[0]


def _entries(thing: Any, name: str) -> tuple[SparseMatrix, Any]:
    """The matrix, and which place each entry of ``thing`` has there; None if in order."""
    if isinstance(thing, SparseMatrix):
        return thing, None
    if isinstance(thing, Tensor):
        return _of_tensor(thing, name)
    if type(thing).__module__.startswith("scipy.sparse") and getattr(thing, "ndim", 0) == 2:
        form = thing if thing.format in ("coo", "csr", "csc") else thing.tocsr()
        by_coordinates = form.tocoo()
        places, place = Places.of(by_coordinates.row, by_coordinates.col, form.shape)
        place = None if place is None else fixed(place)
        values = from_numpy(np.array(by_coordinates.data))
        if not (values.is_floating_point() or values.is_complex()):
            values = values.to(_core.float64)
        return SparseMatrix(places, _placed(values, place, places)), place
    raise TypeError(
        f"{name}: expected a sparse matrix (adjoint.sparse.matrix, a sparse tensor, or one of "
        f"SciPy's), got {type(thing).__name__}"
    )


def _of_tensor(tensor: Tensor, name: str) -> tuple[SparseMatrix, Any]:
    if tensor.ndim != 2:
        raise TypeError(f"{name}: expected a matrix, got a tensor of shape {list(tensor.shape)}")
    if tensor._layout_name == "strided":
        n, m = tensor.shape
        rows, columns = np.indices((n, m))
        places, _ = Places.of(rows, columns, (n, m))
        return SparseMatrix(places, tensor.reshape(-1)), None
    tensor = (tensor if tensor._layout_name == "sparse_coo" else tensor.to_sparse()).coalesce()
    rows, columns = tensor.indices().numpy()
    places, place = Places.of(rows, columns, (tensor.shape[0], tensor.shape[1]))
    place = None if place is None else fixed(place)
    return SparseMatrix(places, _placed(tensor.values(), place, places)), place


def _placed(values: Tensor, place: Any, places: Places) -> Tensor:
    """Values in the order of the places, those of one place added."""
    if place is None:
        return values
    return values.new_zeros(places.count).index_add(0, place, values)
