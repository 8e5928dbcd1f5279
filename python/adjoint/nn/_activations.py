"""Activation functions. Those with an op in the core call it; the rest are written from ops."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import adjoint as ad
from adjoint import Tensor, _core
from adjoint._autocast import in_lower_precision
from adjoint._core import Generator
from adjoint._tensor.arguments import require_tensor, write_out


def _run(function: Callable[..., Tensor], input: Tensor, *args: float, inplace: bool) -> Tensor:
    if not inplace:
        return function(input, *args)
    require_tensor(function.__name__, "input", 1, input)
    # Backward needs the values of before the change: a copy of them.
    return input.copy_(function(input.clone(), *args))


def _require_float(input: Tensor, name: str) -> None:
    require_tensor(name, "input", 1, input)
    if not input.is_floating_point():
        raise NotImplementedError(f'"{name}" not implemented for {input.dtype}: use .float()')


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(input, 0)."""
    return ad.relu_(input) if inplace else ad.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """The input limited to [0, 6]."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(
    input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Tensor:
    """The input limited to [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _run(ad.hardtanh, input, min_val, max_val, inplace=inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """The input where positive, negative_slope times it elsewhere."""
    return _run(_core.leaky_relu, input, negative_slope, inplace=inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Leaky ReLU whose slope is a tensor: one value, or one for each channel (axis 1)."""
    require_tensor("prelu", "input", 1, input)
    require_tensor("prelu", "weight", 2, weight)
    if weight.ndim > 1:
        raise RuntimeError(
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = "
            f"{weight.ndim}, of shape {list(weight.shape)}"
        )
    if weight.numel() != 1:
        if input.ndim == 0:
            raise RuntimeError(
                f"prelu: Not allow zero-dim input tensor with {weight.numel()} weights"
            )
        channels = input.size(1) if input.dim() > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{weight.numel()} and channel size = {channels}."
            )
        weight = weight.reshape((1, -1, *[1] * (input.dim() - 2)))
    else:
        weight = weight.reshape(())
    input, weight = in_lower_precision(input, weight)
    return ad.where(input > 0, input, weight * input)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """The input where positive, alpha * (exp(input) - 1) elsewhere."""
    return _run(ad.elu, input, alpha, inplace=inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """The input where positive, alpha * (exp(input / alpha) - 1) elsewhere."""
    return _run(ad.celu, input, alpha, inplace=inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Exponential linear units with the constants that keep the mean 0 and the variance 1."""
    return _run(ad.selu, input, inplace=inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """The input where it exceeds the threshold, `value` elsewhere."""
    return _run(ad.threshold, input, threshold, value, inplace=inplace)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """The input where its magnitude exceeds lambd, 0 elsewhere."""
    return ad.hardshrink(input, lambd, out=out)


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """The input brought nearer to 0 by lambd, and not beyond it."""
    if not lambd >= 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    _require_float(input, "softshrink")
    inner = ad.where(input < -lambd, input + lambd, input * 0)
    result = ad.where(input > lambd, input - lambd, inner)
    return result if out is None else write_out(out, result)


def tanhshrink(input: Tensor) -> Tensor:
    """Input - tanh(input)."""
    return input - ad.tanh(input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """The first half of the input along an axis times the sigmoid of the second."""
    require_tensor("glu", "input", 1, input)
    if input.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    if input.size(dim) % 2:
        raise RuntimeError(
            f"Halving dimension must be even, but dimension {dim} is size {input.size(dim)}"
        )
    _require_float(input, "glu")
    first, second = input.chunk(2, dim)
    return first * second.sigmoid()


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Input * tanh(softplus(input))."""
    return _run(ad.mish, input, inplace=inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(input + 3) / 6, limited to [0, 1]."""
    return _run(ad.hardsigmoid, input, inplace=inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Input * hardsigmoid(input)."""
    return _run(ad.hardswish, input, inplace=inplace)


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """Input * Φ(input); `approximate="tanh"` uses the tanh form of Φ."""
    return _core.gelu(input, approximate=approximate, out=out)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Input * sigmoid(input)."""
    return _run(_core.silu, input, inplace=inplace)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return ad.tanh(input)


def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-input))."""
    return ad.sigmoid(input)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """log(sigmoid(input)), without overflow."""
    return ad.logsigmoid(input, out=out)


def softsign(input: Tensor) -> Tensor:
    """``input / (1 + |input|)``."""
    return input / (ad.abs(input) + 1)


def softplus(
    input: Tensor, beta: float = 1.0, threshold: float = 20.0, *, out: Tensor | None = None
) -> Tensor:
    """log(1 + exp(beta * input)) / beta, linear where beta * input exceeds the threshold."""
    return _core.softplus(input, beta, threshold, out=out)


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: ad.dtype | None = None
) -> Tensor:
    """exp(input) divided by its sum over the axis `dim`."""
    require_tensor("softmax", "input", 1, input)
    dim = _implicit_dim("softmax", input.dim(), _stacklevel) if dim is None else dim
    return ad.softmax(input, dim, dtype=dtype)


def softmin(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: ad.dtype | None = None
) -> Tensor:
    """softmax(-input)."""
    require_tensor("softmin", "input", 1, input)
    dim = _implicit_dim("softmin", input.dim(), _stacklevel) if dim is None else dim
    return softmax(-input, dim, dtype=dtype)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: ad.dtype | None = None
) -> Tensor:
    """log(softmax(input)) over the axis `dim`, without overflow."""
    require_tensor("log_softmax", "input", 1, input)
    dim = _implicit_dim("log_softmax", input.dim(), _stacklevel) if dim is None else dim
    return ad.log_softmax(input, dim, dtype=dtype)


def _implicit_dim(name: str, ndim: int, stacklevel: int) -> int:
    warnings.warn(
        f"Implicit dimension choice for {name} has been deprecated. "
        "Change the call to include dim=X as an argument.",
        stacklevel=stacklevel,
    )
    return 0 if ndim in (0, 1, 3) else 1


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Leaky ReLU whose slope is drawn from [lower, upper) for each element, or is their mean.

    The slopes are drawn while training; they are those PyTorch draws from the same seed.
    """
    return _rrelu(input, lower, upper, training, inplace)


def _rrelu(
    input: Tensor,
    lower: float,
    upper: float,
    training: bool,
    inplace: bool,
    generator: Generator | None = None,
) -> Tensor:
    _require_float(input, "rrelu")
    if lower > upper:
        raise RuntimeError(
            f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )
    if not math.isfinite(lower) or not math.isfinite(upper):
        raise RuntimeError("Lower and upper bounds must be finite numbers")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    with ad.no_grad():
        slopes = _core._rrelu_slopes(input, lower, upper, generator=generator)
    return input.mul_(slopes) if inplace else input * slopes


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """A sample of the Gumbel-softmax distribution: softmax((logits + noise) / tau).

    With `hard` it is a row of zeros with a one, whose gradient is that of the soft sample.
    """
    require_tensor("gumbel_softmax", "logits", 1, logits)
    fresh = ad.contiguous_format
    noise = -ad.empty_like(logits, memory_format=fresh).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    picked = ad.zeros_like(logits, memory_format=fresh)
    return picked.scatter_(dim, index, 1.0) - soft.detach() + soft


def rrelu_(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """`rrelu` in place."""
    return _rrelu(input, lower, upper, training, True, generator)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """`celu` in place."""
    return celu(input, alpha, inplace=True)


def selu_(input: Tensor) -> Tensor:
    """`selu` in place."""
    return selu(input, inplace=True)
