"""From a function to its gradients as a function, which gradgradcheck then checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd._backward import grad

from .problem import as_arguments, as_tuple, coordinates, named_tensors, to_tensor
from .projection import OUTPUT_SEED, draw


def gradient_function(
    func: Callable[..., Any],
    arguments: tuple[Any, ...],
    grad_outputs: Any,
    non_contiguous: bool,
) -> tuple[Callable[..., tuple[Tensor, ...]], tuple[Any, ...]]:
    """The gradients of ``func`` as a function of its arguments and its outputs' weights."""
    if grad_outputs is None:
        outputs = _differentiable(func(*arguments))
        weights = _draw_weights(outputs, non_contiguous)
    else:
        weights = as_arguments(grad_outputs)
    count = len(weights)
    wanted = [item.tensor.requires_grad for item in named_tensors(arguments)]

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        inner, given = args[: len(args) - count], args[len(args) - count :]
        inputs = [item.tensor for item, w in zip(named_tensors(inner), wanted, strict=True) if w]
        for tensor in inputs:
            if not tensor.requires_grad:  # a dual tensor of forward mode, made for this call
                tensor.requires_grad_(True)
        outputs = _differentiable(func(*inner))
        results = grad(outputs, inputs, given, create_graph=True, allow_unused=True)
        return tuple(result for result in results if result is not None)

    return gradients, weights


def _differentiable(result: Any) -> list[Tensor]:
    return [item.tensor for item in named_tensors(as_tuple(result)) if item.tensor.requires_grad]


def _draw_weights(outputs: Sequence[Tensor], non_contiguous: bool) -> tuple[Tensor, ...]:
    weights = []
    for k, output in enumerate(outputs):
        weight = to_tensor(draw(coordinates(output), OUTPUT_SEED + 31 * k), output.detach())
        if non_contiguous and weight.numel() > 1:
            weight = _core.stack([weight, _core.full_like(weight, np.nan)], -1)[..., 0]
        weights.append(weight.detach().requires_grad_(True))
    return tuple(weights)
