"""Helpers that PyTorch users find under `torch.utils`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjoint.utils import dlpack as dlpack
from adjoint.utils import hooks as hooks

if TYPE_CHECKING:
    from adjoint.utils import checkpoint as checkpoint

__all__ = ["checkpoint", "dlpack", "hooks"]


def __getattr__(name: str) -> Any:
    if name == "checkpoint":  # at its first use: importing adjoint costs little without optree
        return import_module("adjoint.utils.checkpoint")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
