"""A loop in forward mode that is differentiated in reverse mode before that is over.

So `hessian`, `jvp` of `grad` and products with Hessians do. The gradient has tangents then: it is
computed by a loop backward (_backward_scan.py) over tensors with tangents, whose steps run on parts
as all loops in transforms do (_transformed.py). The node here stands for the values of the results;
their tangents, which nobody differentiates, were found by a loop without gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint._core import Tensor
from adjoint._transforming import differentiated_inside
from adjoint.autograd import Function
from adjoint.autograd.forward_ad import set_fwd_grad_enabled

from ._backward_scan import backward_by_scan
from ._run import LoopRun
from ._transformed import apart, together

__all__ = ["with_history"]


def with_history(
    loop: LoopRun, tensors: list[Tensor], results: list[Tensor]
) -> list[Tensor] | None:
    """Results of a loop on tensors with tangents, with a history.

    Parameters
    ----------
    loop
        Its steps, recorded without tangents.
    tensors
        The carry, the inputs and what is reached.
    results
        What it gives, with tangents and without a history.

    Returns
    -------
    list or None
        None where the loop is something else: a tensor is batched, the step draws random numbers,
        or it is differentiated when forward mode is over.
    """
    values = [apart(t) for t in tensors]
    if any(form[0] for _, form in values) or any(apart(t)[1][0] for t in results):
        return None
    every_part = [p for parts, _ in values for p in parts]
    if not loop.can_be_scanned() or not differentiated_inside(every_part):
        return None
    pieces = [apart(t) for t in results]
    with set_fwd_grad_enabled(False):
        plain = [parts[0] for parts, _ in values]
        found = _Values.apply(lambda: (loop, tensors, [p[0] for p, _ in pieces]), *plain)
    return [
        together(form, iter([value, *parts[1:]]))
        for value, (parts, form) in zip(found, pieces, strict=True)
    ]


class _Values(Function):
    """The values of a loop's results, in the graph."""

    @staticmethod
    def forward(
        ctx: Any, given: Callable[[], tuple[LoopRun, list[Tensor], list[Tensor]]], *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        loop, duals, results = given()
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)  # which tells whether they have changed since
        ctx.loop, ctx.duals = loop, duals
        found = [t.detach() for t in results]
        on = loop.step.have_gradients(ctx.needs_input_grad[1:])
        ctx.mark_non_differentiable(*(t for t, has in zip(found, on, strict=True) if not has))
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        _ = ctx.saved_tensors
        needs = ctx.needs_input_grad[1:]
        with ctx.loop.step_again():
            return (None, *backward_by_scan(ctx.loop, ctx.duals, grads, needs))
