"""The CPU: the only backend that is there."""

from __future__ import annotations

__all__ = ["get_cpu_capability"]

_NAMES = {"v4": "AVX512", "v3": "AVX2"}


def get_cpu_capability() -> str:
    """The instructions that kernels use: "AVX512", "AVX2" or "DEFAULT"."""
    from adjoint import _core

    return _NAMES.get(_core.instruction_set(), "DEFAULT")
