"""Linear systems, eigenvalues and least squares of sparse matrices, with SciPy's names.

- ``_direct.py`` - `spsolve`, `splu`: by factors; start reading here
- ``_iterative.py`` - `cg`, `minres`, `gmres`, `bicgstab`: by products; ``_krylov.py`` has the loops
- ``_least_squares.py``, ``_eigen.py``, ``_exponential.py`` - `lsqr`; `eigsh`, `eigs`, `lobpcg`,
  `svds`; `expm_multiply`
- ``_operator.py`` - `LinearOperator`: matrices that are known by their products
- ``_solution.py`` - derivatives of solutions
"""

from ._direct import factorized as factorized
from ._direct import splu as splu
from ._direct import spsolve as spsolve
from ._eigen import eigs as eigs
from ._eigen import eigsh as eigsh
from ._eigen import lobpcg as lobpcg
from ._eigen import svds as svds
from ._exponential import expm_multiply as expm_multiply
from ._iterative import bicgstab as bicgstab
from ._iterative import cg as cg
from ._iterative import gmres as gmres
from ._iterative import minres as minres
from ._least_squares import lsqr as lsqr
from ._operator import LinearOperator as LinearOperator
from ._operator import aslinearoperator as aslinearoperator

__all__ = [
    "LinearOperator",
    "aslinearoperator",
    "bicgstab",
    "cg",
    "eigs",
    "eigsh",
    "expm_multiply",
    "factorized",
    "gmres",
    "lobpcg",
    "lsqr",
    "minres",
    "splu",
    "spsolve",
    "svds",
]
