"""Functions of sparse tensors, under the names of `torch.sparse`.

    s = ad.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    ad.sparse.mm(s, x)      the same as s @ x

Gradients go to the values and to the dense side; the gradient of a sparse tensor is sparse. The
guide is docs/guides/sparse.md.

``_matrix.py`` has matrices that are patterns with a tensor of values, for `adjoint.sparse.linalg`:
systems, eigenvalues and least squares with SciPy's names.
"""

from __future__ import annotations

from collections.abc import Sequence as _Sequence
from typing import Any as _Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._missing import watch as _watch

from . import linalg as linalg
from ._matrix import SparseMatrix as SparseMatrix
from ._matrix import coo_array as coo_array
from ._matrix import diags_array as diags_array
from ._matrix import eye_array as eye_array
from ._matrix import matrix as matrix

__all__ = [
    "SparseMatrix",
    "addmm",
    "check_sparse_tensor_invariants",
    "coo_array",
    "diags_array",
    "eye_array",
    "linalg",
    "log_softmax",
    "matrix",
    "mm",
    "sampled_addmm",
    "softmax",
    "sum",
]


def _require_sparse(name: str, tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name}(): expected a Tensor, not {type(tensor).__name__}")
    if tensor._layout_name == "strided":
        raise RuntimeError(f"{name}(): expected a sparse tensor, got a strided one")


def mm(mat1: Tensor, mat2: Tensor, reduce: str = "sum") -> Tensor:
    """The product of a sparse matrix and a dense or sparse one.

    Parameters
    ----------
    mat1, mat2 : Tensor
        Two matrices, at least one of them sparse. Two sparse ones give a sparse one.
    reduce : {"sum", "mean", "amax", "amin"}
        How the products that belong to one element are combined; other than "sum" for a sparse
        `mat1` and a dense `mat2`.
    """
    if reduce == "sum":
        if mat1._layout_name == "strided" and mat2._layout_name == "strided":
            raise RuntimeError("sparse.mm(): one of the matrices must be sparse")
        return _core.matmul(mat1, mat2)
    if reduce not in ("mean", "amax", "amin"):
        raise ValueError(
            f"sparse.mm(): reduce must be one of sum, mean, amax, amin, but got {reduce!r}"
        )
    _require_sparse("sparse.mm", mat1)
    return _reduced(mat1, mat2, reduce)


def _reduced(mat1: Tensor, mat2: Tensor, reduce: str) -> Tensor:
    entries = mat1.to_sparse().coalesce()
    row, column = entries.indices().unbind(0)
    products = entries.values().unsqueeze(1) * mat2.index_select(0, column)
    out = products.new_zeros((mat1.shape[0], mat2.shape[1]))
    if reduce == "mean":
        count = _core.bincount(row, minlength=mat1.shape[0]).clamp(min=1)
        return out.index_add(0, row, products) / count.unsqueeze(1).to(products.dtype)
    at = row.unsqueeze(1).expand_as(products)
    return out.scatter_reduce(0, at, products, reduce, include_self=False)


def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: complex = 1.0, alpha: complex = 1.0
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``, with a sparse `mat1`."""
    return _core.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


def sum(
    input: Tensor, dim: int | _Sequence[int] | None = None, dtype: _core.dtype | None = None
) -> Tensor:
    """The sum of a sparse tensor over axes: a sparse tensor while a sparse axis is left."""
    _require_sparse("sparse.sum", input)
    if dim is None:
        return input.sum(dtype=dtype)
    return input.sum([dim] if isinstance(dim, int) else list(dim), dtype=dtype)


def sampled_addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: complex = 1.0,
    alpha: complex = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` at the places of the sparse matrix `input` alone."""
    _require_sparse("sparse.sampled_addmm", input)
    if out is not None and out._layout_name == "strided":
        raise RuntimeError(
            "sampled_addmm: Expected result to have sparse csr layout, but got Strided"
        )
    made = _core._sampled_addmm(input, mat1, mat2, beta, alpha)
    return made if out is None else out.copy_(made)


# --- softmax --------------------------------------------------------------------------------------
def softmax(input: Tensor, dim: int, *, dtype: _core.dtype | None = None) -> Tensor:
    """The softmax along `dim` of the entries; what has none counts as minus infinity."""
    return _normalized("sparse.softmax", input, dim, dtype, False)


def log_softmax(input: Tensor, dim: int, *, dtype: _core.dtype | None = None) -> Tensor:
    """The logarithm of `softmax`."""
    return _normalized("sparse.log_softmax", input, dim, dtype, True)


def _normalized(
    name: str, input: Tensor, dim: int, dtype: _core.dtype | None, logs: bool
) -> Tensor:
    _require_sparse(name, input)
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim}, "
            f"{input.ndim - 1}], but got {dim})"
        )
    entries = (input if dtype is None else input.to(dtype)).to_sparse().coalesce()
    values, axes, dim = entries.values(), entries.sparse_dim(), dim % input.ndim
    if dim >= axes:
        within = dim - axes + 1
        made = values.log_softmax(within) if logs else values.softmax(within)
        return _core._sparse_with_values(entries, made)
    # Entries that share their other indices are a group.
    group = _core.zeros((values.shape[0],), dtype=_core.int64)
    for axis, index in enumerate(entries.indices().unbind(0)):
        if axis != dim:
            group = group * input.shape[axis] + index
    _, place = group.unique(return_inverse=True)
    count = int(place.max()) + 1 if place.numel() else 0
    shape = (count, *values.shape[1:])
    spread = place.view(-1, *[1] * (values.ndim - 1)).expand_as(values)
    most = _core.zeros(shape, dtype=values.dtype).scatter_reduce(
        0, spread, values.detach(), "amax", include_self=False
    )
    shifted = values - most.index_select(0, place)
    powers = shifted.exp()
    total = _core.zeros(shape, dtype=values.dtype).index_add(0, place, powers)
    total = total.index_select(0, place)
    return _core._sparse_with_values(entries, shifted - total.log() if logs else powers / total)


class check_sparse_tensor_invariants:
    """PyTorch's switch for checks of indices. They are always made here."""

    def __init__(self, enable: bool = True) -> None:
        self._enable = enable

    @staticmethod
    def is_enabled() -> bool:
        """Always True."""
        return True

    @staticmethod
    def enable() -> None:
        """Nothing has to be done."""

    @staticmethod
    def disable() -> None:
        """Checks stay: an index outside its tensor would read other memory."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: _Any) -> None:
        return None

    def __call__(self, function: _Any) -> _Any:
        """The function itself."""
        return function


_watch(__name__)
