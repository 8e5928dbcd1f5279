"""Helpers that PyTorch users find under `torch.utils`."""

from adjoint.utils import dlpack as dlpack
from adjoint.utils import hooks as hooks

__all__ = ["dlpack", "hooks"]
