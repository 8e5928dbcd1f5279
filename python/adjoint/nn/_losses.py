"""Loss functions. All take `reduction`: "mean", "sum" or "none"."""

from __future__ import annotations

import warnings

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._autocast import in_float32
from adjoint._tensor.arguments import require_tensor


def _legacy_reduction(
    size_average: bool | None, reduce: bool | None, reduction: str, stacklevel: int = 3
) -> str:
    if size_average is None and reduce is None:
        return reduction
    mean = size_average is None or size_average
    chosen = "none" if reduce is False else "mean" if mean else "sum"
    warnings.warn(
        "size_average and reduce args will be deprecated, "
        f"please use reduction='{chosen}' instead.",
        stacklevel=stacklevel,
    )
    return chosen


def _require_pair(function: str, input: Tensor, target: Tensor) -> None:
    require_tensor(function, "input", 1, input)
    require_tensor(function, "target", 2, target)


_REDUCTIONS = ("none", "mean", "sum")  # PyTorch numbers them


def _check_reduction(reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"{reduction} is not a valid value for reduction")


def _reduce(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ValueError(f"{reduction} is not a valid value for reduction")


def _same_size(input: Tensor, target: Tensor) -> None:
    if tuple(input.shape) != tuple(target.shape):
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=4,
        )


def _differing(
    name: str,
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> str:
    """Check the arguments of a loss of the difference of two tensors; the reduction it means."""
    _require_pair(name, input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction, stacklevel=4)
    _same_size(input, target)
    return reduction


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Mean (or sum) of (input - target)²."""
    reduction = _differing("mse_loss", input, target, size_average, reduce, reduction)
    if weight is not None:
        return _weighted((input - target).square(), weight, reduction)
    return _core.mse_loss(input, target, reduction=reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Mean (or sum) of ``|input - target|``."""
    reduction = _differing("l1_loss", input, target, size_average, reduce, reduction)
    if weight is not None:
        return _weighted((input - target).abs(), weight, reduction)
    return _core.l1_loss(input, target, reduction=reduction)


def _weighted(loss: Tensor, weight: Tensor, reduction: str) -> Tensor:
    if tuple(weight.shape) != tuple(loss.shape):
        raise ValueError(
            "Weights and input must have the same size. "
            f"(got {list(weight.shape)} and {list(loss.shape)})"
        )
    loss = loss * weight
    return loss.sum() / weight.sum() if reduction == "mean" else _reduce(loss, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """``difference² / (2 beta)`` below `beta`, ``|difference| - beta / 2`` above."""
    reduction = _differing("smooth_l1_loss", input, target, size_average, reduce, reduction)
    return _core.smooth_l1_loss(input, target, reduction=reduction, beta=beta)


def huber_loss(
    input: Tensor,
    target: Tensor,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Tensor | None = None,
) -> Tensor:
    """``difference² / 2`` below `delta`, ``delta * (|difference| - delta / 2)`` above."""
    _differing("huber_loss", input, target)
    if weight is None:
        return _core.huber_loss(input, target, reduction=reduction, delta=delta)
    loss = _core.huber_loss(input, target, reduction="none", delta=delta)
    return _weighted(loss, weight, reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Target * (log target - input); "batchmean" divides the sum by the first axis' size."""
    _require_pair("kl_div", input, target)
    input, target = in_float32(input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        # 0 log 0 = 0, also in the gradient: the logarithm never sees the zeros.
        zero = target == 0
        log = ad.where(zero, ad.ones_like(target), target).log()
        loss = ad.where(zero, ad.zeros_like(target), target * log) - target * input
    if reduction == "batchmean":
        return loss.sum() / (input.size(0) if input.dim() > 0 else 1)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
            "major release.",
            stacklevel=2,
        )
    return _reduce(loss, reduction)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(target log input + (1 - target) log(1 - input)), each logarithm at least -100."""
    _require_pair("binary_cross_entropy", input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Using a target size ({target.size()}) that is different to the input size "
            f"({input.size()}) is deprecated. Please ensure they have the same size."
        )
    return _core.binary_cross_entropy(input, target, weight=weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross-entropy of sigmoid(input), computed without overflow."""
    _require_pair("binary_cross_entropy_with_logits", input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    if target.size() != input.size():
        raise ValueError(
            f"Target size ({target.size()}) must be the same as input size ({input.size()})"
        )
    return _core.binary_cross_entropy_with_logits(
        input, target, weight=weight, pos_weight=pos_weight, reduction=reduction
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of the classes `target`, given log-probabilities (axis 1)."""
    _require_pair("nll_loss", input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    return _core.nll_loss(
        input, target, weight=weight, ignore_index=ignore_index, reduction=reduction
    )


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross-entropy of logits with target classes (integers) or class probabilities (floats)."""
    _require_pair("cross_entropy", input, target)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    return _core.cross_entropy(
        input,
        target,
        weight=weight,
        ignore_index=ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
