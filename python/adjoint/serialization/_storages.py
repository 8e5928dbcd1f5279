"""The storages of what is saved: which records a file has, and which bytes.

Tensors on one storage name one record. So do tensors on memory that was imported twice, such as two
overlapping views of a NumPy array: their record is all of that memory, and the tensors begin at
different places of it. And where elements of one storage are of several dtypes, the record has
none. The last two become clear only when all tensors are known: the pickle is then made again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["Part", "Record", "Storages"]

# PyTorch has no class of storages for these: their records are bytes.
_WITHOUT_STORAGE = (_core.uint16, _core.uint32, _core.uint64)


class Part(NamedTuple):
    """A storage as tensors of one dtype see it."""

    key: str
    length: int  # elements in the whole record
    dtype: _core.dtype | None  # None: bytes, of which tensors make elements themselves
    shift: int  # bytes in the record before the storage

    def offset_of(self, t: Tensor) -> int:
        """Where a tensor begins in the record, in elements."""
        if self.shift % t.dtype.itemsize:
            raise ValueError(
                "cannot save tensors that share memory without lying at the same multiples of an "
                "element. Save a copy of one of them."
            )
        return t.storage_offset() + self.shift // t.dtype.itemsize

    def refuse_offset(self) -> None:
        """A storage itself must be all of its record."""
        if self.shift:
            raise ValueError(
                "cannot save a storage that shares memory with another one. Save a copy of it."
            )


class Record(NamedTuple):
    """Bytes beside a pickle."""

    key: str
    pieces: list[Any]  # buffers, one after the other
    size: int  # bytes in all
    item: int  # bytes in an element


class _Group:
    """Memory that becomes one record: overlapping ranges, each with an owner."""

    def __init__(self, ranges: list[tuple[int, int]]) -> None:
        self.start, self.end = ranges[0][0], max(end for _, end in ranges)
        self.ranges = ranges
        self.untyped = False


class Storages:
    """The records of a file, in the order in which the pickle names them."""

    def __init__(self, all_untyped: bool = False) -> None:
        self.all_untyped = all_untyped
        self._groups: dict[tuple[int, int], _Group] = {}  # what is known from an earlier pickle
        self._owners: dict[tuple[int, int], Tensor] = {}
        self._dtypes: dict[tuple[int, int], set[Any]] = {}
        self._keys: dict[Any, str] = {}
        self._items: dict[str, int] = {}
        self._empty: list[Tensor] = []

    def part_of(self, t: Tensor, dtype: _core.dtype | None) -> Part:
        """The record of a tensor's storage, seen as elements of a dtype."""
        dtype = None if dtype in _WITHOUT_STORAGE else dtype
        address, size = _core._storage(t)
        if size == 0:  # storages without memory share none
            self._empty.append(t)
            return self._part(f"empty {len(self._empty)}", 0, dtype)
        place = address, address + size
        self._owners.setdefault(place, t.detach())
        self._dtypes.setdefault(place, set()).add(dtype)
        group = self._groups.get(place)
        if group is None:
            seen = None if self.all_untyped else dtype
            return self._part(place, size, seen)
        length, seen = group.end - group.start, None if group.untyped else dtype
        return self._part(id(group), length, seen, address - group.start)

    def _part(self, what: Any, size: int, dtype: _core.dtype | None, shift: int = 0) -> Part:
        key = self._keys.setdefault(what, str(len(self._keys)))
        item = self._items[key] = 1 if dtype is None else dtype.itemsize
        return Part(key, size // item, dtype, shift)

    def regroup(self) -> bool:
        """Whether memory is shared in a way that this pickle did not know; the next one will."""
        groups: dict[tuple[int, int], _Group] = {}
        for ranges in _overlapping(sorted(self._dtypes)):
            group = _Group(ranges)
            dtypes = {dtype for place in ranges for dtype in self._dtypes[place]}
            length = group.end - group.start
            group.untyped = len(dtypes) > 1 or any(
                dtype is not None and length % dtype.itemsize for dtype in dtypes
            )
            if len(ranges) > 1 or (group.untyped and not self.all_untyped):
                groups.update(dict.fromkeys(ranges, group))
        if groups.keys() == self._groups.keys():
            return False
        self._groups = groups
        self._dtypes, self._keys, self._items, self._empty = {}, {}, {}, []
        return True

    def records(self) -> Iterator[Record]:
        """What a file has beside the pickle."""
        groups = {id(group): group for group in self._groups.values()}
        for what, key in self._keys.items():
            item = self._items[key]
            if isinstance(what, tuple):
                yield Record(key, [_bytes(self._owners[what])], what[1] - what[0], item)
            elif what in groups:
                group = groups[what]
                yield Record(key, list(self._pieces(group)), group.end - group.start, item)
            else:
                yield Record(key, [], 0, item)

    def _pieces(self, group: _Group) -> Iterator[Any]:
        at = group.start
        for start, end in group.ranges:
            if end > at:
                yield _bytes(self._owners[start, end])[at - start :]
                at = end


def _overlapping(places: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    group: list[tuple[int, int]] = []
    end = 0
    for place in places:
        if group and place[0] >= end:
            yield group
            group = []
        group.append(place)
        end = max(end, place[1]) if len(group) > 1 else place[1]
    if group:
        yield group


def _bytes(t: Tensor) -> memoryview:
    buffer: Any = _core._whole(t)
    return memoryview(buffer)
