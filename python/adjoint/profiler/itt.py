"""Names of `torch.profiler.itt`, Intel's tracer: adjoint does not talk to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def is_available() -> bool:
    """False."""
    return False


def range_push(msg: str) -> int:
    """Do nothing."""
    return 0


def range_pop() -> int:
    """Do nothing."""
    return 0


def mark(msg: str) -> None:
    """Do nothing."""


@contextmanager
def range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """A range of an ordinary profile: `record_function`."""
    from adjoint.profiler._record import record_function

    with record_function(msg.format(*args, **kwargs)):
        yield
