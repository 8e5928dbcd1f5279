"""Linear algebra under the names of ``torch.linalg``.

Most are ops (src/ops/linalg); leading axes are batch axes, and derivatives of every order
are there. Read next: src/ops/linalg/gaps.h, what happens at repeated eigenvalues.
"""

from __future__ import annotations

from typing import Any as _Any

from adjoint import _core
from adjoint._core import _LinAlgError as LinAlgError
from adjoint._missing import missing as _missing

cholesky = _core.linalg_cholesky
cholesky_ex = _core.linalg_cholesky_ex
det = _core.linalg_det
eig = _core.linalg_eig
eigh = _core.linalg_eigh
eigvals = _core.linalg_eigvals
eigvalsh = _core.linalg_eigvalsh
inv = _core.linalg_inv
inv_ex = _core.linalg_inv_ex
lu = _core.linalg_lu
lu_factor = _core.linalg_lu_factor
lu_factor_ex = _core.linalg_lu_factor_ex
lu_solve = _core.linalg_lu_solve
slogdet = _core.linalg_slogdet
solve = _core.linalg_solve
solve_ex = _core.linalg_solve_ex
solve_triangular = _core.linalg_solve_triangular
svd = _core.linalg_svd
svdvals = _core.linalg_svdvals

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "inv_ex",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
]


def __getattr__(name: str) -> _Any:
    raise _missing(__name__, name)
