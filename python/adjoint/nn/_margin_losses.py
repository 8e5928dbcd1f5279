"""Losses that want a score or a distance beyond a margin. Read `_losses.py` first."""

from __future__ import annotations

from collections.abc import Callable

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._autocast import in_float32
from adjoint._tensor.arguments import require_flag, require_tensor
from adjoint.nn._losses import _check_reduction, _legacy_reduction, _reduce, _require_pair


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(input1, input2) where the target is 1, max(0, cos - margin) where it is -1."""
    for at, value in enumerate((input1, input2), start=1):
        require_tensor("cosine_embedding_loss", f"input{at}", at, value)
    require_tensor("cosine_embedding_loss", "target", 3, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    if target.dim() > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        raise RuntimeError(
            f"{target.dim()}D target tensor expects {target.dim() + 1}D input tensors, but found "
            f"inputs with sizes {list(input1.shape)} and {list(input2.shape)}."
        )
    input1, input2, target = in_float32(input1, input2, target)
    axis = target.dim()
    # Added to the squares, so that a vector of zeros has a cosine and a gradient.
    tiny = 1e-12
    square1 = (input1 * input1).sum(axis) + tiny
    square2 = (input2 * input2).sum(axis) + tiny
    cos = (input1 * input2).sum(axis) / (square1 * square2).sqrt()
    zero = ad.zeros_like(cos)
    near = ad.where(target == 1, 1 - cos, zero)
    far = ad.where(target == -1, (cos - margin).clamp_min(0), zero)
    return _reduce(near + far, reduction)


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where the target is 1, max(0, margin - input) where it is -1."""
    _require_pair("hinge_embedding_loss", input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    input, target = in_float32(input, target)
    zero = ad.zeros_like(input)
    if not input.is_floating_point():
        margin = int(margin)  # the loss has the input's dtype
    far = ad.where(target != 1, (margin - input).clamp_min(0), zero)
    near = ad.where(target != -1, input, zero)
    return _reduce(far + near, reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, margin - target * (input1 - input2)): a target of 1 wants input1 to be larger."""
    for at, (name, value) in enumerate(
        (("input1", input1), ("input2", input2), ("target", target)), start=1
    ):
        require_tensor("margin_ranking_loss", name, at, value)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    if input1.dim() != input2.dim() or input1.dim() != target.dim():
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.size()}, input2: {input2.size()}, target: {target.size()} "
        )
    input1, input2, target = in_float32(input1, input2, target)
    return _reduce((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target * input)), without overflow."""
    _require_pair("soft_margin_loss", input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    input, target = in_float32(input, target)
    return _reduce(-ad.logsigmoid(target * input), reduction)


def _rows(name: str, input: Tensor) -> Tensor:
    """Scores as [samples, classes]: one sample may come without an axis for the batch."""
    if input.dim() > 2 or 0 in input.shape[-1:] or (input.dim() == 1 and input.numel() == 0):
        raise RuntimeError(
            f"{name}: Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(input.shape)}"
        )
    if input.dtype not in (ad.float32, ad.float64):
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype}: use .float()')
    return input if input.dim() == 2 else input.reshape(1, -1)


def _require_long(name: str, target: Tensor) -> None:
    if target.dtype != ad.int64:
        raise RuntimeError(
            f"{name}: expected scalar type Long but found {target.dtype}: use target.long()"
        )


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of max(0, margin - input[target] + input[j])^p, for j != target."""
    _require_pair("multi_margin_loss", input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None:
        require_tensor("multi_margin_loss", "weight", 5, weight)
        if weight.dim() != 1:
            raise ValueError(f"weight must be one-dimensional, got shape {list(weight.shape)}")
    input, weight = in_float32(input, weight)
    scores = _rows("multi_margin_loss", input)
    samples, classes = scores.shape
    if target.dim() > 1 or target.numel() != samples:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input "
            f"samples (batch size). Expected target size [{samples}], but got "
            f"{list(target.shape)}. Input size: {list(input.shape)}"
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(
            f"inconsistent weight size, expected {classes} but got {list(weight.shape)}"
        )
    _require_long("multi_margin_loss", target)
    column = target.reshape(samples, 1)
    # relu, not clamp: at the kink there is no gradient.
    excess = (margin - scores.gather(1, column) + scores).relu()
    if p == 2:
        excess = excess * excess
    if weight is not None:
        excess = excess * weight[target.reshape(-1)].unsqueeze(1)
    others = excess.masked_fill(ad.arange(classes) == column, 0)
    loss = others.sum(1) / classes
    return _reduce(loss if target.dim() else loss.reshape(()), reduction)


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The mean over classes of max(0, 1 - input[j] + input[i]), for labels j and all others i.

    The labels of a sample are the numbers in its row of `target` before the first -1.
    """
    _require_pair("multilabel_margin_loss", input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    (input,) = in_float32(input)
    scores = _rows("multilabel_margin_loss", input)
    if target.shape != input.shape and not (target.dim() < 2 and target.numel() == input.numel()):
        raise RuntimeError(
            f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}"
        )
    _require_long("multilabel_margin_loss", target)
    loss = _core._multilabel_margin(scores, target.reshape(scores.shape))
    return _reduce(loss if input.dim() == 2 else loss.reshape(()), reduction)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross-entropy of each class with logits `input`, its mean over the classes."""
    _require_pair("multilabel_soft_margin_loss", input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    loss = -(target * ad.logsigmoid(input) + (1 - target) * ad.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    axis = input.dim() - 1
    return _reduce(loss.sum(axis) / input.size(axis), reduction)


def _hinge(near: Tensor, far: Tensor, margin: float) -> Tensor:
    return (margin + near - far).clamp_min(0)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + |anchor - positive| - |anchor - negative|)``, by the p-norm.

    With `swap`, the second distance is that of positive and negative where that is smaller.
    """
    for at, (name, value) in enumerate(
        (("anchor", anchor), ("positive", positive), ("negative", negative)), start=1
    ):
        require_tensor("triplet_margin_loss", name, at, value)
    require_flag("triplet_margin_loss", "swap", 7, swap)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
            f"negative {negative.dim()}D inputs"
        )
    anchor, positive, negative = in_float32(anchor, positive, negative)
    near = ad.pairwise_distance(anchor, positive, p, eps)
    far = ad.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ad.minimum(far, ad.pairwise_distance(positive, negative, p, eps))
    return _reduce(_hinge(near, far, margin), reduction)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """`triplet_margin_loss` with any function of two tensors for the distance."""
    _check_reduction(reduction)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = ad.pairwise_distance if distance_function is None else distance_function
    for at, (name, value) in enumerate(
        (("anchor", anchor), ("positive", positive), ("negative", negative)), start=1
    ):
        require_tensor("triplet_margin_with_distance_loss", name, at, value)
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of "
            f"dimensions, but got: anchor {anchor.dim()}D, positive {positive.dim()}D, and "
            f"negative {negative.dim()}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = ad.minimum(far, distance(positive, negative))
    return _reduce(_hinge(near, far, margin), reduction)
