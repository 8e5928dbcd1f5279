"""Layers without state: linear maps, normalisation, lookups, padding."""

from __future__ import annotations

from collections.abc import Sequence

import adjoint as ad
from adjoint import Tensor, _core
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


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight` for the integers in `input`; the row `padding_idx` gets no gradient.

    With `max_norm`, rows that are looked up and longer than it are first shortened to it in
    `weight` itself, as in PyTorch. `scale_grad_by_freq` divides the gradient of a row by how often
    it was looked up.
    """
    padding = -1  # the op's word for none
    if padding_idx is not None:
        padding = padding_idx
        if padding_idx != 0 and not -weight.size(0) <= padding_idx < weight.size(0):
            raise AssertionError("Padding_idx must be within num_embeddings")
        if padding_idx < 0:
            padding += weight.size(0)
    if max_norm is not None:
        _shorten_rows(weight, input, max_norm, norm_type)
    return ad.embedding(weight, input, padding, scale_grad_by_freq, sparse)


def _shorten_rows(weight: Tensor, index: Tensor, max_norm: float, norm_type: float) -> None:
    with ad.no_grad():
        named = index.unique()
        rows = weight.index_select(0, named)
        norms = rows.norm(norm_type, 1, keepdim=True)
        factor = ad.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
        weight.index_copy_(0, named, (rows * factor).to(weight.dtype))


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


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between x1 and x2 along `dim`."""
    x1, x2 = ad.broadcast_tensors(x1, x2)
    norm1 = ad.norm(x1, 2, dim, keepdim=True).clamp(min=eps)
    norm2 = ad.norm(x2, 2, dim, keepdim=True).clamp(min=eps)
    return ((x1 / norm1) * (x2 / norm2)).sum(dim)


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Add elements before and after, pairs from the last axis on; negative numbers take away.

    Parameters
    ----------
    pad : sequence of int
        (before, after) of the last axis, then of the one before it, …
    mode : {"constant"}
        Only constant padding is there.
    value : float, default 0
        The value of the new elements.
    """
    require_tensor("pad", "input", 1, input)
    if not isinstance(pad, tuple | list) or not all(isinstance(p, int) for p in pad):
        raise TypeError(f"pad(): argument 'pad' (position 2) must be tuple of ints, not {pad!r}")
    if mode != "constant":
        raise NotImplementedError(f"pad: mode {mode!r} is not in adjoint; only 'constant' is")
    if len(pad) % 2 != 0:
        raise ValueError(f"Padding length must be divisible by 2, got {len(pad)}: {tuple(pad)}")
    if len(pad) // 2 > input.dim():
        raise ValueError(
            f"Padding length too large: {len(pad)} numbers for an input of {input.dim()} dimensions"
        )
    result = input
    for pair in range(len(pad) // 2):
        axis = input.dim() - 1 - pair
        before, after = pad[2 * pair], pad[2 * pair + 1]
        result = _pad_axis(result, axis, before, after, 0 if value is None else value)
    return result.clone() if result is input else result


def _pad_axis(input: Tensor, axis: int, before: int, after: int, value: float) -> Tensor:
    size = input.size(axis)
    if size + before + after < 0:
        raise RuntimeError(
            f"The input size {size}, plus negative padding {before} and {after}, resulted in a "
            f"negative output size, which is invalid. Check dimension {axis} of your input."
        )
    start, stop = max(0, -before), size - max(0, -after)
    if (start, stop) != (0, size):
        input = input.narrow(axis, start, stop - start)

    def block(length: int) -> Tensor:
        shape = list(input.shape)
        shape[axis] = length
        return ad.full(shape, value, dtype=input.dtype)

    parts = [block(before)] if before > 0 else []
    parts.append(input)
    if after > 0:
        parts.append(block(after))
    return ad.cat(parts, axis) if len(parts) > 1 else input
