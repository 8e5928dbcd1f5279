"""``native_batch_norm`` and its like: normalisations that return the statistics they used.

As in PyTorch, the statistics have a history in ``native_group_norm`` only.
"""

from __future__ import annotations

from collections.abc import Sequence

import adjoint as ad
from adjoint._core import Tensor
from adjoint._tensor.arguments import require_tensor, write_out
from adjoint.nn import functional as _functional


def _moments(x: Tensor, axes: list[int], keepdim: bool, eps: float) -> tuple[Tensor, Tensor]:
    """The mean and one over the standard deviation."""
    wide = x.float() if x.dtype in (ad.float16, ad.bfloat16) else x
    var, mean = ad.var_mean(wide, axes, correction=0, keepdim=keepdim)
    return mean, ad.rsqrt(var + eps)


def native_layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``nn.functional.layer_norm``, the means and one over the standard deviations."""
    out = _functional.layer_norm(input, normalized_shape, weight, bias, eps)
    axes = list(range(input.dim() - len(normalized_shape), input.dim()))
    mean, scale = _moments(input.detach(), axes, True, eps)
    if weight is None or weight.dtype == input.dtype:
        mean, scale = mean.to(input.dtype), scale.to(input.dtype)
    return out, mean, scale


def native_group_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``nn.functional.group_norm`` of N x C x HxW elements, the means and inverse deviations."""
    require_tensor("native_group_norm", "input", 1, input)
    if group <= 0 or C % group:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of "
            f"shape {list(input.shape)} and num_groups={group}"
        )
    rows = input.reshape(N, group, C // group * HxW)
    var, centre = ad.var_mean(rows, [2], correction=0, keepdim=True)
    normal = ((rows - centre) * ad.rsqrt(var + eps)).reshape(N, C, HxW)
    for parameter, name in ((weight, "weight"), (bias, "bias")):
        if parameter is not None and tuple(parameter.shape) != (C,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, "
                f"but got {name} of shape {list(parameter.shape)} and input of shape "
                f"{list(input.shape)}"
            )
    if weight is not None:
        normal = normal * weight.reshape(1, C, 1)
    if bias is not None:
        normal = normal + bias.reshape(1, C, 1)
    mean, scale = _moments(rows, [2], False, eps)
    if weight is None or weight.dtype == input.dtype:
        mean, scale = mean.to(input.dtype), scale.to(input.dtype)
    return normal.reshape(input.shape), mean, scale


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    *,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """``nn.functional.batch_norm``, the means and inverse deviations of the batch in training."""
    results = _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    if out is None:
        return results
    first, second, third = (write_out(o, r) for o, r in zip(out, results, strict=True))
    return first, second, third


def _batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    result = _functional.batch_norm(
        input, running_mean, running_var, weight, bias, training, momentum, eps
    )
    if not training:
        return result, input.new_empty(0), input.new_empty(0)
    mean, scale = _moments(input.detach(), [0, *range(2, input.dim())], False, eps)
    if weight is None or weight.dtype == input.dtype:
        mean, scale = mean.to(input.dtype), scale.to(input.dtype)
    return result, mean, scale
