"""PyTorch's address of `adjoint.loops.while_loop`."""

from __future__ import annotations

from adjoint.loops import while_loop

__all__ = ["while_loop"]
