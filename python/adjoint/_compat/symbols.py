"""Classes of PyTorch's that nothing here is an instance of: sizes without a value, queues of work.

Libraries ask ``isinstance(n, torch.SymInt)``, and hold ``torch.Event`` for other devices.
"""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Event", "Stream", "SymBool", "SymFloat", "SymInt"]

_NONE = "sizes always have values here: use Python's own number"


class _Symbol:
    def __init__(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError(f"torch.{type(self).__name__}: {_NONE}")


class SymInt(_Symbol):
    """PyTorch's class of whole numbers that a tracer does not know."""


class SymFloat(_Symbol):
    """PyTorch's class of numbers that a tracer does not know."""


class SymBool(_Symbol):
    """PyTorch's class of conditions that a tracer does not know."""


def _no_accelerator() -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")


class Stream:
    """A queue of work on an accelerator, which there is none of."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _no_accelerator()


class Event:
    """A mark in a queue of work on an accelerator, which there is none of."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _no_accelerator()
