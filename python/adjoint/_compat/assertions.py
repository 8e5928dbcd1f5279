"""``torch._check`` and its like: conditions that libraries state about their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint._core import Tensor

__all__: list[str] = []

_Message = Callable[[], str] | None


def _check_with(error_type: type[Exception], cond: Any, message: _Message) -> None:
    """Raise an error of this class unless ``cond`` is true."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type(
            "Expected cond to be True, but got False. (Could this error message be improved? "
            "If so, please report an enhancement request to PyTorch.)"
        )
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: Any, message: _Message = None) -> None:
    """Raise RuntimeError unless ``cond`` is true."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: _Message = None) -> None:
    """Raise IndexError unless ``cond`` is true."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: _Message = None) -> None:
    """Raise ValueError unless ``cond`` is true."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: _Message = None) -> None:
    """Raise TypeError unless ``cond`` is true."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: _Message = None) -> None:
    """Raise NotImplementedError unless ``cond`` is true."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: _Message = None, *, max: int | None = None) -> None:
    """Raise RuntimeError unless ``i`` may be a size."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Any, message: _Message = None
) -> None:
    """Raise an error of this class unless every element of ``cond`` is true."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if str(cond.dtype) != "torch.bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Any, message: _Message = None) -> None:
    """Raise RuntimeError unless every element of ``cond`` is true."""
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert(condition: Any, message: str) -> None:
    """Python's ``assert``, as a function."""
    assert condition, message
