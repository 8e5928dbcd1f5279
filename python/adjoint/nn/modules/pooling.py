"""Pooling: the largest element of each window."""

from __future__ import annotations

from typing import Any

from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn._windows import Sizes
from adjoint.nn.modules.module import Module

__all__ = ["MaxPool1d", "MaxPool2d", "MaxPool3d"]


class _MaxPool(Module):
    """What they share; `functional.max_pool2d` says what the arguments mean."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _arguments(self) -> dict[str, Any]:
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")
        return {name: getattr(self, name) for name in names}

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest element of each window of the last axis."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool1d(input, **self._arguments())


class MaxPool2d(_MaxPool):
    """The largest element of each window of the last two axes."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool2d(input, **self._arguments())


class MaxPool3d(_MaxPool):
    """The largest element of each window of the last three axes."""

    def forward(self, input: Tensor) -> Any:
        return F.max_pool3d(input, **self._arguments())
