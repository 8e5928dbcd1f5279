"""In-place methods of ``Tensor`` that are written from others: resizing, diagonals, renorm_.

What they change goes through recorded ops, so histories stay right. The in-place forms of ops come
from the ops themselves (src/dispatch/apply.cpp).
"""

from __future__ import annotations

from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._tensor import formats as _formats
from adjoint._tensor.arguments import require_tensor

_FORMATS = (_formats.contiguous_format, _formats.channels_last, _formats.channels_last_3d)


def resize_(self: Tensor, *sizes: Any, size: Any = None, memory_format: Any = None) -> Tensor:
    """Give the tensor another shape, in place, on the memory it has if that is enough.

    Parameters
    ----------
    *sizes : int or sequence of int
        The new shape.
    size : sequence of int
        The same, by name.
    memory_format
        The order of the axes in memory afterwards, by default row-major.

    Raises
    ------
    RuntimeError
        The tensor requires grad, a size is negative, a view would have to grow, or the shape does
        not fit the memory format.

    Notes
    -----
    Elements keep their place in memory; new ones are undefined. When more memory is needed the
    tensor moves to a new one, and views of the old one stay where they are; a view itself cannot
    grow beyond what it is a view of.
    """
    shape = _shape((size,) if size is not None and not sizes else sizes)
    if self.requires_grad and not _core.is_inference_mode_enabled():
        raise RuntimeError("cannot resize variables that require grad: use detach(), or reshape()")
    for size in shape:
        if size < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {shape}")
    strides = None
    if memory_format is not None:
        strides = _core.empty(shape, dtype=self.dtype, memory_format=memory_format).stride()
    if shape != tuple(self.shape):
        self._resize_to(shape)
    if strides is not None and strides != self.stride():
        self.as_strided_(shape, strides, self.storage_offset())
    return self


def resize_as_(self: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Give the tensor the shape of another, in place: see `resize_`.

    With ``memory_format=preserve_format`` its axes then lie in memory as those of `the_template`
    do, if that is one of the memory formats.
    """
    require_tensor("resize_as_", "the_template", 1, the_template)
    if memory_format is _formats.preserve_format:
        fitting = (f for f in _FORMATS if the_template.is_contiguous(memory_format=f))
        memory_format = next(fitting, None)
    return resize_(self, tuple(the_template.shape), memory_format=memory_format)


def _shape(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = tuple(sizes[0])
    if not all(isinstance(size, int) and not isinstance(size, bool) for size in sizes):
        raise TypeError(f"resize_(): argument 'size' must be a tuple of ints, got {sizes}")
    return sizes


def fill_diagonal_(self: Tensor, fill_value: complex, wrap: bool = False) -> Tensor:
    """Set the diagonal, where all indices are equal, to a number, in place.

    Parameters
    ----------
    fill_value : number
        The value.
    wrap : bool, default False
        Go on below a diagonal of a tall matrix, one row left out each time.

    Raises
    ------
    RuntimeError
        The tensor is not a matrix, or has more axes and they are not of one length.
    """
    if self.dim() < 2:
        raise RuntimeError(
            f"fill_diagonal_(): dimensions must larger than 1, but the shape is {list(self.shape)}"
        )
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError(
            "fill_diagonal_(): all dimensions of input must be of equal length, but the shape is "
            f"{list(self.shape)}"
        )
    step, start = sum(self.stride()), self.storage_offset()
    length = min(self.shape)
    self.as_strided((length,), (step,), start).fill_(fill_value)
    rows, columns = self.shape[0], self.shape[1]
    if wrap and self.dim() == 2 and rows > columns + 1:
        rest = -(-self.numel() // (columns + 1)) - length
        start += self.stride(0) * (columns + 1)
        self.as_strided((rest,), (step,), start).fill_(fill_value)
    return self


def renorm_(self: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Scale down every slice along `dim` whose p-norm exceeds maxnorm, in place."""
    return self.copy_(_core.renorm(self.clone(), p, dim, maxnorm))


METHODS: dict[str, Any] = {
    "resize_": resize_,
    "resize_as_": resize_as_,
    "fill_diagonal_": fill_diagonal_,
    "renorm_": renorm_,
}
