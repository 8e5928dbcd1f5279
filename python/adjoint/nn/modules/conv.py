"""Convolutions with weights of their own, and their transposes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn import init
from adjoint.nn._windows import Sizes
from adjoint.nn.modules.lazy import LazyModuleMixin
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter, UninitializedParameter

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

_MODES = {"zeros", "reflect", "replicate", "circular"}


def _sizes(value: Sizes, n: int) -> tuple[int, ...]:
    """One number per spatial axis; those that are given stay as they are."""
    return (value,) * n if isinstance(value, int) else tuple(value)


class _ConvNd(Module):
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
        What is added around the input.
    groups : int
        Into how many blocks the channels are divided.
    bias : bool, default True
        Whether a bias is added.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}
        With what the input is continued.
    device, dtype : optional
        Where (the CPU) and in which dtype the parameters are made.
    """

    axes: int  # how many the window slides over
    transposed = False
    weight: Tensor
    bias: Tensor | None

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
        self._check(in_channels, out_channels, groups, padding, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = _sizes(kernel_size, self.axes)
        self.stride = _sizes(stride, self.axes)
        if padding == "same" and any(s != 1 for s in self.stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
        self.padding = padding if isinstance(padding, str) else _sizes(padding, self.axes)
        self.dilation = _sizes(dilation, self.axes)
        self.output_padding = (0,) * self.axes
        self.groups = groups
        self.padding_mode = padding_mode
        self.transposed = type(self).transposed  # where PyTorch's files have it
        self._reversed_padding_repeated_twice = self._around()
        self._make_parameters(bias, device=device, dtype=dtype)

    @staticmethod
    def _check(
        in_channels: int, out_channels: int, groups: int, padding: Sizes | str, padding_mode: str
    ) -> None:
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
        if padding_mode not in _MODES:
            raise ValueError(
                f"padding_mode must be one of {sorted(_MODES)}, but got "
                f"padding_mode='{padding_mode}'"
            )

    def _around(self) -> list[int]:
        """`padding` in the form of `functional.pad`: pairs from the last axis on."""
        if not isinstance(self.padding, str):
            return [p for p in reversed(self.padding) for _ in (0, 1)]
        pairs: list[int] = []
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size), strict=True):
            total = d * (k - 1) if self.padding == "same" else 0
            pairs += [total // 2, total - total // 2]
        return pairs

    def _weight_shape(self) -> tuple[int, ...]:
        return (self.out_channels, self.in_channels // self.groups, *self.kernel_size)

    def _make_parameters(self, bias: bool, **options: Any) -> None:
        self.weight = Parameter(ad.empty(self._weight_shape(), **options))
        self.register_parameter(
            "bias", Parameter(ad.empty(self.out_channels, **options)) if bias else None
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

    def _function(self) -> Any:
        return getattr(F, f"conv_transpose{self.axes}d" if self.transposed else f"conv{self.axes}d")

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """The convolution with these weights in place of the module's own."""
        padding: Sizes | str = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        result: Tensor = self._function()(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )
        return result

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class Conv1d(_ConvNd):
    """Slides a window over the last axis of [N, C, L]."""

    axes = 1


class Conv2d(_ConvNd):
    """Slides a window over the last two axes of [N, C, H, W].

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.Conv2d(1, 10, kernel_size=5)(ad.zeros(2, 1, 28, 28)).shape
    torch.Size([2, 10, 24, 24])
    """

    axes = 2


class Conv3d(_ConvNd):
    """Slides a window over the last three axes of [N, C, D, H, W]."""

    axes = 3


class _ConvTransposeNd(_ConvNd):
    """The transposes: weights [in, out / groups, *kernel]; `output_padding` enlarges the result."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: ad.dtype | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            _sizes(padding, self.axes),
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = _sizes(output_padding, self.axes)

    def _weight_shape(self) -> tuple[int, ...]:
        return (self.in_channels, self.out_channels // self.groups, *self.kernel_size)

    def _output_padding(self, input: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """What is missing to a size that was asked for."""
        if output_size is None:
            return self.output_padding
        n = self.axes
        leading = 2 if input.dim() == n + 2 else 1
        wanted = list(output_size)
        if len(wanted) == leading + n:
            wanted = wanted[leading:]
        if len(wanted) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{leading + n} elements (got {len(wanted)})"
            )
        least = [
            (size - 1) * s - 2 * p + d * (k - 1) + 1
            for size, s, p, d, k in zip(
                input.shape[leading:],
                self.stride,
                cast("tuple[int, ...]", self.padding),
                self.dilation,
                self.kernel_size,
                strict=True,
            )
        ]
        most = [low + s - 1 for low, s in zip(least, self.stride, strict=True)]
        if any(not a <= w <= b for a, w, b in zip(least, wanted, most, strict=True)):
            raise ValueError(
                f"requested an output size of {wanted}, but valid sizes range from {least} to "
                f"{most} (for an input of {input.size()[2:]})"
            )
        return tuple(w - low for w, low in zip(wanted, least, strict=True))

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        result: Tensor = self._function()(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )
        return result


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of a convolution over the last axis of [N, C, L]."""

    axes = 1


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of a convolution over the last two axes of [N, C, H, W].

    Examples
    --------
    >>> import adjoint as ad
    >>> down, up = ad.nn.Conv2d(1, 2, 3, stride=2), ad.nn.ConvTranspose2d(2, 1, 3, stride=2)
    >>> x = ad.zeros(1, 1, 12, 12)
    >>> up(down(x)).shape, up(down(x), output_size=x.shape).shape
    (torch.Size([1, 1, 11, 11]), torch.Size([1, 1, 12, 12]))
    """

    axes = 2


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of a convolution over the last three axes of [N, C, D, H, W]."""

    axes = 3


# --- of as many input channels as the first input has -------------------------------------------
class _LazyConvMixin(LazyModuleMixin):
    """What lazy convolutions share."""

    axes: int
    weight: Any
    bias: Any
    in_channels: int
    out_channels: int
    groups: int

    def _make_parameters(self, bias: bool, **options: Any) -> None:
        self.weight = UninitializedParameter(**options)
        self.register_parameter("bias", UninitializedParameter(**options) if bias else None)

    register_parameter: Any
    _weight_shape: Any

    def reset_parameters(self) -> None:
        """Draw the parameters, once they have a shape."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Give the parameters a shape, from the channels of the input."""
        if not self.has_uninitialized_params():
            return
        n = self.axes
        if input.dim() not in (n + 1, n + 2):
            raise RuntimeError(
                f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-n - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class _LazyConvNd(_LazyConvMixin):
    def __init__(self, out_channels: int, kernel_size: Sizes, *args: Any, **kwargs: Any) -> None:
        super().__init__(0, out_channels, kernel_size, *args, **kwargs)


class LazyConv1d(_LazyConvNd, Conv1d):
    """A `Conv1d` that learns its `in_channels` from the first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvNd, Conv2d):
    """A `Conv2d` that learns its `in_channels` from the first input.

    Examples
    --------
    >>> import adjoint as ad
    >>> layer = ad.nn.LazyConv2d(4, kernel_size=3)
    >>> layer(ad.zeros(1, 2, 5, 5)).shape
    torch.Size([1, 4, 3, 3])
    >>> layer
    Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1))
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvNd, Conv3d):
    """A `Conv3d` that learns its `in_channels` from the first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvNd, ConvTranspose1d):
    """A `ConvTranspose1d` that learns its `in_channels` from the first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvNd, ConvTranspose2d):
    """A `ConvTranspose2d` that learns its `in_channels` from the first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvNd, ConvTranspose3d):
    """A `ConvTranspose3d` that learns its `in_channels` from the first input."""

    cls_to_become = ConvTranspose3d
