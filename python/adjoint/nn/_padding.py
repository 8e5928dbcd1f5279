"""Padding: with a number, or with elements of the tensor itself."""

from __future__ import annotations

from collections.abc import Sequence

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._autocast import in_float32
from adjoint._tensor.arguments import require_tensor

_MODES = ("reflect", "replicate", "circular")


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Add elements before and after, pairs from the last axis on; negative numbers take away.

    Parameters
    ----------
    pad : sequence of int
        (before, after) of the last axis, then of the one before it, …
    mode : {"constant", "reflect", "replicate", "circular"}
        What the new elements are: `value`, the tensor mirrored at its edge (which is not
        repeated), its edge repeated, or the tensor once more from its other end. All but
        "constant" pad one axis of 2 or 3, two of 3 or 4, three of 4 or 5.
    value : float, default 0
        The value of the new elements.
    """
    require_tensor("pad", "input", 1, input)
    if not isinstance(pad, tuple | list) or not all(isinstance(p, int) for p in pad):
        raise TypeError(f"pad(): argument 'pad' (position 2) must be tuple of ints, not {pad!r}")
    if not isinstance(mode, str):
        raise TypeError(
            f"pad(): argument 'mode' (position 3) must be str, not {type(mode).__name__}"
        )
    if value is not None and not isinstance(value, int | float | complex):
        raise TypeError(
            f"pad(): argument 'value' (position 4) must be float, not {type(value).__name__}"
        )
    if len(pad) % 2 != 0:
        raise RuntimeError(f"Padding length must be divisible by 2, got {len(pad)}: {tuple(pad)}")
    if len(pad) // 2 > input.dim():
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(pad)} and input of dimension {input.dim()}"
        )
    if mode == "constant":
        return ad.constant_pad_nd(input, pad, 0 if value is None else value)
    if value:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _MODES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    _check_axes(input, len(pad) // 2, mode)
    if mode == "replicate" or (mode == "reflect" and len(pad) < 6):  # as PyTorch has it
        (input,) = in_float32(input)
    return _core._pad_elements(input, pad, mode)


def _check_axes(input: Tensor, axes: int, mode: str) -> None:
    if not 1 <= axes <= 3 or input.dim() - axes not in (1, 2):
        raise NotImplementedError(
            f"Padding size {2 * axes} is not supported for {input.dim()}D input tensor. Supported "
            "combinations for non-constant padding: 2D or 3D input: padding size = 2; 3D or 4D "
            "input: padding size = 4; 4D or 5D input: padding size = 6"
        )
    if mode != "circular" and input.dtype == ad.bool:
        raise NotImplementedError(f'"{mode} padding" not implemented for {input.dtype}')
    samples = input.dim() - axes - 1
    if mode != "circular" and 0 in input.shape[samples:]:
        raise RuntimeError(
            f"Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {list(input.shape)}"
        )
