"""Names of linear algebra at the top of PyTorch that are not ops: `lu`."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["lu"]


def lu(
    A: Tensor, pivot: bool = True, get_infos: bool = False, out: Sequence[Tensor] | None = None
) -> Sequence[Tensor]:
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
    out : sequence of Tensor, optional
        Where the results go: as many tensors, which are resized.

    Returns
    -------
    tuple of Tensor
        LU, pivots and, with ``get_infos``, the codes.
    """
    factors, pivots, info = _core._lu_with_info(A, pivot=pivot, check_errors=not get_infos)
    found = (factors, pivots, info) if get_infos else (factors, pivots)
    if out is None:
        return found
    if not isinstance(out, tuple | list):
        raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) != len(found):
        raise TypeError(f"expected tuple of {len(found)} elements but got {len(out)}")
    for place, result in zip(out, found, strict=True):
        place.resize_as_(result).copy_(result)
    return out
