"""From a function to its gradients as a function, which gradgradcheck then checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint._core import Tensor
from adjoint.autograd._backward import grad

from .problem import as_arguments, as_tuple, named_tensors


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
    """From the random stream, as PyTorch draws them."""
    from adjoint.testing import make_tensor

    return tuple(
        make_tensor(
            output.shape,
            dtype=output.dtype,
            device="cpu",
            low=-1,
            high=1,
            requires_grad=True,
            noncontiguous=non_contiguous,
        )
        for output in outputs
    )
