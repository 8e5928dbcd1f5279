"""Composites: structures of tensors that are differentiated as one thing.

A composite is any nesting of tuples, lists, dicts, named tuples, dataclasses, attrs classes and
classes decorated with ``@adjoint.composite``. The module can be called: ``adjoint.composite`` is
that decorator. `adjoint._tree` takes structures apart.

- ``_structure.py`` - the tensors of a composite, and the rest of it
- ``_agreement.py`` - the first place where two composites differ
- ``_functions.py``, ``_ravel.py``, ``_forms.py``, ``_printing.py`` - what is done with composites
- ``_class.py``, ``_arithmetic.py`` - the decorator, and composites as vectors
- ``_gradients.py`` - `autograd.grad` and `backward` of composites
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ._arithmetic import VectorSpace as VectorSpace
from ._class import composite as composite
from ._functions import detach as detach
from ._functions import grads as grads
from ._functions import map as map
from ._functions import nbytes as nbytes
from ._functions import numel as numel
from ._functions import requires_grad as requires_grad
from ._functions import to as to
from ._functions import zero_grad as zero_grad
from ._printing import describe as describe
from ._ravel import Unravel as Unravel
from ._structure import Structure as Structure

__all__ = [
    "Structure",
    "Unravel",
    "VectorSpace",
    "composite",
    "describe",
    "detach",
    "grads",
    "map",
    "nbytes",
    "numel",
    "requires_grad",
    "to",
    "zero_grad",
]


class _Callable(ModuleType):
    """A module that is called like the decorator of its name."""

    def __call__(self, cls: Any = None, /, **options: Any) -> Any:
        return composite(cls, **options)


sys.modules[__name__].__class__ = _Callable
