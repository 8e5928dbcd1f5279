"""Tensor functions that also take composites: what the native function calls for a non-tensor.

Nothing is imported, and tensors are not slowed down, until a composite comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["FORMS"]


def _form(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        from adjoint.composite import _forms

        return getattr(_forms, name)(*args, **kwargs)

    return call


FORMS = {name: _form(name) for name in ("allclose", "clone", "flatten", "ravel", "unflatten")}
