"""Signals, images and volumes brought to another size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import Tensor
from adjoint.nn import functional as F
from adjoint.nn.modules.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """Bring the axes behind [N, C] to a size, or multiply their sizes by a factor.

    Parameters
    ----------
    size : int or tuple of int, optional
        The new sizes.
    scale_factor : float or tuple of float, optional
        What sizes are multiplied by.
    mode : {"nearest", "linear", "bilinear", "bicubic", "trilinear"}
        How values between the elements are found.
    align_corners : bool, optional
        Whether the first and the last elements stay where they are.
    recompute_scale_factor : bool, optional
        Whether the factor used is that of the sizes, which are whole numbers.
    """

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None  # type: ignore[arg-type]
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("recompute_scale_factor", True)
        super().__setstate__(state)

    def extra_repr(self) -> str:
        by_factor = self.scale_factor is not None
        what = f"scale_factor={self.scale_factor!r}" if by_factor else f"size={self.size!r}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """An image of another size, of the nearest pixels."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """An image of another size, of means of four pixels; its corners stay where they are."""

    def __init__(
        self,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
