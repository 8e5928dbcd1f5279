"""Making sparse tensors, and methods that convert them.

The parts of a sparse tensor are native (src/tensor/sparse.h), and so is what ops do with them
(src/ops/sparse). Here are PyTorch's ways to call that. Read next: `adjoint.sparse`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor import formats
from adjoint._tensor.device import require_cpu

__all__ = [
    "sparse_compressed_tensor",
    "sparse_coo_tensor",
    "sparse_csc_tensor",
    "sparse_csr_tensor",
]

_NUMBERS = {formats.sparse_coo: 0, formats.sparse_csr: 1, formats.sparse_csc: 2}


# --- making them ----------------------------------------------------------------------------------
def _index_tensor(data: Any) -> Tensor:
    if not isinstance(data, Tensor):
        from adjoint._tensor.creation import tensor

        data = tensor(data)
    if data.requires_grad:
        data = data.detach()
    converted: Tensor = data.to(_core.int64)
    return converted


def _value_tensor(data: Any, dtype: _core.dtype | None) -> Tensor:
    if not isinstance(data, Tensor):
        from adjoint._tensor.creation import tensor

        made: Tensor = tensor(data, dtype=dtype)
        return made
    return data if dtype is None else data.to(dtype)


def _finished(made: Tensor, requires_grad: bool) -> Tensor:
    return made.requires_grad_() if requires_grad and not made.requires_grad else made


def _require_placement(name: str, device: Any, pin_memory: bool) -> None:
    require_cpu(device)
    if pin_memory:
        raise RuntimeError(f"{name}: pin_memory needs an accelerator, and adjoint runs on CPUs")


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: _core.dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A sparse tensor in the coordinate layout: `values` at `indices`, zero elsewhere.

    Parameters
    ----------
    indices : array_like
        A row of positions for each sparse axis, a column for each entry. They are copied.
    values : array_like
        One value for each entry; further axes are dense. A tensor keeps its history and memory.
    size : sequence of int, optional
        The shape; by default the smallest that holds the indices. Alone it gives a tensor without
        entries.
    check_invariants : bool, optional
        Accepted for PyTorch's sake: indices are always checked.
    is_coalesced : bool, optional
        Whether entries are known to be in order, with no place named twice.
    """
    _require_placement("sparse_coo_tensor", device, pin_memory)
    if values is None:
        shape = indices if size is None else size
        if shape is None:
            raise TypeError("sparse_coo_tensor() needs indices and values, or a size")
        kind = _core.get_default_dtype() if dtype is None else dtype
        empty = _core.zeros((0,), dtype=kind)
        places = _core.zeros((len(shape), 0), dtype=_core.int64)
        return _finished(_core._sparse_coo(places, empty, list(shape), True), requires_grad)
    at, given = _index_tensor(indices), _value_tensor(values, dtype)
    if at.ndim != 2:
        raise RuntimeError(
            f"indices must be a matrix, a row for each sparse axis, but its shape is "
            f"{tuple(at.shape)}"
        )
    if given.ndim == 0:
        given = given.expand(at.shape[1])
    if size is None:
        if at.shape[1] == 0:
            size = [0] * at.shape[0]
        else:
            size = [int(i) + 1 for i in at.amax(1).tolist()] if at.shape[0] else []
        size = [*size, *given.shape[1:]]
    made = _core._sparse_coo(at, given, [int(n) for n in size], bool(is_coalesced))
    return _finished(made, requires_grad)


def _compressed(
    name: str,
    layout: formats.layout,
    starts: Any,
    others: Any,
    values: Any,
    size: Sequence[int] | None,
    dtype: _core.dtype | None,
    device: Any,
    pin_memory: bool,
    requires_grad: bool,
) -> Tensor:
    _require_placement(name, device, pin_memory)
    start, other, given = _index_tensor(starts), _index_tensor(others), _value_tensor(values, dtype)
    if size is None:
        rows, most = start.shape[-1] - 1, int(other.max()) + 1 if other.numel() else 0
        size = (rows, most) if layout is formats.sparse_csr else (most, rows)
        size = (*size, *given.shape[1:])
    made = _core._sparse_compressed(start, other, given, [int(n) for n in size], _NUMBERS[layout])
    return _finished(made, requires_grad)


