"""Questions about a value that need no computation: `is_tensor`, `is_complex` and their like."""

from __future__ import annotations

from typing import Any

from ._core import Tensor

__all__ = ["is_complex", "is_floating_point", "is_nonzero", "is_tensor", "numel"]


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floating-point numbers."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return input.is_complex()


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element differs from zero; a RuntimeError if there are more, or none."""
    return bool(input)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()
