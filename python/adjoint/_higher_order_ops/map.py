"""PyTorch's address and form of `adjoint.loops.map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import loops

__all__ = ["map"]


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """Call a function with each row of its inputs and with `args`: see `adjoint.loops.map`."""
    return loops.map(lambda row: f(row, *args), xs)
