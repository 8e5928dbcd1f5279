"""Loading the core without OpenBLAS's own threads.

OpenBLAS starts its workers when the library is loaded; next to our pool they only get in the way,
so it is told to have none. The variable is put back, as other copies of OpenBLAS in this process
(NumPy's) read it too.
"""

from __future__ import annotations

import importlib
import os
from types import ModuleType

_VARIABLE = "OPENBLAS_NUM_THREADS"


def load() -> ModuleType:
    """Import ``adjoint._core``."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"
    try:
        return importlib.import_module("adjoint._core")
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before
