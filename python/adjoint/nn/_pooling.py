"""Pooling functions that are more than one op: with or without indices, powers, drawn windows.

The others are ops of the core: see src/ops/nn/pooling.cpp. Read next: `modules/pooling.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._tensor.arguments import require_tensor
from adjoint.nn._windows import Sizes, per_axis

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


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
    op = _core.max_pool1d_with_indices if return_indices else _core.max_pool1d
    return op(input, kernel_size, stride, padding, dilation, ceil_mode)


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
    op = _core.max_pool2d_with_indices if return_indices else _core.max_pool2d
    return op(input, kernel_size, stride, padding, dilation, ceil_mode)


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
    op = _core.max_pool3d_with_indices if return_indices else _core.max_pool3d
    return op(input, kernel_size, stride, padding, dilation, ceil_mode)


# --- adaptive -----------------------------------------------------------------------------------
def _given_sizes(output_size: Any, input: Tensor, axes: int) -> Any:
    """Sizes with those of the input where they are None."""
    if isinstance(output_size, int):
        return (output_size,) * axes
    if not isinstance(output_size, tuple | list):
        raise TypeError(f"output_size must be an int or a tuple of them, not {output_size!r}")
    if len(output_size) != axes and len(input.shape) > len(output_size):
        raise RuntimeError(f"output_size must be {axes}, got {len(output_size)} sizes")
    if len(input.shape) <= len(output_size):
        raise ValueError(
            f"Input dimension should be at least {len(output_size) + 1}, but got {len(input.shape)}"
        )
    sizes = input.shape[-len(output_size) :]
    return tuple(n if s is None else s for s, n in zip(output_size, sizes, strict=True))


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide the last two axes into `output_size` parts.

    A size of None is that of the input.
    """
    require_tensor("adaptive_avg_pool2d", "input", 1, input)
    return _core.adaptive_avg_pool2d(input, _given_sizes(output_size, input, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows that divide the last three axes into `output_size` parts."""
    require_tensor("adaptive_avg_pool3d", "input", 1, input)
    return _core.adaptive_avg_pool3d(input, _given_sizes(output_size, input, 3))


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """Largest elements of windows that divide the last axis, and their places."""
    return _core.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """Largest elements of windows that divide the last two axes, and their places."""
    require_tensor("adaptive_max_pool2d", "input", 1, input)
    return _core.adaptive_max_pool2d(input, _given_sizes(output_size, input, 2))


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: Any, return_indices: bool = False
) -> Any:
    """Largest elements of windows that divide the last three axes, and their places."""
    require_tensor("adaptive_max_pool3d", "input", 1, input)
    return _core.adaptive_max_pool3d(input, _given_sizes(output_size, input, 3))


def _with_or_without(name: str, both: Callable[..., Any]) -> Callable[..., Any]:
    def function(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        result = both(input, output_size)
        return result if return_indices else result[0]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{both.__doc__} With `return_indices` only."
    return function


adaptive_max_pool1d = _with_or_without("adaptive_max_pool1d", adaptive_max_pool1d_with_indices)
adaptive_max_pool2d = _with_or_without("adaptive_max_pool2d", adaptive_max_pool2d_with_indices)
adaptive_max_pool3d = _with_or_without("adaptive_max_pool3d", adaptive_max_pool3d_with_indices)


# --- fractional ---------------------------------------------------------------------------------
def _fractional(
    axes: int,
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None,
    output_ratio: Any,
    samples: Tensor | None,
) -> Any:
    name = f"fractional_max_pool{axes}d"
    require_tensor(name, "input", 1, input)
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratios = output_ratio
        if isinstance(ratios, int):
            ratios = (ratios,) * axes
        if len(ratios) != axes:
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints."
            )
        output_size = [int(n * r) for n, r in zip(input.shape[-axes:], ratios, strict=True)]
    if samples is None:
        count = 1 if input.dim() == axes + 1 else input.size(0)
        samples = ad.rand(count, input.size(-axes - 1), axes, dtype=input.dtype)
    op = _core._fractional_max_pool2d if axes == 2 else _core._fractional_max_pool3d
    kernel = _single_or_all(name, "kernel_size", kernel_size, axes)
    return op(input, kernel, _single_or_all(name, "output_size", output_size, axes), samples)


def _single_or_all(name: str, what: str, given: Sizes, axes: int) -> tuple[int, ...]:
    if not isinstance(given, int) and len(given) != axes:
        raise RuntimeError(f"{name}: {what} must either be a single Int or tuple of Ints")
    return per_axis(given, axes, what)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest elements of drawn windows, and their places; see `fractional_max_pool2d`."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Largest elements of drawn windows, and their places; see `fractional_max_pool2d`."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The largest element of each of `output_size` windows that are placed at random.

    Parameters
    ----------
    input : Tensor
        [N, C, H, W], or without N.
    kernel_size : int or tuple
        Size of the windows.
    output_size : int or tuple, optional
        How many there are along the axes; or, by `output_ratio`, a part of the input's size.
    return_indices : bool
        Whether to return where the largest elements stand, too.
    """
    both = _fractional(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """The same over three axes; see `fractional_max_pool2d`."""
    both = _fractional(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return both if return_indices else both[0]


# --- the way back -------------------------------------------------------------------------------
def _unpooled_size(
    input: Tensor,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_size: Sequence[int] | None,
) -> list[int]:
    """The size of what was pooled, which `output_size` may name among those that are possible."""
    axes = len(kernel)
    sizes = input.shape[-axes:]
    usual = [
        (n - 1) * s + k - 2 * p for n, k, s, p in zip(sizes, kernel, stride, padding, strict=True)
    ]
    if output_size is None:
        return usual
    wanted = list(output_size)
    if len(wanted) == axes + 2:
        wanted = wanted[2:]
    if len(wanted) != axes:
        raise ValueError(
            f"output_size should be a sequence containing {axes} or {axes + 2} elements, but it "
            f"has a length of '{len(wanted)}'"
        )
    for d, (w, u, s) in enumerate(zip(wanted, usual, stride, strict=True)):
        if not u - s < w < u + s:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between {u - s} and {u + s})'
            )
    return wanted


def _unpool(
    axes: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Sizes,
    output_size: Sequence[int] | None,
) -> Tensor:
    require_tensor(f"max_unpool{axes}d", "input", 1, input)
    require_tensor(f"max_unpool{axes}d", "indices", 2, indices)
    kernel = per_axis(kernel_size, axes, "kernel_size")
    steps = kernel if stride is None else per_axis(stride, axes, "stride")
    pads = per_axis(padding, axes, "padding")
    if any(s < 1 for s in steps):
        raise RuntimeError(f"strides should be greater than zero, but got stride: {list(steps)}")
    size = _unpooled_size(input, kernel, steps, pads, output_size)
    if axes == 1:  # as planes of one column
        tall = _core._max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), (*size, 1))
        return tall.squeeze(-1)
    op = _core._max_unpool2d if axes == 2 else _core._max_unpool3d
    return op(input, indices, size)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the elements that `max_pool1d` found back to where they stood; see `max_unpool2d`."""
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the elements that `max_pool2d` found back to where they stood, among zeros.

    Examples
    --------
    >>> import adjoint as ad
    >>> F = ad.nn.functional
    >>> y, indices = F.max_pool2d(ad.arange(4.0).view(1, 2, 2), 2, return_indices=True)
    >>> F.max_unpool2d(y, indices, 2)
    tensor([[[0., 0.],
             [0., 3.]]])
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Put the elements that `max_pool3d` found back to where they stood; see `max_unpool2d`."""
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)


# --- norms --------------------------------------------------------------------------------------
def _root(mean: Tensor, count: int, power: float) -> Tensor:
    return (ad.sign(mean) * ad.relu(ad.abs(mean))).mul(count).pow(1.0 / power)


def _volume(kernel_size: Sizes, axes: int) -> int:
    count = 1
    for k in per_axis(kernel_size, axes, "kernel_size"):
        count *= k
    return count


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window of the last axis, p being `norm_type`."""
    require_tensor("lp_pool1d", "input", 1, input)
    mean = _core.avg_pool1d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _root(mean, _volume(kernel_size, 1), norm_type)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window of the last two axes, p being `norm_type`."""
    require_tensor("lp_pool2d", "input", 1, input)
    mean = _core.avg_pool2d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _root(mean, _volume(kernel_size, 2), norm_type)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The p-norm of each window of the last three axes, p being `norm_type`."""
    require_tensor("lp_pool3d", "input", 1, input)
    mean = _core.avg_pool3d(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return _root(mean, _volume(kernel_size, 3), norm_type)
