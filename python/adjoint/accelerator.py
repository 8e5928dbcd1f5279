"""`torch.accelerator`: there is none."""

from __future__ import annotations

from typing import Any

from adjoint._missing import missing as _missing

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


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


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
