"""Losses that are the logarithm of a likelihood: Poisson, normal, and sequences of labels."""

from __future__ import annotations

import math

import adjoint as ad
from adjoint import Tensor
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
