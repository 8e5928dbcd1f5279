"""PyTorch's address of `adjoint.cond`."""

from __future__ import annotations

from adjoint._compat.small_names import cond

__all__ = ["cond"]
