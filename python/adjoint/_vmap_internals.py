"""PyTorch's old address of ``vmap``, which some programs still use."""

from __future__ import annotations

from adjoint.func import vmap as vmap
from adjoint.func._vmap import old_vmap as _vmap

__all__ = ["_vmap", "vmap"]
