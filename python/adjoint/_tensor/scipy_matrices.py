"""SciPy's sparse matrices beside tensors: `matrix @ x` and `x @ matrix`, with gradients for `x`.

A matrix has no gradient itself; make a sparse tensor of its values for that. Read next: sparse.py.
"""

from __future__ import annotations

import sys
from typing import Any

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["is_asked_by_scipy", "sparse_tensor_beside"]


def sparse_tensor_beside(matrix: Any, tensor: Tensor) -> Tensor:
    """The matrix as a sparse tensor of the dtype of `tensor`, which it is multiplied with."""
    if matrix.ndim != 2:
        raise TypeError(f"sparse arrays with {matrix.ndim} axes are not taken; use a 2-d one")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise TypeError(
            f"a SciPy matrix is multiplied with a tensor of {tensor.dtype}. fix: convert it to a "
            "float dtype"
        )
    if matrix.dtype.kind == "c" and not tensor.is_complex():
        raise TypeError(
            f"a complex SciPy matrix is multiplied with a tensor of {tensor.dtype}. fix: convert "
            "the tensor to a complex dtype"
        )
    rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    from adjoint._tensor.creation import as_tensor

    values = as_tensor(rows.data).to(tensor.dtype)
    start, column = as_tensor(rows.indptr), as_tensor(rows.indices)
    return _core._sparse_compressed(start, column, values, list(rows.shape), 1)


def is_asked_by_scipy() -> bool:
    """Whether a sparse matrix of SciPy to the left of `@` asks for the array of a tensor.

    SciPy makes arrays of what it does not know, and lets the other operand have its turn only if
    that gives an object. A tensor that requires grad would lose its history there.
    """
    frame = sys._getframe(2)
    package: str = frame.f_globals.get("__name__", "")
    return package.startswith("scipy.sparse") and frame.f_code.co_name == "_matmul_dispatch"
