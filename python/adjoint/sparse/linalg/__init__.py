"""Linear systems, eigenvalues and least squares of sparse matrices, with SciPy's names.

- ``_direct.py`` - `spsolve`, `splu`: by factors; start reading here
"""

from ._direct import factorized as factorized
from ._direct import splu as splu
from ._direct import spsolve as spsolve

__all__ = ["factorized", "splu", "spsolve"]
