"""cuDNN: not there. Scripts set its switches all the same; they are kept and change nothing."""

from __future__ import annotations

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True


def is_available() -> bool:
    """Return False: adjoint computes on the CPU."""
    return False


def version() -> None:
    """Return None: there is no cuDNN."""
