"""The CPU under the names of ``torch.cpu``: one device, which is always there."""

from __future__ import annotations

from typing import Any

from adjoint._missing import watch as _watch

from . import amp
from ._streams import Event, Stream, StreamContext, current_stream, stream

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available() -> bool:
    """Return True."""
    return True


def is_initialized() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Do nothing: ops are finished when they return."""


_watch(__name__)
