"""Linear systems, eigenvalues and least squares of sparse matrices, with SciPy's names.

- ``_direct.py`` - `spsolve`, `splu`: by factors; start reading here
- ``_iterative.py`` - `cg`, `minres`, `gmres`, `bicgstab`: by products; ``_krylov.py`` has the loops
- ``_operator.py`` - `LinearOperator`: matrices that are known by their products
- ``_solution.py`` - derivatives of solutions
"""

from ._direct import factorized as factorized
from ._direct import splu as splu
from ._direct import spsolve as spsolve
from ._iterative import bicgstab as bicgstab
from ._iterative import cg as cg
from ._iterative import gmres as gmres
from ._iterative import minres as minres
from ._operator import LinearOperator as LinearOperator
from ._operator import aslinearoperator as aslinearoperator

__all__ = [
    "LinearOperator",
    "aslinearoperator",
    "bicgstab",
    "cg",
    "factorized",
    "gmres",
    "minres",
    "splu",
    "spsolve",
]
