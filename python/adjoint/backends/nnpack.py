"""NNPACK: not there. Its switch is kept and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager

__all__ = ["flags", "is_available", "set_flags"]

_enabled = False


def is_available() -> bool:
    """Return False: adjoint has kernels of its own."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Keep the switch, and return what it was."""
    before = globals()["_enabled"]
    globals()["_enabled"] = _enabled
    return (before,)


@_contextmanager
def flags(enabled: bool = False) -> _Iterator[None]:
    """A block in which the switch is another; it changes nothing."""
    (before,) = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(before)
