"""The history of a computed tensor after ``set_``: its old one would be that of another value."""

from __future__ import annotations

from typing import Any

from adjoint._core import Tensor
from adjoint.autograd.function import Function

__all__ = ["SetMemory"]


class SetMemory(Function):
    """``set_`` as a node of the graph, which has no derivative, as in PyTorch."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, source: Tensor) -> Tensor:
        """Let the tensor refer to the memory of the source."""
        tensor.data = source
        ctx.mark_dirty(tensor)
        return tensor

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        """Refuse."""
        raise RuntimeError(
            "derivative for set_ is not implemented: the tensor refers to other memory since, and "
            "what was computed from it does not depend on its old value. fix: assign a new tensor "
            "instead of set_(), or use copy_(), which is differentiable"
        )
