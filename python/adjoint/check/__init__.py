"""Is this derivative right? ``adjoint.check(f, *x)`` answers with a report.

The module can be called: ``adjoint.check(...)`` is ``adjoint.check.check(...)``, whose arguments
``help(adjoint.check.check)`` explains.

- ``_check.py`` - the function itself: prepares inputs, runs both orders
- ``_subject.py`` - the function under test as a map of flat vectors (on gradcheck's `Problem`)
- ``_line.py`` - along one direction: error, noise, kinks and jumps. **Read this first.**
- ``_directions.py``, ``_search.py``, ``_dot.py``, ``_taylor.py`` - the tests
- ``_run.py`` - from lines to a verdict
- ``_results.py``, ``_report.py`` - what is found, as data and text (pictures: `adjoint.plot`)
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ._check import CheckError as CheckError
from ._check import check as check
from ._report import CheckReport as CheckReport
from ._results import DotProduct as DotProduct
from ._results import Element as Element
from ._results import InputResult as InputResult
from ._results import Part as Part
from ._results import Sweep as Sweep
from ._results import Taylor as Taylor

__all__ = [
    "CheckError",
    "CheckReport",
    "DotProduct",
    "Element",
    "InputResult",
    "Part",
    "Sweep",
    "Taylor",
    "check",
]


class _Callable(ModuleType):
    """A module that is called like its function."""

    def __call__(self, f: Any, *x: Any, **options: Any) -> CheckReport:
        return check(f, *x, **options)


sys.modules[__name__].__class__ = _Callable
