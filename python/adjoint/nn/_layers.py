"""Layers without state: linear maps, normalisation, lookups, padding."""

from __future__ import annotations

from collections.abc import Sequence

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._autocast import ON, in_modes
from adjoint._tensor.arguments import require_tensor


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor:
    """``input @ weight.T + bias``."""
    return (
        _core.linear(input, weight, bias)
        if out is None
        else _core.linear(input, weight, bias, out=out)
    )


def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``sum_ij input1_i weight_kij input2_j + bias_k``."""
    with in_modes(_core._autocast_modes() & ~ON):  # autocast leaves it its precision
        result = ad.einsum("...i,kij,...j->...k", input1, weight, input2)
    return result if bias is None else result + bias


def _check_shape(name: str, normalized_shape: Sequence[int]) -> None:
    if isinstance(normalized_shape, int):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' must be tuple of ints, not int: "
            f"write ({normalized_shape},)"
        )


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Bring the last axes to mean 0 and variance 1, then scale by `weight` and add `bias`."""
    _check_shape("layer_norm", normalized_shape)
    return _core.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """Divide by the root of the mean square over the last axes, then scale by `weight`."""
    _check_shape("rms_norm", normalized_shape)
    return _core.rms_norm(input, normalized_shape, weight, eps)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Integers as rows of zeros with a one at that position."""
    require_tensor("one_hot", "tensor", 1, tensor)
    if tensor.dtype != ad.int64:
        raise RuntimeError(
            "one_hot is only applicable to index tensor of type LongTensor, "
            f"got {tensor.dtype}: use tensor.long()"
        )
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError(
                "Can not infer total number of classes from empty tensor: give num_classes"
            )
        return ad.zeros((*tensor.shape, num_classes), dtype=ad.int64)
    if _core._batch_level((tensor,)) and num_classes > 0:
        # Under vmap no value can be read to be checked.
        return (tensor.unsqueeze(-1) == ad.arange(num_classes)).to(ad.int64)
    if _core._batch_level((tensor,)):
        raise RuntimeError(
            "vmap: one_hot without num_classes reads the values to count the classes, and samples "
            "would differ in shape. fix: give num_classes"
        )
    largest = int(tensor.max().item())
    if int(tensor.min().item()) < 0:
        raise RuntimeError(f"Class values must be non-negative. (got {int(tensor.min().item())})")
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes < 1:
        raise RuntimeError(f"num_classes should be positive, got {num_classes}")
    elif largest >= num_classes:
        raise RuntimeError(
            f"Class values must be smaller than num_classes. (got {largest}, of {num_classes})"
        )
    return (tensor.unsqueeze(-1) == ad.arange(num_classes)).to(ad.int64)


def normalize(
    input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None
) -> Tensor:
    """The input divided by its p-norm over `dim`, or by `eps` where that is larger."""
    return ad.div(input, ad.norm(input, p, dim, keepdim=True).clamp(min=eps), out=out)


def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Input / (k + alpha * m)^beta, with m the mean square over `size` neighbouring channels."""
    require_tensor("local_response_norm", "input", 1, input)
    if input.dim() < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {input.dim()} dimensions)"
        )
    if input.dtype == ad.bool:
        raise NotImplementedError(f'"local_response_norm" not implemented for {input.dtype}')
    if input.numel() == 0:
        return input
    if size < 1:
        raise RuntimeError(f"kernel size should be greater than zero, but got {size}")
    around = [0, 0] * (input.dim() - 2) + [size // 2, (size - 1) // 2]
    squares = ad.constant_pad_nd(input * input, around)
    whole = None if input.is_floating_point() or input.is_complex() else "trunc"
    mean = squares.unfold(1, size, 1).sum(-1).div(size, rounding_mode=whole)
    return input / (mean * alpha + k) ** beta
