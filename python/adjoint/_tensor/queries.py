"""Questions about values and shapes that need no computation: `is_tensor`, `broadcast_shapes`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint._core import Size, Tensor

from .arguments import require_tensor

__all__ = [
    "broadcast_shapes",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_neg",
    "is_nonzero",
    "is_tensor",
    "numel",
]


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that tensors of these shapes broadcast to; a RuntimeError if they do not.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    result: list[int] = []
    for given in shapes:
        shape = [given] if isinstance(given, int) else list(given)
        for length in shape:
            if length < 0:
                raise RuntimeError(f"broadcast_shapes: the length {length} in {shape} is negative")
        result = [1] * (len(shape) - len(result)) + result
        for i in range(1, len(shape) + 1):
            if shape[-i] == 1 or shape[-i] == result[-i]:
                continue
            if result[-i] != 1:
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape: "
                    f"{shape} does not fit {result} {i} from the end"
                )
            result[-i] = shape[-i]
    return Size(result)


def is_tensor(obj: Any) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are real floating-point numbers."""
    require_tensor("is_floating_point", "input", 1, input)
    return input.is_floating_point()


def is_conj(input: Tensor) -> bool:
    """Whether the conjugate of what the memory holds is shown: the tensor is a `conj()` view."""
    require_tensor("is_conj", "input", 1, input)
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Whether the negative of what the memory holds is shown, as by ``x.conj().imag``."""
    require_tensor("is_neg", "input", 1, input)
    return input.is_neg()


def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    require_tensor("is_complex", "input", 1, input)
    return input.is_complex()


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element differs from zero; a RuntimeError if there are more, or none."""
    require_tensor("is_nonzero", "input", 1, input)
    return bool(input)


def numel(input: Any) -> int:
    """The number of elements of a tensor, or of all tensors of a composite."""
    if isinstance(input, Tensor):
        return input.numel()
    from adjoint.composite import numel as of_composite

    return of_composite(input)
