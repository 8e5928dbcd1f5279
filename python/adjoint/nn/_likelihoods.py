"""Losses that are the logarithm of a likelihood: Poisson, normal, and sequences of labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._autocast import in_float32
from adjoint._tensor.arguments import require_flag, require_tensor
from adjoint.nn._losses import _check_reduction, _legacy_reduction, _reduce, _require_pair


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(input) - target * input, or with `log_input=False` input - target * log(input + eps).

    With `full`, Stirling's approximation of log(target!) is added where the target exceeds 1.
    """
    _require_pair("poisson_nll_loss", input, target)
    require_flag("poisson_nll_loss", "log_input", 3, log_input)
    require_flag("poisson_nll_loss", "full", 4, full)
    reduction = _legacy_reduction(size_average, reduce, reduction)
    _check_reduction(reduction)
    input, target = in_float32(input, target)
    mean = ad.exp(input) if log_input else input
    log_mean = input if log_input else ad.log(input + eps)
    loss = mean - target * log_mean
    if full:
        large = target > 1
        # The others never reach a logarithm, in the gradient neither.
        safe = ad.where(large, target, ad.ones_like(target))
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + ad.where(large, stirling, ad.zeros_like(stirling))
    return _reduce(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log var + (input - target)² / var) / 2, with `var` at least `eps`; `full` adds log(2π) / 2.

    The variance has the shape of the input, or one number for each row of its last axis.
    """
    _require_pair("gaussian_nll_loss", input, target)
    if isinstance(var, int | float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = ad.full_like(input, var)
    else:
        require_tensor("gaussian_nll_loss", "var", 3, var)
        if not ad._core._batch_level((var,)) and bool((var < 0).any()):
            raise ValueError("var has negative entry/entries")
    var = _variance_for(input, var)
    _check_reduction(reduction)
    var = var.clone()
    with ad.no_grad():  # the gradient is as if nothing had been raised
        var.clamp_(min=eps)
    loss = 0.5 * (ad.log(var) + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


def _variance_for(input: Tensor, var: Tensor) -> Tensor:
    if var.shape == input.shape:
        return var
    if input.shape[:-1] == var.shape:
        return var.unsqueeze(-1)
    if var.dim() == input.dim():
        other = [n for m, n in zip(input.shape, var.shape, strict=True) if m != n]
        if other == [1]:
            return var
    raise ValueError(
        f"var is of incorrect size: {list(var.shape)} for an input of {list(input.shape)}"
    )


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log-likelihood of sequences of labels, over all ways to spread them over time.

    Parameters
    ----------
    log_probs : Tensor
        [T, N, C], or [T, C] for one sample: logarithms of the probabilities of the classes at each
        time, as `log_softmax` gives them.
    targets : Tensor
        [N, S], or the labels of all samples one after the other; no label is `blank`.
    input_lengths, target_lengths : Tensor or sequence of int
        How many times and labels of each sample count.
    blank : int, default 0
        The class that stands for no label.
    reduction : {"mean", "sum", "none"}
        "mean" divides each loss by the number of its labels first.
    zero_infinity : bool, default False
        Whether a sample whose labels do not fit into its time counts zero, in the gradient too.

    Notes
    -----
    As in PyTorch, the gradient is that of the inputs of `log_softmax`, which its own derivative
    leaves as it is. It can be differentiated again.
    """
    require_tensor("ctc_loss", "log_probs", 1, log_probs)
    require_tensor("ctc_loss", "targets", 2, targets)
    _check_reduction(reduction)
    alone = log_probs.dim() == 2
    inputs, labels = (_lengths(x) for x in (input_lengths, target_lengths))
    logs = log_probs.unsqueeze(1) if alone else log_probs
    table = _ctc_targets(logs, targets, inputs, labels, blank)
    losses = _core._ctc_loss(logs, table, inputs, labels, blank)
    if zero_infinity:
        losses = _without_infinity(losses)
    if reduction == "mean":
        counts = ad.tensor(labels, dtype=losses.dtype).clamp_min(1)
        return (losses / counts).mean()
    losses = losses.squeeze(0) if alone else losses
    return _reduce(losses, reduction)


