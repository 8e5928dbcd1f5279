"""cuDNN: not there. Scripts set its switches all the same; they are kept and change nothing."""

from __future__ import annotations

from collections.abc import Iterator as _Iterator
from contextlib import contextmanager as _contextmanager

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return False: adjoint computes on the CPU."""
    return False


def version() -> None:
    """Return None: there is no cuDNN."""


@_contextmanager
def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
) -> _Iterator[None]:
    """A block in which the switches are others; they change nothing."""
    own = globals()
    names = ("enabled", "benchmark", "deterministic", "allow_tf32")
    before = {name: own[name] for name in names}
    own.update(zip(names, (enabled, benchmark, deterministic, allow_tf32), strict=True))
    try:
        yield
    finally:
        own.update(before)
