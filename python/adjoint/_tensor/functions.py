"""Functions at the top level that are a method, or a few lines, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor.arguments import require_tensor, write_out

__all__ = [
    "as_strided_",
    "detach_",
    "empty_permuted",
    "get_device",
    "is_same_size",
    "is_signed",
    "nonzero_static",
    "resize_as_",
    "zero_",
]


def zero_(input: Tensor) -> Tensor:
    """Set every element to 0, in place."""
    require_tensor("zero_", "input", 1, input)
    return input.zero_()


def detach_(input: Tensor) -> Tensor:
    """Cut the tensor off from its history, in place."""
    require_tensor("detach_", "input", 1, input)
    return input.detach_()


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Give the tensor the shape of another, in place."""
    require_tensor("resize_as_", "input", 1, input)
    return input.resize_as_(the_template, memory_format=memory_format)


def as_strided_(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """Change shape, strides and offset of the tensor, in place."""
    require_tensor("as_strided_", "input", 1, input)
    return input.as_strided_(size, stride, storage_offset)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same shape."""
    require_tensor("is_same_size", "input", 1, input)
    require_tensor("is_same_size", "other", 2, other)
    return input.shape == other.shape


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    require_tensor("is_signed", "input", 1, input)
    return bool(input.is_signed())


def get_device(input: Tensor) -> int:
    """The number of the device, which is -1 for the CPU."""
    require_tensor("get_device", "input", 1, input)
    return int(input.get_device())


def nonzero_static(
    input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None
) -> Tensor:
    """Give the positions of the first `size` elements that are not zero, one in each row.

    Parameters
    ----------
    size
        The number of rows of the result, whatever the values are.
    fill_value
        Fills the rows for which no element is left.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.nonzero_static(ad.tensor([0, 5, 7]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    require_tensor("nonzero_static", "input", 1, input)
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = _core.nonzero(input.detach())[:size]
    result = _core.full((size, input.dim()), fill_value, dtype=_core.int64)
    result[: found.shape[0]] = found
    return result if out is None else write_out(out, result)


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    """Make a dense tensor whose axes lie in memory in another order.

    Parameters
    ----------
    size
        The shape.
    physical_layout
        The axes from the outermost in memory to the innermost: (0, 2, 3, 1) is channels last.
    **options
        Those of `empty`: dtype, requires_grad, ...

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.empty_permuted((2, 3, 5), (2, 0, 1)).stride()
    (3, 1, 6)
    """
    if len(size) != len(physical_layout):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(size)} is not equal to len(physical_layout) = {len(physical_layout)}"
        )
    strides = [0] * len(size)
    step = 1
    for axis in reversed(physical_layout):
        if not 0 <= axis < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got "
                f"{axis} in physical_layout {tuple(physical_layout)})"
            )
        if strides[axis]:
            raise RuntimeError(f"Duplicate dim not allowed: {axis} in {tuple(physical_layout)}")
        strides[axis] = step
        step *= max(size[axis], 1)
    return _core.empty_strided(tuple(size), tuple(strides), **options)
