"""Where the entries of a sparse matrix are, and what follows from that alone.

Matrices that differ in their values only share one `Places`, so that what is found out once (order,
band, transpose, factors of recent values) serves them all. Read next: _matrix.py, _factors.py.
"""

from __future__ import annotations

import functools
import itertools
import weakref
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.creation import from_numpy, tensor

from ._factors import Factors, recent_factors

__all__ = ["Band", "Places", "fixed"]

_WIDEST = 16  # diagonals on a side up to which a band is solved as such
_FILLED = 0.3  # of a band that must be entries


_numbers = itertools.count()


def fixed(array: Any) -> Tensor:
    """An array of places as a tensor, a constant of programs that are being recorded."""
    if not _core._is_recording():
        return from_numpy(array)
    made: Tensor = tensor(array.tolist(), dtype=_core.int64)
    return made


class Band(NamedTuple):
    """How many diagonals there are, and where in them each entry goes."""

    lower: int
    upper: int
    place: Tensor


class Places:
    """Rows and columns of the entries of a matrix, row by row and without repetition.

    ``starts`` says where each row begins among them, as SciPy's ``indptr`` does. What operations
    use is made at once: programs that are being recorded refuse what is made behind their backs.
    """

    def __init__(
        self, rows: Any, columns: Any, shape: tuple[int, int], transposed: Any = None
    ) -> None:
        self.shape = shape
        self.rows_array, self.columns_array = rows, columns
        self.rows, self.columns = fixed(rows), fixed(columns)
        counts = np.bincount(rows, minlength=shape[0])
        self.starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.starts_tensor = fixed(self.starts)
        self.band = self._band()
        # The places of the transpose, and which entry each of its entries is.
        self.transposed: tuple[Places, Tensor] = transposed or self._turned()
        turned, _ = self.transposed
        self.is_symmetric = np.array_equal(turned.rows_array, rows) and np.array_equal(
            turned.columns_array, columns
        )
        self.number = next(_numbers)
        weakref.finalize(self, recent_factors.forget, self.number)

    @staticmethod
    def of(rows: Any, columns: Any, shape: tuple[int, int]) -> tuple[Places, Any]:
        """Of entries in any order, and which place each has; None if they are in order."""
        rows = np.array(rows, dtype=np.int64).ravel()
        columns = np.array(columns, dtype=np.int64).ravel()
        for seen in _seen:
            if seen.is_of(rows, columns, shape):
                return seen.places, seen.order
        _check(rows, columns, shape)
        keys = rows * shape[1] + columns
        if np.all(keys[1:] > keys[:-1]):
            found = _Seen(rows, columns, Places(rows, columns, shape), None)
        else:
            unique, order = np.unique(keys, return_inverse=True)
            width = max(shape[1], 1)
            places = Places(unique // width, unique % width, shape)
            found = _Seen(rows, columns, places, order.reshape(-1))
        _seen.appendleft(found)
        return found.places, found.order

    @property
    def count(self) -> int:
        """How many entries there are."""
        return int(self.rows_array.size)

    def _turned(self) -> tuple[Places, Tensor]:
        order = np.argsort(self.columns_array, kind="stable")
        back = np.empty_like(order)
        back[order] = np.arange(order.size)
        rows, columns = self.columns_array[order], self.rows_array[order]
        return Places(rows, columns, self.shape[::-1], (self, fixed(back))), fixed(order)

    def _band(self) -> Band | None:
        """The band that the entries fill, if there is one worth the name."""
        n, m = self.shape
        if n != m or not self.count:
            return None
        offsets = self.rows_array - self.columns_array
        lower, upper = max(int(offsets.max()), 0), max(int(-offsets.min()), 0)
        if max(lower, upper) > _WIDEST or self.count < _FILLED * (lower + upper + 1) * n:
            return None
        if lower <= 1 and upper <= 1:
            lower = upper = 1  # three diagonals have a way of their own
        return Band(lower, upper, fixed((upper + offsets) * n + self.columns_array))

    @functools.lru_cache(maxsize=8)  # noqa: B019 - few, and they live as long as their matrices
    def joined(self, other: Places) -> tuple[Places, Tensor, Tensor]:
        """The places of a sum, and where the entries of both are in it."""
        both, place = Places.of(
            np.concatenate([self.rows_array, other.rows_array]),
            np.concatenate([self.columns_array, other.columns_array]),
            self.shape,
        )
        if place is None:
            place = np.arange(both.count)
        return both, fixed(place[: self.count].copy()), fixed(place[self.count :].copy())

    def same(self, other: Places) -> bool:
        """Whether the entries are in the same places."""
        return self is other or (
            self.shape == other.shape
            and np.array_equal(self.rows_array, other.rows_array)
            and np.array_equal(self.columns_array, other.columns_array)
        )

    def factors(self, values: Any) -> Factors:
        """Of the matrix with these values (an array), which may be at hand."""
        return recent_factors.find(self, values)

    def __tree_flatten__(self) -> tuple[tuple[()], Any]:
        return (), self

    @classmethod
    def __tree_unflatten__(cls, metadata: Any, children: Any) -> Any:
        return metadata


class _Seen(NamedTuple):
    """Entries as they were given, and what was made of them."""

    rows: Any
    columns: Any
    places: Places
    order: Any

    def is_of(self, rows: Any, columns: Any, shape: tuple[int, int]) -> bool:
        return (
            self.places.shape == shape
            and np.array_equal(self.rows, rows)
            and np.array_equal(self.columns, columns)
        )


# A matrix that is built anew in every step of a loop has the places of the last one.
_seen: deque[_Seen] = deque(maxlen=4)


def _check(rows: Any, columns: Any, shape: tuple[int, int]) -> None:
    if rows.size != columns.size:
        raise ValueError(
            f"a sparse matrix has one row and one column for each entry, but got {rows.size} rows "
            f"and {columns.size} columns"
        )
    for index, size, what in ((rows, shape[0], "row"), (columns, shape[1], "column")):
        if index.size and not (index.min() >= 0 and index.max() < size):
            bad = index[(index < 0) | (index >= size)][0]
            raise IndexError(
                f"a sparse matrix of shape {shape} has no {what} {bad}; they count from 0 to "
                f"{size - 1}"
            )
