"""Names of linear algebra at the top of PyTorch that are not ops: `lu`."""

from __future__ import annotations

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["lu"]


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Return LU factors in one matrix and pivots; see `linalg.lu_factor`.

    Parameters
    ----------
    A : Tensor
        Matrices of shape [..., m, n].
    pivot : bool
        Whether rows are exchanged; only True is implemented on CPUs.
    get_infos : bool
        Whether info codes are returned as well: 0, or which pivot is zero. Without them a zero
        pivot is an error.

    Returns
    -------
    tuple of Tensor
        LU, pivots and, with ``get_infos``, the codes.
    """
    factors, pivots, info = _core._lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    return (factors, pivots, info) if get_infos else (factors, pivots)
