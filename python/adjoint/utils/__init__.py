"""Helpers that PyTorch users find under `torch.utils`."""

from adjoint.utils import checkpoint as checkpoint
from adjoint.utils import dlpack as dlpack
from adjoint.utils import hooks as hooks

__all__ = ["checkpoint", "dlpack", "hooks"]
