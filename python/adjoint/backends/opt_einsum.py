"""The order of products in `einsum`, which adjoint chooses itself; the switches are kept."""

from __future__ import annotations

__all__ = ["enabled", "get_opt_einsum", "is_available", "strategy"]

enabled = True
strategy: str | None = "auto"


def is_available() -> bool:
    """Return False: the package is not used."""
    return False


def get_opt_einsum() -> None:
    """Return None: the package is not used."""
