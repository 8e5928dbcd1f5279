"""MKL: not there; products of matrices are OpenBLAS's and adjoint's own."""

from __future__ import annotations

__all__ = ["VERBOSE_OFF", "VERBOSE_ON", "is_available", "verbose"]

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """Return False."""
    return False


class verbose:
    """A block in which MKL would tell what it does: there is nothing to tell."""

    def __init__(self, enable: int) -> None:
        self.enable = enable

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *_: object) -> None:
        pass
