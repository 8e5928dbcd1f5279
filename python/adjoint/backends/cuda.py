"""CUDA's switches: kept, without effect."""

from __future__ import annotations

from types import SimpleNamespace

matmul = SimpleNamespace(allow_tf32=False)


def is_built() -> bool:
    """Return False: adjoint computes on the CPU."""
    return False
