"""Apple's GPUs: not there."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: adjoint computes on the CPU."""
    return False


def is_built() -> bool:
    """Return False."""
    return False
