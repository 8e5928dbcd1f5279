"""What `load` raises for a file that it cannot read."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["CallersError", "LoadError", "as_damage", "shortened", "shown"]


class LoadError(RuntimeError, pickle.UnpicklingError):
    """The file is damaged, is not of a kind that `load` reads, or holds what it refuses.

    Both of the classes that PyTorch raises: RuntimeError for a damaged archive, UnpicklingError for
    a damaged pickle or one that asks for more than data.
    """

    __module__ = "adjoint.serialization"


class CallersError(Exception):
    """Something that the caller gave, ``map_location``, raised its cause: no fault of the file."""


@contextmanager
def as_damage(describe: Callable[[Exception], str]) -> Iterator[None]:
    """Raise LoadError for whatever goes wrong in the block: a list of mistakes is never complete.

    Errors of the disk, and memory that is not there, are no fault of the file.
    """
    try:
        yield
    except (LoadError, CallersError, OSError, MemoryError):
        raise
    except RecursionError:
        raise LoadError("it is nested too deeply") from None
    except Exception as error:
        raise LoadError(describe(error)) from error


def shortened(text: str) -> str:
    """A message of a length that can be read, whatever names and shapes a file has."""
    return text if len(text) <= 1000 else f"{text[:600]} [...] {text[-300:]}"


def shown(value: Any) -> str:
    """What a file says, short. Not ``repr``: of containers that share parts it may not end."""
    if isinstance(value, str | bytes):
        return repr(value[:60])
    if value is None or isinstance(value, bool | float):
        return repr(value)
    if isinstance(value, int):
        return repr(value) if value.bit_length() < 200 else f"an int of {value.bit_length()} bits"
    if isinstance(value, tuple | list) and len(value) <= 8:
        simple = (str, bytes, bool, float, int, type(None))
        parts = ", ".join(shown(v) if isinstance(v, simple) else _kind(v) for v in value)
        return f"[{parts}]" if isinstance(value, list) else f"({parts})"
    return _kind(value)


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}"
