"""Externals: gradients through code that autograd cannot see.

``ad.external(f)`` gives a function of NumPy arrays a derivative: by differences, given, or derived
from what is given. The package is called like the function of its name;
``help(ad.external.external)`` explains the arguments. Read next: _external.py.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from adjoint.numeric._errors import EvaluationError, ExternalError

from . import parsers as parsers
from ._command import Command, CommandError, command
from ._ctypes import CFunction, ctypes_function
from ._evaluate import Evaluation
from ._external import Cost, External, external, numpy_function
from ._scipy import ScipyCallback, scipy_callback

__all__ = [
    "CFunction",
    "Command",
    "CommandError",
    "Cost",
    "Evaluation",
    "EvaluationError",
    "External",
    "ExternalError",
    "ScipyCallback",
    "command",
    "ctypes_function",
    "external",
    "numpy_function",
    "parsers",
    "scipy_callback",
]


class _Callable(ModuleType):
    """A module that is called like the function of its name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return external(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
