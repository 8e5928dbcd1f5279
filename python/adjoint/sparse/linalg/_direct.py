"""``spsolve``, ``splu`` and ``factorized``: systems with sparse matrices, by factors.

Narrow bands go to the banded solver of adjoint itself (src/ops/linalg/band.cpp), everything else to
SciPy's SuperLU. Read next: _solution.py for derivatives, ../_factors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import is_batched
from adjoint._tensor.creation import as_tensor, from_numpy
from adjoint.sparse._factors import check_entries, singular
from adjoint.sparse._matrix import SparseMatrix, as_sparse_matrix
from adjoint.sparse._places import Places

from ._solution import Solution

__all__ = ["Factored", "factorized", "solve", "splu", "spsolve"]


def spsolve(A: Any, b: Any, permc_spec: str | None = None, use_umfpack: bool = True) -> Any:
    """Solve ``A x = b`` for a sparse matrix; differentiable by its values and by ``b``.

    The factors of a matrix are kept: they serve the backward pass, derivatives of higher order, and
    the next call with the same values. Three diagonals, and other narrow bands, are solved by
    native code.

    Parameters
    ----------
    A
        `adjoint.sparse.SparseMatrix`, a sparse tensor of any layout, or a sparse matrix of SciPy's.
    b
        A vector, or a matrix whose columns are right sides; a `SparseMatrix` gives a dense result.
    permc_spec, use_umfpack
        SciPy's; without effect: the order follows from the entries.

    Raises
    ------
    LinAlgError
        If the matrix is singular.

    Examples
    --------
    >>> import adjoint as ad
    >>> d = ad.tensor([2.0, 4.0], dtype=ad.float64, requires_grad=True)
    >>> x = ad.sparse.linalg.spsolve(ad.sparse.diags_array(d), ad.ones(2, dtype=ad.float64))
    >>> x.sum().backward()
    >>> d.grad  # of 1 / d
    tensor([-0.2500, -0.0625], dtype=torch.float64)
    """
    if hasattr(b, "tocoo"):  # SciPy's
        b = as_sparse_matrix(b, "spsolve")
    return splu(A).solve(b)


class Factored:
    """A matrix that systems are solved with: what `splu` returns."""

    def __init__(self, matrix: SparseMatrix, name: str) -> None:
        n, m = matrix.shape
        if n != m:
            raise ValueError(f"{name}(): expected a square matrix, got one of shape ({n}, {m})")
        self.matrix = matrix
        values = matrix.values
        if not (_core._is_recording() or is_batched(values)):
            check_entries(matrix.places, values.detach().numpy())
        band = matrix.places.band  # put together once, for a loop that solves again and again
        self._rows = None if band is None else rows_of_band(matrix.places, matrix.values)

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix."""
        return self.matrix.shape

    def solve(self, rhs: Any, trans: str = "N") -> Tensor:
        """The solution for one right side, or for columns; differentiable.

        Parameters
        ----------
        rhs
            A vector or a matrix.
        trans
            ``"N"`` for the matrix itself, ``"T"`` for its transpose, ``"H"`` for its conjugate
            transpose.
        """
        if isinstance(rhs, SparseMatrix) or (
            isinstance(rhs, Tensor) and rhs._layout_name != "strided"
        ):
            rhs = rhs.to_dense()
        b, n = as_tensor(rhs), self.shape[0]
        if trans not in ("N", "T", "H"):
            raise ValueError(f"trans is 'N', 'T' or 'H', got {trans!r}")
        if b.ndim not in (1, 2) or b.shape[0] != n:
            raise ValueError(
                f"a matrix of shape ({n}, {n}) and a right side of shape {list(b.shape)} do not "
                "match"
            )
        dtype = _core.promote_types(b.dtype, self.matrix.dtype)
        if not (dtype.is_floating_point or dtype.is_complex):
            dtype = _core.float64
        values, b = self.matrix.values.to(dtype), b.to(dtype)
        conjugates = trans == "T" and dtype.is_complex
        if conjugates:
            b = b.conj_physical()
        columns = b if b.ndim == 2 else b.unsqueeze(-1)
        band = self.matrix.places.band
        if self._rows is not None and band is not None:
            rows = self._rows.to(dtype)
            x = _by_band(rows, columns, band, trans != "N")
        else:
            x = solve(self.matrix.places, values, columns, trans != "N")
        x = x if b.ndim == 2 else x.squeeze(-1)
        return x.conj_physical() if conjugates else x


def splu(A: Any, permc_spec: str | None = None, **options: Any) -> Factored:
    """Factor a sparse matrix; ``splu(A).solve(b)`` is differentiable by its values and ``b``.

    Parameters
    ----------
    A
        As `spsolve` takes it.
    permc_spec, options
        SciPy's; without effect.

    Examples
    --------
    >>> import adjoint as ad
    >>> lu = ad.sparse.linalg.splu(ad.sparse.diags_array(ad.tensor([2.0, 4.0])))
    >>> lu.solve(ad.tensor([1.0, 1.0]))
    tensor([0.5000, 0.2500])
    """
    return Factored(as_sparse_matrix(A, "splu"), "splu")


def factorized(A: Any) -> Callable[[Any], Tensor]:
    """A function that solves ``A x = b`` for what it is given; see `splu`."""
    return splu(A).solve


class BySuperLU:
    """How: by sparse factors."""

    def __call__(self, places: Places, values: Tensor, b: Tensor, adjoint: bool) -> Tensor:
        given, right = (t.detach().resolve_conj().numpy() for t in (values, b))
        return from_numpy(places.factors(given).solve(right, adjoint))


_BY_SUPERLU = BySuperLU()
linalg_error: Any = _core._LinAlgError


def rows_of_band(places: Places, values: Tensor) -> Tensor:
    """The diagonals of a band, as `adjoint.linalg.solve_banded` takes them."""
    band = places.band
    assert band is not None
    n, height = places.shape[0], band.lower + band.upper + 1
    return values.new_zeros(height * n).index_add(0, band.place, values).reshape(height, n)


def _by_band(rows: Tensor, b: Tensor, band: Any, adjoint: bool) -> Tensor:
    try:
        found: Tensor = _core._band_solve(rows, b, band.lower, band.upper, adjoint)
        return found
    except linalg_error as error:
        if "singular" not in str(error):
            raise
        raise singular(b.shape[0]) from None


def solve(places: Places, values: Tensor, b: Tensor, adjoint: bool = False) -> Tensor:
    """``op(A)⁻¹ b`` for the columns of ``b``; op is the adjoint or nothing."""
    band = places.band
    if band is not None:
        rows = rows_of_band(places, values)
        return _by_band(rows, b, band, adjoint)
    found: Tensor = Solution.apply(_BY_SUPERLU, places, adjoint, values, b)
    return found
