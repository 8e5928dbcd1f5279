"""The memory of tensors and arrays, as entries of a safetensors file.

Tensors on one storage stay on one storage: the file holds each storage once, whole, and a tensor
that is not all of it, in order, is a geometry on it. A storage with one dense tensor is written
with that tensor's shape and in the order of its elements, so that any reader of safetensors sees
it.
"""

from __future__ import annotations

import struct
from typing import IO, Any, NamedTuple

from adjoint import _core
from adjoint._core import Tensor
from adjoint._pending import unsigned
from adjoint.serialization._formats import NAMES
from adjoint.serialization._writing import write_all

__all__ = ["Memory"]


class _Seen(NamedTuple):
    tensor: Tensor
    row: dict[str, Any]
    where: str


class Memory:
    """The entries of a file: first added, then laid out, then written."""

    def __init__(self) -> None:
        self._storages: dict[tuple[int, int], list[_Seen]] = {}
        self._empty: list[_Seen] = []
        self._arrays: list[tuple[Any, dict[str, Any], str]] = []
        self._entries: dict[str, Tensor] = {}

    def add_tensor(self, t: Tensor, where: str) -> dict[str, Any]:
        """The row of a tensor; `lay_out` completes it."""
        t.data_ptr()  # refuses a sample of vmap, which has no memory of its own
        seen = _Seen(unsigned(t), {"tensor": ""}, where)
        if t.is_conj():
            seen.row["conj"] = True
        if t.is_neg():
            seen.row["neg"] = True
        address, size = _core._storage(seen.tensor)
        if size == 0:
            self._empty.append(seen)
        else:
            self._storages.setdefault((address, size), []).append(seen)
        return seen.row

    def add_array(self, array: Any, dtype: str, where: str) -> dict[str, Any]:
        """The row of a NumPy array; `lay_out` completes it."""
        row: dict[str, Any] = {"array": "", "numpy": dtype, "size": list(array.shape)}
        if array.flags.f_contiguous and not array.flags.c_contiguous:
            row["order"] = "F"
        if not array.flags.writeable:
            row["readonly"] = True
        self._arrays.append((array, row, where))
        return row

    def lay_out(self) -> dict[str, Any]:
        """Name the entries in all rows; the header of the file, without its metadata."""
        self._refuse_overlaps()
        for group in self._storages.values():
            self._lay_out_storage(group)
        for seen in self._empty:
            t = seen.tensor
            seen.row.update(self._entry(_core.empty(t.shape, dtype=t.dtype)), **_geometry(t))
        for array, row, _ in self._arrays:
            row["array"] = self._entry(_bytes_of(array))["tensor"]
        header, end = {}, 0
        for name, t in self._entries.items():
            start, end = end, end + t.nbytes
            header[name] = {
                "dtype": NAMES[t.dtype], "shape": list(t.shape), "data_offsets": [start, end],
            }  # fmt: skip
        return header

    def write(self, file: IO[bytes], header: bytes) -> None:
        """The whole file."""
        write_all(file, struct.pack("<Q", len(header)))
        write_all(file, header)
        for t in self._entries.values():
            if t.nbytes:
                buffer: Any = _core._whole(t)
                write_all(file, memoryview(buffer))

    def _lay_out_storage(self, group: list[_Seen]) -> None:
        kinds = {_kind(seen.tensor) for seen in group}
        first = group[0].tensor
        if len(kinds) == 1 and first.nbytes == _core._storage(first)[1] and _is_dense(first):
            row = self._entry(first.contiguous())
            if first.stride() != _usual_strides(first):
                row["stride"] = list(first.stride())
            for seen in group:
                seen.row.update(row)
            return
        whole = _entry_for([seen.tensor for seen in group])
        row = self._entry(whole)
        for seen in group:
            seen.row.update(row)
            if _kind(seen.tensor) != _kind(whole):
                seen.row.update(_geometry(seen.tensor))

    def _entry(self, t: Tensor) -> dict[str, Any]:
        """A new entry for all of the storage of a contiguous tensor."""
        name = f"t{len(self._entries)}"
        self._entries[name] = t
        return {"tensor": name}

    def _refuse_overlaps(self) -> None:
        """Memory with two owners (NumPy's and ours, or an array imported twice) would be split."""
        ranges = [(a, a + n, group[0].where) for (a, n), group in self._storages.items()]
        ranges += [(*_bounds(array), where) for array, _, where in self._arrays if array.nbytes]
        ranges.sort()
        for i in range(1, len(ranges)):
            if ranges[i][0] < ranges[i - 1][1]:
                raise ValueError(
                    f"cannot save {ranges[i][2]}: it shares memory with {ranges[i - 1][2]}, and "
                    "files keep that for tensors on one storage only. Save a copy of one of them."
                )


def _bounds(array: Any) -> tuple[int, int]:
    start = end = array.__array_interface__["data"][0]
    for n, step in zip(array.shape, array.strides, strict=True):
        start, end = (start + (n - 1) * step, end) if step < 0 else (start, end + (n - 1) * step)
    return start, end + array.itemsize


def _bytes_of(array: Any) -> Tensor:
    """A copy of an array's elements in C order, of the same dtype where tensors have it."""
    from adjoint._tensor.creation import _shared

    copied = array.copy(order="C")
    try:
        return _shared(copied).contiguous()
    except (TypeError, ValueError):  # dates, strings, other byte orders, dtypes that are not there
        data = bytearray(copied.tobytes())
        if not data:
            return _core.empty(0, dtype=_core.uint8)
        flat: Tensor = _core._frombuffer(data, _core.uint8, -1, 0)
        return flat


def _kind(t: Tensor) -> tuple[Any, ...]:
    return (t.dtype, tuple(t.shape), tuple(t.stride()), t.storage_offset())


def _geometry(t: Tensor) -> dict[str, Any]:
    return {
        "dtype": str(t.dtype).removeprefix("torch."), "size": list(t.shape),
        "stride": list(t.stride()), "offset": t.storage_offset(),
    }  # fmt: skip


def _usual_strides(t: Tensor) -> tuple[int, ...]:
    """Those of a new tensor. A contiguous one may have others along axes of length 1."""
    strides = [1]
    for n in t.shape[:0:-1]:
        strides.append(strides[-1] * max(n, 1))
    return tuple(strides[::-1][: t.dim()])


def _is_dense(t: Tensor) -> bool:
    """Whether the elements fill their memory, each place once."""
    expected = 1
    for step, length in sorted(zip(t.stride(), t.shape, strict=True)):
        if length != 1 and step != expected:
            return False
        expected *= length
    return t.numel() > 0


def _entry_for(tensors: list[Tensor]) -> Tensor:
    """All of a storage: as the tensor among these that is all of it, or as one row."""
    size = _core._storage(tensors[0])[1]
    for t in tensors:
        if t.nbytes == size and t.storage_offset() == 0 and t.stride() == _usual_strides(t):
            return t
    dtypes = {t.dtype for t in tensors}
    dtype = dtypes.pop() if len(dtypes) == 1 else _core.uint8
    if size % dtype.itemsize:
        dtype = _core.uint8
    row: Tensor = _core._on_storage(tensors[0], dtype, (size // dtype.itemsize,), (1,), 0)
    return row
