"""Linear algebra under the names of ``torch.linalg``.

Most are ops (src/ops/linalg); leading axes are batch axes, and derivatives of every order
are there. Read next: src/ops/linalg/gaps.h, what happens at repeated eigenvalues. Banded systems
(_banded.py) have SciPy's names.
"""

from __future__ import annotations

from typing import Any as _Any

from adjoint import _core
from adjoint._core import _LinAlgError as LinAlgError
from adjoint._missing import missing as _missing
from adjoint._missing import watch as _watch

from ._banded import solve_banded as solve_banded
from ._banded import solveh_banded as solveh_banded

cholesky = _core.linalg_cholesky
cholesky_ex = _core.linalg_cholesky_ex
cond = _core.linalg_cond
cross = _core.linalg_cross
det = _core.linalg_det
eig = _core.linalg_eig
eigh = _core.linalg_eigh
eigvals = _core.linalg_eigvals
eigvalsh = _core.linalg_eigvalsh
householder_product = _core.linalg_householder_product
inv = _core.linalg_inv
inv_ex = _core.linalg_inv_ex
ldl_factor = _core.linalg_ldl_factor
ldl_factor_ex = _core.linalg_ldl_factor_ex
ldl_solve = _core.linalg_ldl_solve
lstsq = _core.linalg_lstsq
lu = _core.linalg_lu
lu_factor = _core.linalg_lu_factor
lu_factor_ex = _core.linalg_lu_factor_ex
lu_solve = _core.linalg_lu_solve
matrix_exp = _core.linalg_matrix_exp
matrix_norm = _core.linalg_matrix_norm
matrix_power = _core.linalg_matrix_power
matrix_rank = _core.linalg_matrix_rank
multi_dot = _core.linalg_multi_dot
norm = _core.linalg_norm
pinv = _core.linalg_pinv
qr = _core.linalg_qr
slogdet = _core.linalg_slogdet
solve = _core.linalg_solve
solve_ex = _core.linalg_solve_ex
solve_triangular = _core.linalg_solve_triangular
svd = _core.linalg_svd
svdvals = _core.linalg_svdvals
tensorinv = _core.linalg_tensorinv
tensorsolve = _core.linalg_tensorsolve
vander = _core.linalg_vander
vecdot = _core.linalg_vecdot
vector_norm = _core.linalg_vector_norm
matmul = _core.matmul

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_banded",
    "solve_ex",
    "solve_triangular",
    "solveh_banded",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]


def diagonal(A: _core.Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> _core.Tensor:
    """Return the diagonals of matrices, as a view."""
    return A.diagonal(offset, dim1, dim2)


def __getattr__(name: str) -> _Any:
    from adjoint._array_api import LINALG

    if name in LINALG:  # of the array API, beyond torch.linalg
        return LINALG[name]
    raise _missing(__name__, name)


_watch(__name__)
