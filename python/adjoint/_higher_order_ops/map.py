"""PyTorch's address of `adjoint.loops.map`."""

from __future__ import annotations

from adjoint.loops import map

__all__ = ["map"]
