"""The few names of `torch._utils` that programs use."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from typing import Any, NoReturn

from adjoint import _core
from adjoint._core import Tensor
from adjoint._core import dtype as _dtype

__all__: list[str] = []


def _element_size(dtype: _dtype) -> int:
    """How many bytes an element of a dtype takes."""
    return int(_core.empty(0, dtype=dtype).element_size())


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """All elements in one row: of one tensor its own memory, of several a copy."""
    rows = [t.contiguous().view(-1) for t in tensors]
    return rows[0] if len(rows) == 1 else _core.cat(rows)


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Views of such a row with the shapes of the tensors."""
    like = list(tensors)
    parts = flat.split([t.numel() for t in like])
    return tuple(part.view(t.shape) for part, t in zip(parts, like, strict=True))


def cpu_count() -> int | None:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


class KeyErrorMessage(str):
    """A message that a KeyError shows as it is, without quotes."""

    def __repr__(self) -> str:
        return self


class ExceptionWrapper:
    """An exception of another process or thread, with its traceback as text.

    Parameters
    ----------
    exc_info : tuple, optional
        As `sys.exc_info()` returns it, which is taken by default.
    where : str
        For the message.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        # The exception itself would keep frames alive, and may not be picklable.
        info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type: Any = info[0]
        self.exc_msg = "".join(traceback.format_exception(*info))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an exception of the same class that tells the whole story."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = KeyErrorMessage(message)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=message)
        try:
            exception = self.exc_type(message)
        except Exception:  # its arguments are others
            raise RuntimeError(message) from None
        raise exception
