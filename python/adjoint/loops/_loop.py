"""A loop of a recorded step as one node of the graph.

The node is a custom function: `_run` has the steps, `_kept` what is kept of them for the backward
pass. Derivatives of derivatives go by way of the plain loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd import Function, enable_grad
from adjoint.autograd import grad as gradients
from adjoint.compiler._recorded import Refused

from ._carry import in_order
from ._kept import Kept
from ._run import ENDLESS, Gradients, LoopRun
from ._states import State
from ._step import tell

__all__ = ["run_loop"]


def run_loop(loop: LoopRun, carry: list[Tensor], xs: list[Tensor]) -> list[Tensor]:
    """The carry after all steps, and the stacked outputs."""
    tensors = [*carry, *xs, *loop.step.reached]
    needs = _core.is_grad_enabled() and any(t.requires_grad for t in tensors)
    # As a function: what can be called is not searched for tensors.
    found: tuple[Tensor, ...] = Loop.apply(lambda: loop, needs, *tensors)
    return list(found)


class Loop(Function):
    """A loop in the graph."""

    @staticmethod
    def forward(
        ctx: Any, the_loop: Callable[[], LoopRun], needs: bool, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        loop = the_loop()
        carries, reached = loop.carries, len(loop.step.reached)
        carry = list(tensors[:carries])
        xs = list(tensors[carries : len(tensors) - reached])
        rows = loop.step.form[1] if loop.has_length else []
        ys = [_stack_for(loop, k) for k in rows]
        kept = Kept(loop) if needs else None
        ctx.start = loop.state([])
        if kept is not None:
            found = kept.forward(carry, xs, ys) if loop.has_length else kept.forward_until(carry)
        elif loop.has_length:
            found = loop.advance(carry, xs, ys, 0, loop.count)
        else:
            found, _, _ = loop.until(carry, [None], 0, ENDLESS)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors)
        ctx.loop, ctx.kept = loop, kept
        results = [*(t.detach() for t in found), *ys]
        ctx.mark_non_differentiable(
            *(
                t
                for t, k in zip(results, [*loop.step.form[0], *rows], strict=True)
                if not loop.step.output_is_differentiable(k)
            )
        )
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
        tensors = list(ctx.saved_tensors)
        loop, carries = ctx.loop, ctx.loop.carries
        reached = len(loop.step.reached)
        rows = len(tensors) - reached - carries
        needs = ctx.needs_input_grad[2:]
        if _core.is_grad_enabled() or _core._is_unusual_mode():
            return (None, None, *_by_plain_loop(loop, ctx.start, tensors, rows, grads, needs))
        xs = tensors[carries : carries + rows]
        x_grads = [_core.zeros_like(x) if needs[carries + k] else None for k, x in enumerate(xs)]
        ys = [None if t is None else in_order(t) for t in grads[carries:]]
        if not loop.has_length:
            ys = [None]  # the condition has none
        g = Gradients(list(grads[:carries]), ys, x_grads, reached)
        try:
            ctx.kept.backward(g, xs)
        except Refused as refused:  # the recording is too old for these gradients: see _step.py
            tell("the backward pass of a loop", refused)
            return (None, None, *_by_plain_loop(loop, ctx.start, tensors, rows, grads, needs))
        found = (t if on else None for t, on in zip(g.found(), needs, strict=True))
        return (None, None, *found)


def _stack_for(loop: LoopRun, source: int) -> Tensor:
    """Room for all rows of an output."""
    step = loop.step
    like = step.results[source] if source >= 0 else [*step.tensors, *step.reached][~source]
    return _core.empty((loop.count, *like.shape), dtype=like.dtype)


def _by_plain_loop(
    loop: LoopRun,
    start: State,
    tensors: list[Tensor],
    rows: int,
    grads: tuple[Any, ...],
    needs: tuple[bool, ...],
) -> list[Any]:
    """Gradients with a graph of their own."""
    made, graph = loop.step.made, _core.is_grad_enabled()
    if not made.hold(loop.step.tensors):
        raise RuntimeError(
            "the gradient of a loop is taken in a way that runs its step as Python again "
            "(create_graph, a transform, gradients of other results than before), and what the "
            f"step depends on has changed since: {made.guards.failed()}.\n"
            "  fix: change it after the backward pass, or pass it as a part of the carry"
        )
    now = loop.state([])
    loop.go_back_to(start)  # to the random numbers of the call
    try:
        with enable_grad():
            results = loop.again(tensors, loop.carries, rows)
    finally:
        loop.go_back_to(now)
    asked = [(t, g) for t, g in zip(results, grads, strict=True) if g is not None]
    wanted = [k for k, on in enumerate(needs) if on]
    found = gradients(
        [t for t, _ in asked],
        [tensors[k] for k in wanted],
        [g for _, g in asked],
        create_graph=graph,
        allow_unused=True,
    )
    result: list[Any] = [None] * len(tensors)
    for k, g in zip(wanted, found, strict=True):
        result[k] = g
    return result
