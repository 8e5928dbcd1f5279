"""Normalisation by statistics of the batch, of one sample or of a group of channels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import adjoint as ad
from adjoint import Tensor
from adjoint._tensor.arguments import require_tensor

_HALVES = (ad.float16, ad.bfloat16)


def _check_more_than_one(values: int, shape: Sequence[int], what: str) -> None:
    if values == 1:
        raise ValueError(
            f"Expected more than 1 {what} when training, got input size {ad.Size(shape)}"
        )


def _check_channels(function: str, input: Tensor, **given: Tensor | None) -> None:
    """Refuse parameters that have not one value for each channel."""
    require_tensor(function, "input", 1, input)
    if input.dim() < 2:
        raise RuntimeError(
            f"{function}: Expected at least 2 dimensions for input tensor but received "
            f"{input.dim()}"
        )
    for position, (name, value) in enumerate(given.items(), start=2):
        if value is None:
            continue
        require_tensor(function, name, position, value)
        if value.numel() != input.size(1):
            raise RuntimeError(
                f"{name} should contain {input.size(1)} elements not {value.numel()}: one for each "
                f"channel of an input of shape {list(input.shape)}"
            )


def _along_channels(x: Tensor, input: Tensor) -> Tensor:
    """One value per channel, shaped to broadcast against the input."""
    return x.reshape(1, -1, *[1] * (input.dim() - 2))


def _scaled(normal: Tensor, input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        normal = normal * _along_channels(weight, input)
    if bias is not None:
        normal = normal + _along_channels(bias, input)
    # 16-bit inputs may come with float32 parameters; the result has the input's precision.
    return normal.to(input.dtype) if input.dtype in _HALVES else normal


def _of_nothing(input: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """What batch_norm makes of no elements: nothing, on which the parameters have no effect."""
    normal = input.clone()
    if weight is not None and weight.numel():
        normal = normal * weight[0]
    return normal if bias is None or not bias.numel() else normal + bias[0]


def _follow(running: Tensor, seen: Tensor, momentum: float) -> None:
    running.mul_(1 - momentum).add_(seen.to(running.dtype), alpha=momentum)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each channel (axis 1) to mean 0 and variance 1, then scale and shift it.

    In training the statistics are those of the batch, which also move ``running_mean`` and
    ``running_var`` by ``momentum``; otherwise the running ones are used.
    """
    require_tensor("batch_norm", "input", 1, input)
    if input.numel() == 0:
        return _of_nothing(input, weight, bias)
    _check_channels(
        "batch_norm",
        input,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError(
                "Expected running_mean and running_var to be defined when not training"
            )
        mean, var = _along_channels(running_mean, input), _along_channels(running_var, input)
        normal = (input - mean) * ad.rsqrt(var + eps)
        return _scaled(normal, input, weight, bias)
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    count = input.numel() // max(input.size(1), 1)
    _check_more_than_one(count, input.shape, "value per channel")
    axes = [0, *range(2, input.dim())]
    batch_var, batch_mean = ad.var_mean(input, axes, correction=0, keepdim=True)
    with ad.no_grad():
        if running_mean is not None:
            _follow(running_mean, batch_mean.detach().reshape(-1), momentum)
        if running_var is not None:
            unbiased = batch_var.detach().reshape(-1) * (count / (count - 1))
            _follow(running_var, unbiased, momentum)
    return _scaled((input - batch_mean) * ad.rsqrt(batch_var + eps), input, weight, bias)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each channel of each sample to mean 0 and variance 1, then scale and shift it."""
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    _check_channels(
        "instance_norm",
        input,
        running_mean=running_mean,
        running_var=running_var,
        weight=weight,
        bias=bias,
    )
    count = math.prod(input.shape[2:])
    _check_more_than_one(count, input.shape, "spatial element")
    axes = list(range(2, input.dim()))
    var, mean = ad.var_mean(input, axes, correction=0, keepdim=True)
    with ad.no_grad():
        if running_mean is not None:
            _follow(running_mean, mean.detach().mean(0).reshape(-1), momentum)
        if running_var is not None:
            unbiased = var.detach().mean(0).reshape(-1) * (count / (count - 1))
            _follow(running_var, unbiased, momentum)
    return _scaled((input - mean) * ad.rsqrt(var + eps), input, weight, bias)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Bring each group of channels of each sample to mean 0 and variance 1, then scale it."""
    if not isinstance(num_groups, int):
        raise TypeError(
            "group_norm(): argument 'num_groups' (position 2) must be int, not "
            f"{type(num_groups).__name__}"
        )
    _check_channels("group_norm", input)
    channels = input.size(1)
    if num_groups > 0:
        each = (input.size(0) * channels // num_groups) * math.prod(input.shape[2:])
        _check_more_than_one(each, input.shape, "value per channel")
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(input.shape)} and num_groups={num_groups}"
        )
    _check_channels("group_norm", input, weight=weight, bias=bias)
    length = channels // num_groups * math.prod(input.shape[2:])
    groups = input.reshape(input.size(0), num_groups, length)
    var, mean = ad.var_mean(groups, [2], correction=0, keepdim=True)
    normal = ((groups - mean) * ad.rsqrt(var + eps)).reshape(input.shape)
    return _scaled(normal, input, weight, bias)
