"""The surroundings of child processes: they import the adjoint that this process has.

The checkout's `python` folder does not serve: it has no compiled core where adjoint is installed.
"""

from __future__ import annotations

import os
from pathlib import Path

import adjoint as ad

ROOT = Path(__file__).parents[1]
ADJOINT = Path(ad.__file__).parents[1]  # Absolute: a child may run in another folder.

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ADJOINT)}
# For children that import `tests` or `tools` as well.
WITH_CHECKOUT = os.environ | {"PYTHONPATH": f"{ADJOINT}{os.pathsep}{ROOT}"}
