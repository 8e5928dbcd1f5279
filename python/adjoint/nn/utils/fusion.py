"""A convolution or linear layer and the batch norm after it as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import adjoint as ad
from adjoint import Tensor
from adjoint.nn.modules.module import Module
from adjoint.nn.parameter import Parameter

__all__ = [
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
]

M = TypeVar("M", bound=Module)


def fuse_conv_bn_eval(conv: M, bn: Any, transpose: bool = False) -> M:
    """A copy of a convolution that computes what it and the batch norm after it compute.

    Parameters
    ----------
    conv : Module
        A convolution in evaluation mode.
    bn : Module
        A batch norm in evaluation mode, with running statistics.
    transpose : bool, default False
        Whether the convolution is a transposed one.
    """
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused: Any = copy.deepcopy(conv)
    mean, var = _statistics(bn)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias, transpose
    )
    result: M = fused
    return result


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the convolution that `fuse_conv_bn_eval` makes."""
    outputs = 1 if transpose else 0
    shape = [-1 if axis == outputs else 1 for axis in range(conv_w.dim())]
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_eval(linear: M, bn: Any) -> M:
    """A copy of a linear layer that computes what it and the batch norm after it compute.

    Parameters
    ----------
    linear : Module
        A `Linear` in evaluation mode.
    bn : Module
        A batch norm of as many features, or of one, in evaluation mode.
    """
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused: Any = copy.deepcopy(linear)
    if fused.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1"
        )
    mean, var = _statistics(bn)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, mean, var, bn.eps, bn.weight, bn.bias
    )
    result: M = fused
    return result


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Weight and bias of the layer that `fuse_linear_bn_eval` makes."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _statistics(bn: Any) -> tuple[Tensor, Tensor]:
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("the batch norm has no running statistics to fuse")
    return bn.running_mean, bn.running_var


def _fused(
    weight: Tensor,
    bias: Tensor | None,
    mean: Tensor,
    var: Tensor,
    eps: float,
    scale: Tensor | None,
    shift: Tensor | None,
    shape: list[int],
) -> tuple[Parameter, Parameter]:
    bias_dtype = weight.dtype if bias is None else bias.dtype
    bias = ad.zeros_like(mean) if bias is None else bias
    scale = ad.ones_like(mean) if scale is None else scale
    shift = ad.zeros_like(mean) if shift is None else shift
    factor = scale * ad.rsqrt(var + eps)
    new_weight = (weight * factor.reshape(shape)).to(weight.dtype)
    new_bias = ((bias - mean) * factor + shift).to(bias_dtype)
    return (
        Parameter(new_weight, weight.requires_grad),
        Parameter(new_bias, bias.requires_grad),
    )
