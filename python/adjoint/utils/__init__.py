"""Helpers that PyTorch users find under `torch.utils`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjoint.utils import dlpack as dlpack
from adjoint.utils import hooks as hooks

if TYPE_CHECKING:
    from adjoint.utils import _pytree as _pytree
    from adjoint.utils import checkpoint as checkpoint
    from adjoint.utils import data as data
    from adjoint.utils._swapping import swap_tensors as swap_tensors

__all__ = ["checkpoint", "data", "dlpack", "hooks", "swap_tensors"]


def __getattr__(name: str) -> Any:
    if name == "swap_tensors":
        return import_module("adjoint.utils._swapping").swap_tensors
    if name in ("_pytree", "checkpoint", "data"):  # importing adjoint costs little
        return import_module(f"adjoint.utils.{name}")
    from adjoint._missing import missing

    raise missing(__name__, name)
