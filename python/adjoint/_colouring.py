"""Sparsity patterns and their colourings: which columns of a Jacobian are computed together.

Columns that share no row are one colour: along the sum of their directions every entry of them
can still be told apart, so a Jacobian takes as many passes as there are colours. The patterns of
Hessians are symmetric, which takes fewer colours still. The greedy loops are native
(``src/kernels/colouring.h``). Used by `adjoint.func` and by `adjoint.external`; read next:
``func/_sparse.py``.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from adjoint import _core

__all__ = ["Pattern"]


class Pattern:
    """The entries of a matrix that may be nonzero: sorted by rows, each once."""

    def __init__(self, row_start: Any, columns: Any, shape: tuple[int, int]) -> None:
        self.row_start = np.ascontiguousarray(row_start, dtype=np.int64)
        self.columns = np.ascontiguousarray(columns, dtype=np.int64)
        self.shape = shape

    @classmethod
    def of(cls, given: Any, what: str = "sparsity=") -> Pattern:
        """A pattern from a scipy.sparse matrix (what it stores counts) or an array (nonzeros).

        Raises
        ------
        ValueError
            It is not a matrix.
        """
        if hasattr(given, "tocsr"):
            matrix = given.tocsr()
            if not matrix.has_canonical_format:
                matrix = matrix.copy()
                matrix.sum_duplicates()
            return cls(matrix.indptr, matrix.indices, (int(matrix.shape[0]), int(matrix.shape[1])))
        array = np.asarray(given.numpy(force=True) if hasattr(given, "detach") else given)
        if array.ndim != 2:
            raise ValueError(
                f"{what} must be a matrix of outputs by inputs (a scipy.sparse matrix, an array or "
                f"a tensor), got {type(given).__name__} with shape {list(array.shape)}"
            )
        filled = array != 0
        start = np.concatenate([[0], np.cumsum(np.count_nonzero(filled, axis=1))])
        return cls(start, np.nonzero(filled)[1], (array.shape[0], array.shape[1]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        return (
            self.shape == other.shape
            and np.array_equal(self.row_start, other.row_start)
            and np.array_equal(self.columns, other.columns)
        )

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def rows(self) -> Any:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.row_start))

    @cached_property
    def transposed(self) -> Pattern:
        """The pattern of the transposed matrix."""
        order = np.argsort(self.columns, kind="stable")
        counts = np.bincount(self.columns, minlength=self.shape[1])
        start = np.concatenate([[0], np.cumsum(counts)])
        return Pattern(start, self.rows[order], self.shape[::-1])

    @cached_property
    def symmetric(self) -> Pattern:
        """Its entries and their mirror images."""
        if self == self.transposed:
            return self
        n = self.shape[0]
        keys = np.concatenate([self.rows * n + self.columns, self.columns * n + self.rows])
        keys.sort()
        keys = keys[np.diff(keys, prepend=-1) > 0]
        start = np.concatenate([[0], np.cumsum(np.bincount(keys // n, minlength=n))])
        return Pattern(start, keys % n, self.shape)

    @property
    def longest_row(self) -> int:
        """How many entries the fullest row has: no colouring of the columns has fewer colours."""
        return int(np.diff(self.row_start).max(initial=0))

    @cached_property
    def column_colours(self) -> Any:
        """A colour per column, -1 for an empty one; columns of one colour share no row."""
        colours, count = self._greedy(_core._colour_columns, np.arange(self.shape[1]))
        if count > self.longest_row:  # perhaps the columns with most entries should come first
            others, fewer = self._greedy(_core._colour_columns, self._fullest_first())
            colours = others if fewer < count else colours
        return colours

    @cached_property
    def star_colours(self) -> Any:
        """A colour per column of a symmetric pattern: each entry or its mirror image stands alone.

        Of two entries (i, j) and (j, i), one is the only one of its row in a column of its colour.
        """
        colours, count = self._greedy(_core._colour_symmetric, self._fullest_first())
        if count > 3:
            others, fewer = self._greedy(_core._colour_symmetric, np.arange(self.shape[1]))
            colours = others if fewer < count else colours
        return colours

    def _fullest_first(self) -> Any:
        counts = np.bincount(self.columns, minlength=self.shape[1])
        return np.argsort(-counts, kind="stable")

    def _greedy(self, colour: Any, order: Any) -> tuple[Any, int]:
        colours = np.empty(self.shape[1], dtype=np.int64)
        order = np.ascontiguousarray(order, dtype=np.int64)
        return colours, colour(self.row_start, self.columns, order, colours)
