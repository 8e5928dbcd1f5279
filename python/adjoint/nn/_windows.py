"""What convolutions and pooling share: sizes per axis, and the windows that slide over an input."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint import Tensor
from adjoint._tensor.arguments import require_tensor

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


def check_positive(name: str, **sizes: tuple[int, ...]) -> None:
    """Refuse sizes below one."""
    for what, value in sizes.items():
        if any(v < 1 for v in value):
            raise RuntimeError(f"{name}: {what} should be greater than zero, but got {value}")


def batched_input(input: Tensor, n: int, name: str) -> tuple[Tensor, bool]:
    """The input with an axis of samples, and whether it had one."""
    require_tensor(name, "input", 1, input)
    if input.ndim not in (n + 1, n + 2):
        raise RuntimeError(
            f"Expected {n + 1}D (unbatched) or {n + 2}D (batched) input to {name}, but got input "
            f"of size: {list(input.shape)}"
        )
    return (input, True) if input.ndim == n + 2 else (input.unsqueeze(0), False)


def sliding(
    input: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]
) -> Tensor:
    """Views of the last ``n`` axes: [..., *positions, *kernel]."""
    n = len(kernel)
    first = input.ndim - n
    for i, (k, s, d) in enumerate(zip(kernel, stride, dilation, strict=True)):
        input = input.unfold(first + i, d * (k - 1) + 1, s)
    if all(d == 1 for d in dilation):
        return input
    steps = tuple(slice(None, None, d) for d in dilation)
    return input[(..., *steps)]
