"""What the module of a device answers that is not there: `mps`, `mtia` and `xpu`."""

from __future__ import annotations

from typing import Any

__all__ = [
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "synchronize",
]


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
