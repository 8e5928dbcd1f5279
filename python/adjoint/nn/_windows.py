"""What convolutions and pooling share: sizes per axis; and the windows of images as columns."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint import Tensor, _core

Sizes = int | Sequence[int]


def per_axis(value: Sizes, n: int, what: str) -> tuple[int, ...]:
    """One number per spatial axis."""
    if isinstance(value, int):
        return (value,) * n
    if not isinstance(value, tuple | list) or not all(isinstance(v, int) for v in value):
        raise TypeError(f"{what} must be an int or a tuple of ints, not {value!r}")
    given = tuple(value)
    if len(given) == 1:
        return given * n
    if len(given) != n:
        raise RuntimeError(f"{what} must be one number or {n} of them, got {given}")
    return given


def unfold(
    input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Tensor:
    """The windows of images as columns: [N, C, H, W] becomes [N, C * kernel, windows].

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nn.functional.unfold(ad.arange(6.0).view(1, 1, 2, 3), 2)
    tensor([[[0., 1.],
             [1., 2.],
             [3., 4.],
             [4., 5.]]])
    """
    return _core._unfold_windows(input, kernel_size, dilation, padding, stride)


def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Add columns into the windows that they stand for: the transpose of `unfold`."""
    return _core._fold_windows(input, output_size, kernel_size, dilation, padding, stride)
