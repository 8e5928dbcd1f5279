"""Sparse LU factors, by SciPy's SuperLU, and the factors of recent values.

Note [Factors of recent values]: a time loop solves with one matrix again and again, a backward pass
with the transposed ones of the forward pass, a second derivative with all of them. Handing factors
from one to the next would have to go through graphs, programs and loops, which hold tensors. So a
solve asks for the factors of its values, and the last ones are kept, up to a size; what has been
given up is factored once more. Values are compared whole: the factors
are those of these numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint import _core

if TYPE_CHECKING:
    from ._places import Places

__all__ = ["Factors", "recent_factors", "scipy_sparse", "singular"]

_linalg_error: Any = _core._LinAlgError

_MOST_BYTES = 1 << 28
_MOST = 64


class Factors:
    """The factors of one matrix."""

    def __init__(self, places: Places, values: Any) -> None:
        self.values = values.copy()
        n, m = places.shape
        check_entries(places, values)
        matrix = scipy_sparse().csc_array(
            (values, places.columns_array.astype(np.int32), places.starts.astype(np.int32)), (m, n)
        )  # rows taken for columns: the transpose
        # Entries across the diagonal: an order for both at once fills in less.
        symmetric = {
            "permc_spec": "MMD_AT_PLUS_A",
            "diag_pivot_thresh": 0.1,
            "options": {"SymmetricMode": True},
        }
        try:
            self._lu = _superlu()(matrix, **(symmetric if places.is_symmetric else {}))
        except RuntimeError as error:
            if "singular" not in str(error):
                raise
            raise singular(n) from None
        self.bytes = 12 * int(self._lu.nnz) + self.values.nbytes

    def solve(self, b: Any, adjoint: bool) -> Any:
        """``op(A)⁻¹ b`` for the columns of an array; op is the adjoint or nothing."""
        if not adjoint:
            x = self._lu.solve(b, "T")
        elif np.iscomplexobj(b):
            x = self._lu.solve(b.conj(), "N").conj()
        else:
            x = self._lu.solve(b, "N")
        if not np.isfinite(x).all() and np.isfinite(b).all():
            raise singular(b.shape[0])
        return x


class FactorsOfRecentValues:
    """See Note [Factors of recent values]. One store for all matrices, with one limit."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, bytes], Factors] = {}  # the oldest first
        self._bytes = 0

    def find(self, places: Places, values: Any) -> Factors:
        """The factors of the matrix with these values."""
        values = np.ascontiguousarray(values)
        sample = values[:: max(1, values.size // 16)].tobytes() + values.dtype.char.encode()
        key = places.number, sample
        found = self._take(key)
        if found is None or not np.array_equal(found.values, values):
            found = Factors(places, values)
        self._kept[key] = found
        self._bytes += found.bytes
        while len(self._kept) > 1 and (self._bytes > _MOST_BYTES or len(self._kept) > _MOST):
            self._take(next(iter(self._kept)))
        return found

    def forget(self, number: int) -> None:
        """Drop the factors of places that are gone."""
        for key in [k for k in self._kept if k[0] == number]:
            self._take(key)

    def _take(self, key: tuple[int, bytes]) -> Factors | None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._bytes -= found.bytes
        return found


recent_factors = FactorsOfRecentValues()


def singular(n: int) -> Exception:
    """The error for a matrix that has no inverse."""
    made: Exception = _linalg_error(
        f"a sparse matrix of order {n} is singular, or as good as: there is no solution, or more "
        "than one.\n"
        "  fix: look for rows without entries, and for equations that say the same (a Laplacian "
        "without a boundary value); for the shortest solution use sparse.linalg.lsqr"
    )
    return made


def check_entries(places: Places, values: Any) -> None:
    n, m = places.shape
    if n != m:
        raise ValueError(f"a matrix of shape ({n}, {m}) has no inverse: it must be square")
    bad = ~np.isfinite(values)
    if bad.any():
        k = int(np.argmax(bad))
        raise ValueError(
            f"the entry ({places.rows_array[k]}, {places.columns_array[k]}) of a sparse matrix is "
            f"{values[k]}: nothing can be solved with it\n"
            "  fix: look at what computes the values of the matrix"
        )


def scipy_sparse() -> Any:
    try:
        from scipy import sparse
    except ImportError:
        raise ImportError(
            "sparse systems are solved by SciPy, which is not installed.\n"
            '  fix: pip install "adjoint[science]"'
        ) from None
    return sparse


def _superlu() -> Any:
    scipy_sparse()
    from scipy.sparse.linalg import splu

    return splu
