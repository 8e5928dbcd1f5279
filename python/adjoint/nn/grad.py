"""The gradients of convolutions, called directly."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.nn import functional as F

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _gradient(conv: Any, wanted: Tensor, other: Tensor, grad: Tensor, rest: Any, of: int) -> Tensor:
    """The gradient of ``conv`` with respect to its argument number ``of``."""
    with ad.enable_grad():
        variable = wanted.requires_grad_()
        pair = (variable, other) if of == 0 else (other, variable)
        output = conv(*pair, None, *rest)
        again = grad.requires_grad or other.requires_grad
        grads: Any = ad.autograd.grad(output, [variable], [grad], create_graph=again)
    result: Tensor = grads[0]
    return result


def _input(n: int) -> Any:
    conv = getattr(F, f"conv{n}d")

    def gradient(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        start = grad_output.new_zeros(tuple(input_size))
        rest = (stride, padding, dilation, groups)
        return _gradient(conv, start, weight, grad_output, rest, 0)

    gradient.__name__ = gradient.__qualname__ = f"conv{n}d_input"
    gradient.__doc__ = f"The gradient of `conv{n}d` with respect to its input."
    return gradient


def _weight(n: int) -> Any:
    conv = getattr(F, f"conv{n}d")

    def gradient(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        start = grad_output.new_zeros(tuple(weight_size))
        rest = (stride, padding, dilation, groups)
        return _gradient(conv, start, input, grad_output, rest, 1)

    gradient.__name__ = gradient.__qualname__ = f"conv{n}d_weight"
    gradient.__doc__ = f"The gradient of `conv{n}d` with respect to its weight."
    return gradient


conv1d_input, conv2d_input, conv3d_input = _input(1), _input(2), _input(3)
conv1d_weight, conv2d_weight, conv3d_weight = _weight(1), _weight(2), _weight(3)
