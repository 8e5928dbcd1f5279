"""`torch.accelerator`: there is none."""

from __future__ import annotations

from typing import Any, NoReturn

from adjoint._missing import missing as _missing

__all__ = [
    "current_accelerator",
    "current_device_index",
    "current_stream",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "is_available",
    "max_memory_allocated",
    "memory_allocated",
    "memory_stats",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """None."""
    return 0


def current_accelerator(check_available: bool = False) -> None:
    """None: everything is on the CPU."""


def synchronize(device: Any = None) -> None:
    """Do nothing: what a call returns is done."""


def empty_cache() -> None:
    """Do nothing."""


def _no_accelerator(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise: there is none."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_index = current_device_idx = set_device_index = set_device_idx = _no_accelerator
current_stream = set_stream = get_device_capability = get_memory_info = _no_accelerator
memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _no_accelerator
memory_stats = reset_peak_memory_stats = reset_accumulated_memory_stats = _no_accelerator
empty_host_cache = _no_accelerator


class device_index:
    """A ``with`` block in which an accelerator is the current one; with None, an ordinary block."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            _no_accelerator()

    def __exit__(self, *_: object) -> None:
        pass


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
