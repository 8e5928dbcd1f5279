"""`torch.mtia`: there is no such device."""

from __future__ import annotations

from typing import Any

from adjoint._missing import missing as _missing

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """None."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing."""


def manual_seed_all(seed: int) -> None:
    """Do nothing."""


def empty_cache() -> None:
    """Do nothing."""


def synchronize(device: Any = None) -> None:
    """Do nothing."""


def __getattr__(name: str) -> Any:
    raise _missing(__name__, name)