def sparse_csr_tensor(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: _core.dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse matrix by rows: entries ``crow_indices[i]`` to ``crow_indices[i + 1]`` are row i."""
    return _compressed(
        "sparse_csr_tensor", formats.sparse_csr, crow_indices, col_indices, values, size, dtype,
        device, pin_memory, requires_grad,
    )  # fmt: skip


def sparse_csc_tensor(
    ccol_indices: Any,
    row_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: _core.dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse matrix by columns; see `sparse_csr_tensor`."""
    return _compressed(
        "sparse_csc_tensor", formats.sparse_csc, ccol_indices, row_indices, values, size, dtype,
        device, pin_memory, requires_grad,
    )  # fmt: skip


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Sequence[int] | None = None,
    *,
    dtype: _core.dtype | None = None,
    layout: formats.layout | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse matrix in the layout `sparse_csr` or `sparse_csc`."""
    if layout is not formats.sparse_csr and layout is not formats.sparse_csc:
        raise RuntimeError(f"expected layout sparse_csr or sparse_csc, but got {layout}")
    return _compressed(
        "sparse_compressed_tensor", layout, compressed_indices, plain_indices, values, size, dtype,
        device, pin_memory, requires_grad,
    )  # fmt: skip


# --- parts, for copies and files ------------------------------------------------------------------
_PARTS = {
    "sparse_coo": ("_indices", "_values"),
    "sparse_csr": ("crow_indices", "col_indices", "_values"),
    "sparse_csc": ("ccol_indices", "row_indices", "_values"),
}


LAYOUTS = frozenset(_PARTS)


def parts_of(tensor: Tensor) -> tuple[Tensor, ...]:
    """The indices and values of a sparse tensor, without history."""
    return tuple(getattr(tensor, name)() for name in _PARTS[tensor._layout_name])


def of_parts(name: str, size: Sequence[int], coalesced: bool, parts: Sequence[Tensor]) -> Tensor:
    """The sparse tensor of a layout's name with these parts, which are checked."""
    layout: formats.layout = getattr(formats, name)
    if layout is formats.sparse_coo:
        at, values = parts
        return _core._sparse_coo(at, values, list(size), coalesced)
    start, other, values = parts
    return _core._sparse_compressed(start, other, values, list(size), _NUMBERS[layout])


# --- methods --------------------------------------------------------------------------------------
def layout_of(self: Tensor) -> formats.layout:
    """How elements are stored: ``strided``, ``sparse_coo``, ``sparse_csr`` or ``sparse_csc``."""
    found: formats.layout = getattr(formats, self._layout_name)
    return found


def _is_sparse(tensor: Tensor) -> bool:
    return tensor._layout_name != "strided"


def to_dense(
    self: Tensor, dtype: _core.dtype | None = None, *, masked_grad: bool | None = None
) -> Tensor:
    """All elements of a sparse tensor; a strided one is returned as it is.

    The gradient of a sparse tensor has its entries and no others (`masked_grad`).
    """
    if masked_grad is False and _is_sparse(self):
        raise NotImplementedError(
            "to_dense(masked_grad=False): gradients of sparse tensors have their entries alone. "
            "fix: make the tensor that needs all gradients dense"
        )
    dense = _core._to_dense(self)
    return dense if dtype is None else dense.to(dtype)


def _coo(self: Tensor, sparse_dim: int | None, dense_dim: int | None) -> Tensor:
    if _is_sparse(self):
        return _core._to_layout(self, 0)
    axes = self.ndim - (dense_dim or 0) if sparse_dim is None else sparse_dim
    return _core._dense_to_sparse(self, axes)


def to_sparse(
    self: Tensor,
    sparse_dim: int | None = None,
    *,
    layout: formats.layout | None = None,
    blocksize: Any = None,
    dense_dim: int | None = None,
) -> Tensor:
    """The elements that are not zero, as a sparse tensor; a sparse one in another layout."""
    if sparse_dim is not None and layout is not None:
        raise RuntimeError("to_sparse(): sparse_dim goes with the layout sparse_coo alone")
    if layout is None:
        return self if self.is_sparse else _coo(self, sparse_dim, dense_dim)
    if layout not in _NUMBERS or blocksize is not None:
        raise NotImplementedError(
            f"to_sparse(): the layout {layout} is not supported; use sparse_coo, sparse_csr or "
            "sparse_csc"
        )
    if layout is formats.sparse_coo:
        return _coo(self, sparse_dim, dense_dim)
    return _in_rows(self, layout, dense_dim)


def _in_rows(self: Tensor, layout: formats.layout, dense_dim: int | None) -> Tensor:
    axes = self.sparse_dim() if _is_sparse(self) else self.ndim - (dense_dim or 0)
    if axes != 2:
        raise RuntimeError(
            "only tensors with two sparse dimensions can be converted to the "
            f"{layout} layout, got self with {axes} sparse dimension(s): batches of matrices are "
            "not supported"
        )
    return _core._to_layout(_coo(self, 2, None) if not _is_sparse(self) else self, _NUMBERS[layout])


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in the coordinate layout."""
    return to_sparse(self)


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix by rows."""
    return _in_rows(self, formats.sparse_csr, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The matrix by columns."""
    return _in_rows(self, formats.sparse_csc, dense_dim)


def coalesce(self: Tensor) -> Tensor:
    """Entries in order, those of one place added up; the tensor itself if it is so already."""
    return _core._coalesce(self)


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The elements of this tensor at the places of `mask`, as a sparse tensor."""
    return _core._sparse_mask(self, mask)


METHODS: dict[str, Any] = {
    "layout": property(layout_of, doc=layout_of.__doc__),
    "coalesce": coalesce,
    "sparse_mask": sparse_mask,
    "to_dense": to_dense,
    "to_sparse": to_sparse,
    "to_sparse_coo": to_sparse_coo,
    "to_sparse_csc": to_sparse_csc,
    "to_sparse_csr": to_sparse_csr,
}