def _without_infinity(losses: Tensor) -> Tensor:
    infinite = losses == float("inf")
    return ad.where(infinite, 0.0, losses)


def _lengths(given: Tensor | Sequence[int]) -> list[int]:
    if isinstance(given, Tensor):
        if given.is_floating_point() or given.is_complex():
            raise RuntimeError("input_lengths and target_lengths must be integral")
        values: list[int] = given.reshape(-1).tolist()
    elif isinstance(given, list | tuple):
        values = list(given)
    else:
        raise TypeError(
            "ctc_loss(): lengths must be Tensor or tuple of ints, not " + type(given).__name__
        )
    if not all(isinstance(n, int) for n in values):
        raise TypeError(f"ctc_loss(): lengths must be whole numbers, got {values}")
    return values


def _ctc_targets(
    logs: Tensor, targets: Tensor, inputs: list[int], labels: list[int], blank: int
) -> Tensor:
    """The labels as [N, S], whichever way they were given; refuses what does not fit."""
    if logs.dim() != 3 or logs.dtype not in (ad.float32, ad.float64):
        if logs.dim() != 3:
            raise RuntimeError(f"ctc_loss: log_probs must be [T, N, C], got {list(logs.shape)}")
        raise NotImplementedError(f'"ctc_loss_cpu" not implemented for {logs.dtype}')
    times, samples, classes = logs.shape
    if targets.is_floating_point() or targets.dtype not in (ad.int64, ad.int32):
        raise RuntimeError(f"Expected tensor to have one of int32, int64, but got {targets.dtype}")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for name, given in (("input_lengths", inputs), ("target_lengths", labels)):
        if len(given) != samples:
            raise RuntimeError(f"{name} must be of size batch_size: {len(given)} for {samples}")
    if samples == 0:
        raise RuntimeError("log_probs tensor must not be empty")
    if any(not 0 <= n <= times for n in inputs):
        raise RuntimeError(
            f"Expected input_lengths to have value at least 0 and at most {times}, got {inputs}"
        )
    if any(n < 0 for n in labels):
        raise RuntimeError(f"Expected target_lengths to have value at least 0, got {labels}")
    rows = targets.to(ad.int64)
    if targets.dim() == 1:
        if (sum(labels) != targets.numel() and samples > 1) or sum(labels) > targets.numel():
            raise RuntimeError(
                f"Expected tensor to have size {sum(labels)} at dimension 0, but got size "
                f"{targets.numel()} for argument #2 'targets' (while checking arguments for "
                "ctc_loss)"
            )
        starts = [sum(labels[:i]) for i in range(samples)]
        most = max(labels)
        parts = [
            ad.constant_pad_nd(rows[a : a + n], (0, most - n), blank)
            for a, n in zip(starts, labels, strict=True)
        ]
        rows = ad.stack(parts)
    elif targets.dim() != 2 or targets.size(0) != samples or targets.size(1) < max(labels):
        raise RuntimeError(
            f"Expected targets to be [{samples}, at least {max(labels)}] or one after the other, "
            f"but got {list(targets.shape)} for argument #2 'targets'"
        )
    if rows.numel() and bool(((rows < 0) | (rows >= classes)).any()):
        rows = _check_labels(rows, labels, classes)
    return rows


def _check_labels(rows: Tensor, labels: list[int], classes: int) -> Tensor:
    """What lies behind the labels of a sample may be anything, and is never read."""
    counted = ad.arange(rows.size(1)) < ad.tensor(labels).unsqueeze(1)
    if bool((((rows < 0) | (rows >= classes)) & counted).any()):
        raise RuntimeError(f"ctc_loss: targets must lie in [0, {classes})")
    return ad.where(counted, rows, 0)
