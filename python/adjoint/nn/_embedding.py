"""Rows of a table by their numbers, one by one and in bags."""

from __future__ import annotations

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._tensor.arguments import require_tensor

_MODES = ("sum", "mean", "max")  # PyTorch numbers them


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
    padding = -1 if padding_idx is None else _row(weight, padding_idx)
    if max_norm is not None:
        _no_grad_embedding_renorm_(weight, input, max_norm, norm_type)
    return ad.embedding(weight, input, padding, scale_grad_by_freq, sparse)


def _row(weight: Tensor, padding_idx: int, in_bags: bool = False) -> int:
    if padding_idx != 0 and not -weight.size(0) <= padding_idx < weight.size(0):
        if in_bags:
            raise RuntimeError("padding_idx must be within the number of embeddings")
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx + weight.size(0) if padding_idx < 0 else padding_idx


def _no_grad_embedding_renorm_(
    weight: Tensor, input: Tensor, max_norm: float, norm_type: float
) -> None:
    """Shorten the rows that are named and longer than `max_norm`, in the table."""
    with ad.no_grad():
        named = input.unique()
        # The table without its tangent: shortening is no part of the function.
        weight = ad.autograd.forward_ad.unpack_dual(weight).primal
        rows = weight.index_select(0, named)
        norms = rows.norm(norm_type, 1, keepdim=True)
        factor = ad.where(norms > max_norm, max_norm / (norms + 1e-7), 1.0)
        weight.index_copy_(0, named, (rows * factor).to(weight.dtype))


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of `weight`, in bags, without storing the rows.

    Parameters
    ----------
    input : Tensor
        Integers: [N, k], a bag of k rows for each line, or all indices one after the other.
    offsets : Tensor, optional
        Where bags begin in an `input` of one axis.
    max_norm, norm_type
        Rows that are looked up and longer than `max_norm` are first shortened to it, in the table.
    scale_grad_by_freq : bool, default False
        Divide the gradient of a row by how often it was looked up.
    mode : {"mean", "sum", "max"}
        What is made of the rows of a bag; an empty one gives zeros.
    per_sample_weights : Tensor, optional
        A factor for each index, for "sum".
    include_last_offset : bool, default False
        Whether the last offset is the end of the last bag.
    padding_idx : int, optional
        A row that does not count.
    """
    require_tensor("embedding_bag", "input", 1, input)
    require_tensor("embedding_bag", "weight", 2, weight)
    if per_sample_weights is not None:
        require_tensor("embedding_bag", "per_sample_weights", 9, per_sample_weights)
        if input.size() != per_sample_weights.size():
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is not "
                f"None, then it must have the same shape as the input ({list(input.shape)})"
            )
        if per_sample_weights.dtype != weight.dtype:
            raise RuntimeError(
                "embedding_bag: expected per_sample_weights to have the same type as weight, "
                f"{weight.dtype}, but it is {per_sample_weights.dtype}"
            )
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    input, offsets, per_sample_weights = _as_bags(input, offsets, per_sample_weights)
    if include_last_offset:
        if offsets.numel() == 0:
            raise RuntimeError("include_last_offset: number of offset should be at least 1")
        offsets = offsets[:-1]  # the last bag ends where the indices do, whatever it says
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if max_norm is not None:
        _no_grad_embedding_renorm_(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')."
        )
    return _core._embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        _MODES.index(mode),
        sparse,
        per_sample_weights,
        False,
        -1 if padding_idx is None else _row(weight, padding_idx, in_bags=True),
    )[0]


def _as_bags(
    input: Tensor, offsets: Tensor | None, shares: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Indices one after the other, and where the bags begin."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        count, length = input.shape
        starts = ad.arange(0, count, dtype=input.dtype) * length
        return input.reshape(-1), starts, None if shares is None else shares.reshape(-1)
    if input.dim() != 1:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    require_tensor("embedding_bag", "offsets", 3, offsets)
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    return input, offsets, shares
