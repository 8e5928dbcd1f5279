"""What functions written in Python refuse, in the words and with the classes of the native ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor


def require_tensor(function: str, name: str, position: int, value: Any) -> None:
    """Raise a TypeError unless an argument is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be Tensor, not "
            f"{type(value).__name__}"
        )


def require_flag(function: str, name: str, position: int, value: Any) -> None:
    """Raise a TypeError unless an argument is a bool: other numbers are most likely misplaced."""
    if not isinstance(value, bool):
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be bool, not "
            f"{type(value).__name__}"
        )


def require_tensors(function: str, values: Sequence[Any]) -> None:
    """Raise a TypeError unless all of these are tensors."""
    for i, value in enumerate(values):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{function}(): expected Tensor as element {i} in argument 0, but got "
                f"{type(value).__name__}"
            )


def write_out(out: Tensor, value: Tensor) -> Tensor:
    """Write the result into the tensor given as ``out=``, which takes its shape."""
    if _core.is_grad_enabled() and (value.requires_grad or out.requires_grad):
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of "
            "the arguments requires grad."
        )
    if out.dtype != value.dtype:
        raise RuntimeError(
            f"Expected out tensor to have dtype {value.dtype}, but got {out.dtype} instead"
        )
    if out.shape != value.shape:
        out.resize_(tuple(value.shape))
    return out.copy_(value)
