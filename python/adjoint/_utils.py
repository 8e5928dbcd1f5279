"""The few names of `torch._utils` that programs use."""

from __future__ import annotations

from adjoint import _core
from adjoint._core import dtype as _dtype

__all__: list[str] = []


def _element_size(dtype: _dtype) -> int:
    """How many bytes an element of a dtype takes."""
    return int(_core.empty(0, dtype=dtype).element_size())
