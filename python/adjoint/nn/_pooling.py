"""Pooling: the largest element of each window."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn._padding import pad
from adjoint.nn._windows import Sizes, batched_input, check_positive, per_axis, sliding


def _positions(size: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """How many windows fit along an axis."""
    room = size + 2 * p - d * (k - 1) - 1
    count = -(-room // s) + 1 if ceil_mode else room // s + 1
    if ceil_mode and (count - 1) * s >= size + p:  # the last one must start inside
        count -= 1
    return count


def _smallest(dtype: ad.dtype) -> float:
    return float("-inf") if dtype.is_floating_point else ad.iinfo(dtype).min


def _flat_index(
    within: Tensor,
    sizes: tuple[int, ...],
    kernel: tuple[int, ...],
    steps: tuple[int, ...],
    pads: tuple[int, ...],
    holes: tuple[int, ...],
) -> Tensor:
    """Where the chosen element of each window stands in the unpadded input, counted row by row."""
    n = len(kernel)
    found = ad.zeros_like(within)
    stride = 1
    for i in reversed(range(n)):
        step = within % kernel[i]
        within = ad.div(within, kernel[i], rounding_mode="floor")
        start = ad.arange(found.size(found.ndim - n + i)) * steps[i] - pads[i]
        place = start.view((-1, *(1,) * (n - 1 - i))) + step * holes[i]
        found = found + place * stride
        stride *= sizes[i]
    return found


def _max_pool(
    n: int,
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    name = f"max_pool{n}d"
    kernel = per_axis(kernel_size, n, f"{name}: kernel_size")
    x, had_samples = batched_input(input, n, name)
    if not all(x.shape[1:]):
        raise RuntimeError(
            f"{name}: Expected {n + 1}D or {n + 2}D (batch mode) tensor with optional 0 dim batch "
            f"size for input, but got: {list(input.shape)}"
        )
    steps = kernel if stride is None else per_axis(stride, n, f"{name}: stride")
    pads = per_axis(padding, n, f"{name}: padding")
    holes = per_axis(dilation, n, f"{name}: dilation")
    check_positive(name, kernel_size=kernel, stride=steps, dilation=holes)
    sizes = tuple(x.shape[2:])
    around: list[int] = []
    for size, k, s, p, d in zip(sizes, kernel, steps, pads, holes, strict=True):
        if p < 0 or p > (d * (k - 1) + 1) // 2:
            raise RuntimeError(
                f"{name}: pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={k} and dilation={d}"
            )
        count = _positions(size, k, s, p, d, ceil_mode)
        if count < 1:
            raise RuntimeError(
                f"Given input size: {tuple(x.shape[1:])}. Calculated output size along one axis: "
                f"{count}. Output size is too small"
            )
        around = [p, (count - 1) * s + d * (k - 1) + 1 - size - p, *around]
    if any(around):
        x = pad(x, around, value=_smallest(x.dtype))
    windows = sliding(x, kernel, steps, holes)
    result, within = windows.flatten(-n).max(-1)
    if not had_samples:
        result, within = result.squeeze(0), within.squeeze(0)
    if not return_indices:
        return result
    return result, _flat_index(within, sizes, kernel, steps, pads, holes)


def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of the last axis; see `max_pool2d`."""
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of the last two axes.

    Parameters
    ----------
    input : Tensor
        [N, C, H, W], or without N.
    kernel_size : int or sequence
        Size of the windows.
    stride : int or sequence, optional
        Their steps; by default they stand side by side.
    padding : int or sequence
        How far windows may reach over the border, at most half their size.
    dilation : int or sequence
        Steps within a window.
    ceil_mode : bool
        Whether a window that is only partly filled counts as well.
    return_indices : bool
        Whether to return where the largest elements stand, too.

    Notes
    -----
    Of equal elements the first one gets the gradient.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.max_pool2d(ad.arange(16.0).view(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of each window of the last three axes; see `max_pool2d`."""
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)
