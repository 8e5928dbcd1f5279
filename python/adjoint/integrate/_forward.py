"""Forward sensitivities: the tangents of all inputs go along with the steps.

The derivative is that of the steps, as of the discrete adjoint. It is computed with the solution,
as a matrix; the backward pass is a product with it, and nothing of the steps is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint.autograd import Function
from adjoint.autograd._backward import gradients
from adjoint.func import jacfwd

__all__ = ["by_tangents"]

Solution = Callable[..., Tensor]


class _Tangents(Function):
    @staticmethod
    def forward(solution: Solution, *tensors: Tensor) -> tuple[Tensor, Tensor]:
        given = [t.detach() for t in tensors]
        sizes = [t.numel() for t in given]

        def flat(x: Tensor) -> Tensor:
            parts = x.split(sizes)
            return solution(
                # Copies: a recorded step does not take views of what lies outside of it.
                *(p.reshape(t.shape).clone() for p, t in zip(parts, given, strict=True))
            )

        x = ad.cat([t.flatten() for t in given])
        return flat(x), jacfwd(flat)(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.solution, *tensors = inputs
        ctx.save_for_backward(output[1], *tensors)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, g: Tensor, _: Any) -> Any:
        matrix, *tensors = ctx.saved_tensors
        if ad.is_grad_enabled():
            with ad.enable_grad():
                states = ctx.solution(*tensors)
            found = gradients((states,), (g,), True, True, tuple(tensors), True, end_at_inputs=True)
            return None, *found
        row = g.flatten() @ matrix.reshape(g.numel(), -1)
        parts = row.split([t.numel() for t in tensors])
        return None, *(p.reshape(t.shape) for p, t in zip(parts, tensors, strict=True))


def by_tangents(solution: Solution, tensors: list[Tensor]) -> Tensor:
    """What a function makes of tensors, with a derivative that is computed along with it."""
    states: Tensor = _Tangents.apply(solution, *tensors)[0]
    return states
