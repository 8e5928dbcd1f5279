"""Padding as modules: with a number, mirrored, repeated, wrapped."""

from __future__ import annotations

from collections.abc import Sequence

from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


def _pairs(padding: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """A number for each side; one number stands for all of them."""
    return (padding,) * (2 * axes) if isinstance(padding, int) else tuple(padding)


class _Pad(Module):
    """What they share: how many axes are padded, and by what."""

    axes: int
    mode: str
    padding: Sequence[int]

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = _pairs(padding, self.axes)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"
    value: float

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """A number before and after the last axis."""

    axes = 1


class ConstantPad2d(_ConstantPad):
    """A number around the last two axes."""

    axes = 2


class ConstantPad3d(_ConstantPad):
    """A number around the last three axes."""

    axes = 3


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Zeros before and after the last axis."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Zeros around the last two axes."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Zeros around the last three axes."""


class ReflectionPad1d(_Pad):
    """(C, L) or (N, C, L) continued by mirroring it at its edges, which are not repeated."""

    axes = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """The same for the last two axes."""

    axes = 2
    mode = "reflect"


class ReflectionPad3d(_Pad):
    """The same for the last three axes."""

    axes = 3
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """(C, L) or (N, C, L) continued by repeating its edges."""

    axes = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """The same for the last two axes."""

    axes = 2
    mode = "replicate"


class ReplicationPad3d(_Pad):
    """The same for the last three axes."""

    axes = 3
    mode = "replicate"


class _CircularPad(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.axes + 1, self.axes + 2):
            raise ValueError(
                f"expected {self.axes + 1}D or {self.axes + 2}D input (got {input.dim()}D input)"
            )
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """(C, L) or (N, C, L) continued from its other end."""

    axes = 1


class CircularPad2d(_CircularPad):
    """The same for the last two axes."""

    axes = 2


class CircularPad3d(_CircularPad):
    """The same for the last three axes."""

    axes = 3
