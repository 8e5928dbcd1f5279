"""Signals, images and volumes of another size: `interpolate` and its older names."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._tensor.arguments import require_tensor

# How many axes each mode is for, and what the core calls it.
_AXES = {"linear": 1, "bilinear": 2, "bicubic": 2, "lanczos": 2, "trilinear": 3}
_CORE_MODES = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
_ANY_AXES = ("nearest", "nearest-exact", "area")


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Bring the axes behind [N, C] to `size`, or to `scale_factor` times their sizes.

    Parameters
    ----------
    mode : str
        "nearest", "nearest-exact", "linear", "bilinear", "bicubic", "trilinear", "area", "lanczos":
        how values between the elements are found; "area" takes means of all elements that are
        covered. "linear" is for one axis, "bilinear", "bicubic" and "lanczos" for two, "trilinear"
        for three.
    align_corners : bool, optional
        Whether the first and last elements stay where they are; else elements are cells, whose
        borders do.
    recompute_scale_factor : bool, optional
        Whether places are computed from the whole sizes instead of `scale_factor`.
    antialias : bool, default False
        For "bilinear", "bicubic" and "lanczos": a smaller image is made of all elements of the
        larger one.
    """
    require_tensor("interpolate", "input", 1, input)
    if mode in _ANY_AXES and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    axes = input.dim() - 2
    sizes, scales = _sizes(input, axes, size, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if recompute_scale_factor or mode == "area":
        scales = [None] * axes
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and axes == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    _check_mode(input, mode, axes, align_corners, antialias)
    _check_sizes(input, sizes, 0 if mode == "area" else 1)
    return _core._resample(
        input,
        input.shape[2:],
        sizes,
        _CORE_MODES.get(mode, mode),
        bool(align_corners),
        antialias,
        *scales,
    )


def _sizes(
    input: Tensor, axes: int, size: Any, scale_factor: Any
) -> tuple[list[int], list[float | None]]:
    """The new sizes, and the factors where these were given."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    name, given = ("output size", size) if size is not None else ("scale_factor", scale_factor)
    several = isinstance(given, tuple | list)
    if several and len(given) != axes:
        raise ValueError(
            f"Input and {name.split()[0]} must have the same number of spatial dimensions, but got "
            f"input with spatial dimensions of {list(input.shape[2:])} and {name} of {given}. "
            "Please provide input tensor in (N, C, d1, d2, ...,dK) format and "
            f"{name} in (o1, o2, ...,oK) format."
        )
    numbers = list(given) if several else [given] * max(axes, 0)
    if size is None:
        return [int(n * f) for n, f in zip(input.shape[2:], numbers, strict=True)], numbers
    if not all(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
            f"Tuple[int, int, int], but got size with types {[type(n) for n in numbers]}"
        )
    return numbers, [None] * len(numbers)


def _check_mode(
    input: Tensor, mode: str, axes: int, align_corners: bool | None, antialias: bool
) -> None:
    if mode == "lanczos" and axes == 2:
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    wanted = axes if mode in _ANY_AXES else _AXES.get(mode)
    if wanted != axes or not 1 <= axes <= 3:
        need = f", but {mode} mode needs {wanted + 2}D input" if mode in _AXES and wanted else ""
        raise NotImplementedError(
            f"Got {input.dim()}D input{need}. Input Error: Only 3D, 4D and 5D input Tensors "
            f"supported (got {input.dim()}D) for the modes: nearest | linear | bilinear | bicubic "
            f"| trilinear | lanczos | area | nearest-exact (got {mode})"
        )
    bytes_too = (*_ANY_AXES[:2], "bilinear", "bicubic", "lanczos")
    if not (input.is_floating_point() or (input.dtype == ad.uint8 and mode in bytes_too)):
        raise NotImplementedError(
            f'"interpolate" of mode {mode!r} not implemented for {input.dtype}: use .float()'
        )


def _check_sizes(input: Tensor, sizes: Sequence[int], least: int) -> None:
    if 0 in input.shape[1:] or any(n < least for n in sizes):
        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"{list(input.shape[2:])} and output {list(sizes)}, with {input.size(1)} channels"
        )


def upsample(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """`interpolate`, under its old name."""
    _warn("upsample", "interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` with the nearest elements, under its old name."""
    _warn("upsample_nearest", "interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
) -> Tensor:
    """`interpolate` of images with corners that stay where they are, under its old name."""
    _warn("upsample_bilinear", "interpolate")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _warn(old: str, new: str) -> None:
    warnings.warn(
        f"`nn.functional.{old}` is deprecated. Use `nn.functional.{new}` instead.", stacklevel=3
    )
