"""The weights of convolutions in another order of axes in memory."""

from __future__ import annotations

from typing import Any, TypeVar

from adjoint.nn.modules import conv as _conv
from adjoint.nn.modules.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]

M = TypeVar("M", bound=Module)


def convert_conv2d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay the weights of all 2-d convolutions in a module out in a memory format."""
    return _convert(module, memory_format, ("Conv2d", "ConvTranspose2d"))


def convert_conv3d_weight_memory_format(module: M, memory_format: Any) -> M:
    """Lay the weights of all 3-d convolutions in a module out in a memory format."""
    return _convert(module, memory_format, ("Conv3d", "ConvTranspose3d"))


def _convert(module: M, memory_format: Any, names: tuple[str, ...]) -> M:
    classes = tuple(vars(_conv)[name] for name in names if name in vars(_conv))
    for below in module.modules():
        if isinstance(below, classes):
            weight: Any = below.weight
            weight.data = weight.detach().clone().contiguous(memory_format=memory_format)
    return module
