"""What one says about compiling from inside a function, or to all compiled functions."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from adjoint import _core

__all__ = ["compiled", "disable", "is_compiling", "is_dynamo_compiling", "is_exporting", "reset"]

F = TypeVar("F", bound=Callable[..., Any])

compiled: weakref.WeakSet[Any] = weakref.WeakSet()


def is_compiling() -> bool:
    """Whether the calling code runs to be recorded.

    A recorded function runs once for each kind of arguments; what stands under
    ``if not is_compiling():`` is left out of the program.
    """
    return _core._is_recording()


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether a program is made for export: never, adjoint exports none."""
    return False


def disable(fn: F | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Keep a function out of programs: one that calls it runs eagerly, and says so.

    Parameters
    ----------
    fn
        The function; left away, a decorator is returned.
    recursive
        There for PyTorch's signature: what the function calls is left out as well.
    reason
        What the report gives as the reason.
    """
    if fn is None:
        return lambda f: disable(f, recursive, reason=reason)
    why = reason or f"`{getattr(fn, '__qualname__', fn)}` is kept out of programs by disable()"

    @functools.wraps(fn)
    def outside(*args: Any, **kwargs: Any) -> Any:
        _core._refuse_recording(why)
        return fn(*args, **kwargs)

    return outside


def reset() -> None:
    """Forget all programs: every compiled function is recorded anew."""
    for one in list(compiled):
        one.forget()
