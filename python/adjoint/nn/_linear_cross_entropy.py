"""``linear_cross_entropy``: a linear layer and the cross entropy of what it returns, in one call.

With options the rows go through in pieces, each computed again in the backward pass, so that the
logits of all rows never lie in memory together.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint._tensor.arguments import require_tensor
from adjoint.nn._layers import linear
from adjoint.nn._losses import cross_entropy

__all__ = ["LinearCrossEntropyOptions", "linear_cross_entropy"]

_POLICIES = ("auto", "accurate", "balanced", "compact")
_PIECES = "aspect_ratio:2"  # what "auto" means


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` goes through the rows of its input piece by piece.

    Parameters
    ----------
    allow_retain_graph : bool, default False
        Kept for PyTorch's sake: a second backward pass is always possible here.
    batch_chunk_size : int, optional
        Rows of a piece; all of them by default, unless `chunking_method` says otherwise.
    chunking_method : {"auto", "aspect_ratio", "aspect_ratio:N"}, optional
        ``aspect_ratio`` makes pieces whose logits need no more memory than the input,
        ``aspect_ratio:N`` an Nth of that; ``auto`` means ``aspect_ratio:2``.
    acc_policy : {"auto", "accurate", "balanced", "compact"}, default "auto"
        Kept for PyTorch's sake: 16-bit numbers are computed in float32 in any case.
    acc_dtype : dtype, optional
        The dtype to compute in; float32 for 16-bit input, else that of the input.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        """Refuse what has no meaning."""
        if self.acc_policy not in _POLICIES:
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, colon, factor = str(self.chunking_method).partition(":")
            whole = not colon or (factor.isdigit() and int(factor) > 0)
            if name != "aspect_ratio" or not whole:
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and not (isinstance(size, int) and size > 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, ad.float16, ad.bfloat16, ad.float32, ad.float64):
            raise ValueError(
                "acc_dtype must be one of None, float16, bfloat16, float32, float64, got "
                f"{self.acc_dtype!r}"
            )

    def _rows(self, rows: int, features: int, classes: int) -> int:
        """How many rows a piece has."""
        method = self.chunking_method
        if method == "auto":
            method = _PIECES if self.batch_chunk_size is None else None
        if method is None:
            return max(1, min(self.batch_chunk_size or rows, rows))
        factor = int(method.partition(":")[2] or 1)
        wanted = math.ceil(rows / max(1, math.ceil(classes / max(1, features))))
        size = max(1, min((1 << max(wanted - 1, 0).bit_length()) // factor, rows))
        if self.batch_chunk_size not in (None, size):
            raise ValueError(
                f"batch_chunk_size (={self.batch_chunk_size}) and chunking_method ('{method}') "
                f"give different chunk sizes ({self.batch_chunk_size} vs {size}); pass only one."
            )
        return size


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """Return ``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    `linear_weight` is (C, in_features), or (C, d1, ..., dK, in_features) for a loss over K more
    axes. With `options` the logits of all rows are never in memory together.
    """
    classes, more = _check(input, linear_weight, target, linear_bias)
    if target.shape == (*input.shape[:-1], classes, *more) and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    if options is not None:
        if _can_be_cut(more, reduction, label_smoothing, target):
            return _by_pieces(
                input, linear_weight, target, linear_bias, weight, reduction, ignored, options
            )
        warnings.warn(
            "linear_cross_entropy: ``options`` ignored; chunked path needs reduction in "
            "{'mean','sum','none'}, label_smoothing == 0, target.dtype == int64, out_features == "
            f"(). Got reduction={reduction!r}, label_smoothing={label_smoothing}, "
            f"target.dtype={target.dtype}, out_features={tuple(more)}.",
            stacklevel=2,
        )
    flat = linear_weight.reshape(-1, linear_weight.size(-1))
    logits = linear(input, flat, None if linear_bias is None else linear_bias.reshape(-1))
    logits = logits.reshape(*input.shape[:-1], classes, *more)
    return cross_entropy(
        logits,
        target,
        weight=weight,
        ignore_index=ignored,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )


def _check(
    input: Tensor, linear_weight: Tensor, target: Tensor, bias: Tensor | None
) -> tuple[int, tuple[int, ...]]:
    require_tensor("linear_cross_entropy", "input", 1, input)
    require_tensor("linear_cross_entropy", "linear_weight", 2, linear_weight)
    require_tensor("linear_cross_entropy", "target", 3, target)
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    if input.size(-1) != linear_weight.size(-1):
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.size(-1)} and {linear_weight.size(-1)}, respectively"
        )
    shape = tuple(linear_weight.shape[:-1])
    if bias is not None and tuple(bias.shape) != shape:
        raise RuntimeError(f"expected linear_bias shape {shape}, got {tuple(bias.shape)}")
    if len(shape) > 1 and input.dim() == 1:
        raise RuntimeError(
            "K-dimensional loss defined by linear_weight shape "
            f"{tuple(linear_weight.shape)} requires batched input, (N, {input.size(-1)}), got "
            f"unbatched input with shape {tuple(input.shape)}"
        )
    return shape[0], shape[1:]


def _can_be_cut(
    more: tuple[int, ...], reduction: str, label_smoothing: float, target: Tensor
) -> bool:
    known = reduction in ("mean", "sum", "none")
    return known and not more and label_smoothing == 0 and target.dtype == ad.int64


def _by_pieces(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    bias: Tensor | None,
    weight: Tensor | None,
    reduction: str,
    ignored: int,
    options: LinearCrossEntropyOptions,
) -> Tensor:
    from adjoint.utils.checkpoint import checkpoint

    rows, labels = (input, target) if input.dim() == 2 else (input[None], target[None])
    if labels.shape != rows.shape[:1]:
        raise ValueError(
            f"Expected input batch_size ({rows.size(0)}) to match target batch_size "
            f"({labels.size(0) if labels.dim() else 0})."
        )
    dtype = options.acc_dtype
    if dtype is None and input.dtype in (ad.float16, ad.bfloat16):
        dtype = ad.float32

    def losses(x: Tensor, w: Tensor, b: Tensor | None, t: Tensor) -> Tensor:
        if dtype is not None:
            x, w, b = x.to(dtype), w.to(dtype), None if b is None else b.to(dtype)
        scale = weight if weight is None or dtype is None else weight.to(dtype)
        return cross_entropy(
            linear(x, w, b), t, weight=scale, ignore_index=ignored, reduction="none"
        )

    size = options._rows(rows.size(0), rows.size(1), linear_weight.size(0))
    found = [
        checkpoint(
            losses,
            rows[k : k + size],
            linear_weight,
            bias,
            labels[k : k + size],
            use_reentrant=False,
        )
        for k in range(0, max(rows.size(0), 1), size)
    ]
    loss = ad.cat(found)
    if reduction == "none":
        result = loss if input.dim() == 2 else loss[0]
    elif reduction == "sum":
        result = loss.sum()
    else:
        kept = labels != ignored
        counted = kept.to(loss.dtype)
        if weight is not None:
            counted = counted * weight.to(loss.dtype)[ad.where(kept, labels, 0)]
        result = loss.sum() / counted.sum()
    return result.to(input.dtype)
