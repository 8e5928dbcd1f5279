"""Images and volumes at the places of a grid, and grids of affine maps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._tensor.arguments import require_tensor

_MODES = ("bilinear", "nearest", "bicubic")
_PADDINGS = ("zeros", "border", "reflection")


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Look [N, C, H, W] (or [N, C, D, H, W]) up at the places of a grid.

    Parameters
    ----------
    grid : Tensor
        [N, h, w, 2] or [N, d, h, w, 3]: places (x, y) or (x, y, z), from -1 to 1.
    mode : {"bilinear", "nearest", "bicubic"}
        How values between the elements are found; "bicubic" is for images.
    padding_mode : {"zeros", "border", "reflection"}
        What lies outside: zeros, the elements at the border, or the image mirrored.
    align_corners : bool, default False
        Whether -1 and 1 are the middles of the outer elements, and not their outer edges.
    """
    require_tensor("grid_sample", "input", 1, input)
    require_tensor("grid_sample", "grid", 2, grid)
    for name, value, known in (("mode", mode, _MODES), ("padding_mode", padding_mode, _PADDINGS)):
        if value not in known:
            raise ValueError(
                f"nn.functional.grid_sample(): expected {name} to be "
                f"{', '.join(map(repr, known))}, but got: '{value}'"
            )
    if align_corners is None:
        _warn_of_corners("grid_sample")
        align_corners = False
    return _sampled(
        "grid_sampler",
        input,
        grid,
        _MODES.index(mode),
        _PADDINGS.index(padding_mode),
        align_corners,
    )


def _sampled(
    name: str, input: Tensor, grid: Tensor, mode: int, padding: int, align_corners: bool
) -> Tensor:
    axes = input.dim() - 2
    if axes not in (2, 3) or grid.dim() != input.dim():
        raise RuntimeError(
            f"{name}(): expected 4D or 5D input and grid with same number of dimensions, but got "
            f"input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if input.size(0) != grid.size(0):
        raise RuntimeError(
            f"{name}(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(input.shape)} and grid with sizes {list(grid.shape)}"
        )
    if grid.size(-1) != axes:
        raise RuntimeError(
            f"{name}(): expected grid to have size {axes} in last dimension, but got grid with "
            f"sizes {list(grid.shape)}"
        )
    if 0 in input.shape[2:]:
        raise RuntimeError(
            f"{name}(): expected input to have non-empty spatial dimensions, but input has sizes "
            f"{list(input.shape)}"
        )
    if input.dtype != grid.dtype:
        raise RuntimeError(
            f"{name}(): expected input and grid to have same dtype, but input has {input.dtype} "
            f"and grid has {grid.dtype}"
        )
    if not input.is_floating_point():
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype}: use .float()')
    if axes == 3 and mode == _MODES.index("bicubic"):
        raise RuntimeError(f"{name}(): bicubic interpolation only supports 4D input")
    return _core._grid_sample(input, grid, mode, padding, align_corners)


def _warn_of_corners(name: str) -> None:
    warnings.warn(
        f"Default {name} and affine_grid behavior has changed to align_corners=False since 1.3.0. "
        "Please specify align_corners=True if the old behavior is desired. See the documentation "
        "of grid_sample for details.",
        stacklevel=3,
    )


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid of an affine map, for `grid_sample`.

    Parameters
    ----------
    theta : Tensor
        [N, 2, 3] for images, [N, 3, 4] for volumes: what places (x, y, 1) are mapped to.
    size : sequence of int
        (N, C, H, W) or (N, C, D, H, W), the shape of the image that is to be made.
    align_corners : bool, default False
        As in `grid_sample`.
    """
    require_tensor("affine_grid", "theta", 1, theta)
    if align_corners is None:
        _warn_of_corners("grid_sample")
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(
            f"Expected theta to have floating point type, but got {theta.dtype}: use .float()"
        )
    kind: type = type(align_corners)
    if kind is not bool:
        given = kind.__name__
        raise TypeError(f"affine_grid(): argument 'align_corners' must be bool, not {given}")
    axes = len(size) - 2
    if axes not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {tuple(size)}."
        )
    if theta.dim() != 3 or tuple(theta.shape[-2:]) != (axes, axes + 1):
        raise ValueError(
            f"Expected a batch of {axes}D affine matrices of shape Nx{axes}x{axes + 1} for size "
            f"{tuple(size)}. Got {list(theta.shape)}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    if theta.size(0) != size[0]:
        raise RuntimeError(
            f"Expected as many affine matrices as samples, got {theta.size(0)} for size "
            f"{tuple(size)}"
        )
    return _affine_grid(theta, size, align_corners)


def _affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    spatial = list(size[2:])
    lines = []
    for i, n in enumerate(reversed(spatial)):  # x first
        line = ad.linspace(-1, 1, n, dtype=theta.dtype) if n > 1 else ad.zeros(1, dtype=theta.dtype)
        if not align_corners:
            line = line * (n - 1) / n
        shape = [1] * len(spatial)
        shape[len(spatial) - 1 - i] = n
        lines.append(line.reshape(shape).expand(spatial))
    base = ad.stack([*lines, ad.ones(spatial, dtype=theta.dtype)], -1).flatten(0, -2)
    grid = base @ theta.transpose(1, 2)
    return grid.unflatten(1, spatial)
