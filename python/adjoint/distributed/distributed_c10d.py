"""PyTorch's address of what `adjoint.distributed` has."""

from __future__ import annotations

from typing import Any

from adjoint.distributed import *  # noqa: F403
from adjoint.distributed import __all__ as __all__
from adjoint.distributed._world import _world

_get_default_group = _world


def __getattr__(name: str) -> Any:
    import adjoint.distributed

    return getattr(adjoint.distributed, name)
