"""PyTorch's own way through attention in evaluation: there is one way here, whatever is set."""

from __future__ import annotations

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled = True


def get_fastpath_enabled() -> bool:
    """What `set_fastpath_enabled` was given last."""
    return _enabled


def set_fastpath_enabled(value: bool) -> None:
    """Keep the switch. It changes nothing."""
    global _enabled
    _enabled = value
