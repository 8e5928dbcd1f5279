"""Convolutions: one matrix product over the windows of the input.

The windows are views; the product copies them once. Derivatives, forward mode and batching follow
from the operations it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from adjoint import Tensor
from adjoint._tensor.arguments import require_tensor
from adjoint.nn._padding import pad
from adjoint.nn._windows import Sizes, batched_input, check_positive, per_axis, sliding


def _padding(
    padding: Sizes | str,
    name: str,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> list[tuple[int, int]]:
    """(before, after) for each axis."""
    if not isinstance(padding, str):
        given = per_axis(padding, len(kernel), f"{name}: padding")
        if any(p < 0 for p in given):
            raise RuntimeError(f"{name}: negative padding is not supported, got {given}")
        return [(p, p) for p in given]
    if padding == "valid":
        return [(0, 0)] * len(kernel)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: {padding!r}; expected 'valid' or 'same'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    return [(t // 2, t - t // 2) for t in totals]


def _check(x: Tensor, weight: Tensor, bias: Tensor | None, groups: int, n: int, name: str) -> None:
    if weight.ndim != n + 2:
        raise RuntimeError(
            f"{name}: expected a weight of {n + 2} axes (out_channels, in_channels / groups, "
            f"*kernel), got {list(weight.shape)}"
        )
    if groups < 1 or weight.size(0) % groups != 0:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0 and "
            f"divisible by it, but got weight of size {list(weight.shape)} instead"
        )
    if x.size(1) != weight.size(1) * groups:
        raise RuntimeError(
            f"Given groups={groups}, weight of size {list(weight.shape)}, expected "
            f"input{list(x.shape)} to have {weight.size(1) * groups} channels, but got "
            f"{x.size(1)} channels instead"
        )
    if bias is not None and list(bias.shape) != [weight.size(0)]:
        raise RuntimeError(
            f"Given weight of size {list(weight.shape)}, expected bias to be 1-dimensional with "
            f"{weight.size(0)} elements, but got bias of size {list(bias.shape)} instead"
        )
    for what, other in (("weight", weight), ("bias", bias)):
        if other is not None and other.dtype != x.dtype:
            raise RuntimeError(
                f"{name}: Input type ({x.dtype}) and {what} type ({other.dtype}) should be the same"
            )


def _convolution(
    n: int,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sizes,
    padding: Sizes | str,
    dilation: Sizes,
    groups: int,
) -> Tensor:
    name = f"conv{n}d"
    require_tensor(name, "weight", 2, weight)
    if bias is not None:
        require_tensor(name, "bias", 3, bias)
    x, had_samples = batched_input(input, n, name)
    _check(x, weight, bias, groups, n, name)
    kernel = tuple(weight.shape[2:])
    steps = per_axis(stride, n, f"{name}: stride")
    holes = per_axis(dilation, n, f"{name}: dilation")
    check_positive(name, stride=steps, dilation=holes)
    around = _padding(padding, name, kernel, steps, holes)
    if any(p for pair in around for p in pair):
        x = pad(x, [p for pair in reversed(around) for p in pair])
    spread = [d * (k - 1) + 1 for k, d in zip(kernel, holes, strict=True)]
    sizes = x.shape[2:]
    if any(k > s for k, s in zip(spread, sizes, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({_times(sizes)}). Kernel size: "
            f"({_times(spread)}). Kernel size can't be greater than actual input size"
        )
    result = _product(sliding(x, kernel, steps, holes), weight, groups, n)
    if bias is not None:
        result = result + bias.view((-1, *(1,) * n))
    return result if had_samples else result.squeeze(0)


def _times(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _product(windows: Tensor, weight: Tensor, groups: int, n: int) -> Tensor:
    """Sums over channels and kernel: [samples, out_channels, *positions]."""
    samples, positions = windows.size(0), windows.shape[2 : 2 + n]
    # Channels and kernel first, samples and positions last: one product per group, and one for
    # the gradient of the weight, however many samples there are.
    order = (1, *range(2 + n, 2 + 2 * n), 0, *range(2, 2 + n))
    length = weight[0].numel()
    count = samples * math.prod(positions)
    columns = windows.permute(order).reshape((groups, length, count))
    rows = weight.reshape((groups, weight.size(0) // groups, length))
    result = (rows @ columns).reshape((weight.size(0), samples, *positions))
    return result.transpose(0, 1).contiguous()


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Slide ``weight`` [out, in / groups, k] over ``input`` [N, in, L]; see `conv2d`."""
    return _convolution(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Slide ``weight`` over the last two axes of ``input``: a cross-correlation.

    Parameters
    ----------
    input : Tensor
        [N, in, H, W], or without N.
    weight : Tensor
        [out, in / groups, kH, kW].
    bias : Tensor, optional
        [out].
    stride, dilation : int or sequence
        Steps of the window, and of the elements within it.
    padding : int, sequence, "valid" or "same"
        Zeros around the input.
    groups : int
        Into how many blocks the channels are divided.

    Examples
    --------
    >>> import adjoint as ad
    >>> x, w = ad.ones(1, 1, 3, 3), ad.ones(1, 1, 2, 2)
    >>> ad.nn.functional.conv2d(x, w)
    tensor([[[[4., 4.],
              [4., 4.]]]])
    """
    return _convolution(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Slide ``weight`` [out, in / groups, kD, kH, kW] over ``input`` [N, in, D, H, W]."""
    return _convolution(3, input, weight, bias, stride, padding, dilation, groups)
