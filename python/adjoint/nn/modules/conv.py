"""Convolutions with weights of their own."""

from __future__ import annotations

import math
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn._windows import Sizes, per_axis
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "Conv3d"]


class _Convolution(Module):
    """What they share: weights [out, in / groups, *kernel] and bias [out].

    Parameters
    ----------
    in_channels, out_channels : int
        Sizes of axis 1 before and after.
    kernel_size : int or tuple
        Sizes of the window.
    stride, dilation : int or tuple
        Steps of the window, and within it.
    padding : int, tuple, "valid" or "same"
        Zeros around the input.
    groups : int
        Into how many blocks the channels are divided.
    bias : bool, default True
        Whether a bias is added.
    padding_mode : {"zeros"}
        Only zeros are there.
    device, dtype : optional
        Where (the CPU) and in which dtype the parameters are made.
    """

    axes: int  # how many the window slides over

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str) and padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of ('same', 'valid')"
            )
        if padding_mode != "zeros":
            raise NotImplementedError(
                f"padding_mode {padding_mode!r} is not in adjoint; only 'zeros' is"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_axis(kernel_size, self.axes, "kernel_size")
        self.stride = per_axis(stride, self.axes, "stride")
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        self.padding = (
            padding if isinstance(padding, str) else per_axis(padding, self.axes, "padding")
        )
        self.dilation = per_axis(dilation, self.axes, "dilation")
        self.groups = groups
        self.padding_mode = padding_mode
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        self.weight = Parameter(ad.empty(shape, device=device, dtype=dtype))
        self.register_parameter(
            "bias", Parameter(ad.empty(out_channels, device=device, dtype=dtype)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new weights and bias: the numbers that PyTorch draws from the same seed."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _arguments(self) -> tuple[Any, ...]:
        return self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0,) * self.axes:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self.axes:
            text += f", dilation={self.dilation}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        return text if self.bias is not None else text + ", bias=False"


class Conv1d(_Convolution):
    """Slides a window over the last axis of [N, C, L]."""

    axes = 1

    def forward(self, input: Tensor) -> Tensor:
        return F.conv1d(input, *self._arguments())


class Conv2d(_Convolution):
    """Slides a window over the last two axes of [N, C, H, W].

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.Conv2d(1, 10, kernel_size=5)(ad.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10, 24, 24])
    """

    axes = 2

    def forward(self, input: Tensor) -> Tensor:
        return F.conv2d(input, *self._arguments())


class Conv3d(_Convolution):
    """Slides a window over the last three axes of [N, C, D, H, W]."""

    axes = 3

    def forward(self, input: Tensor) -> Tensor:
        return F.conv3d(input, *self._arguments())
