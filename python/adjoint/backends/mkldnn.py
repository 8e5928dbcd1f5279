"""oneDNN: not there. Scripts set its switches all the same; they are kept and change nothing."""

from __future__ import annotations

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager

enabled = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return False: adjoint has kernels of its own."""
    return False


@_contextmanager
def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> _Iterator[None]:
    """A block in which the switches are others; they change nothing."""
    own = globals()
    names = ("enabled", "deterministic", "allow_tf32")
    before = {name: own[name] for name in names}
    own.update(zip(names, (enabled, deterministic, allow_tf32), strict=True))
    try:
        yield
    finally:
        own.update(before)
