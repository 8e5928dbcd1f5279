"""A solution of a sparse system as a node of the graph, however it was found.

Its derivatives are solutions with the same matrix or its adjoint, found in the same way, so they
are nodes of this kind again: that makes derivatives of every order, forward mode and `vmap`. Inside
programs the solver is a host call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._recording import placeholder_pass
from adjoint.autograd.function import Function
from adjoint.sparse._matrix import product
from adjoint.sparse._places import Places

__all__ = ["Solution", "entries_of_product", "run_on_host"]

# how(places, values, b, adjoint): op(A)⁻¹ b for the columns of b, without history.
How = Callable[[Places, Tensor, Tensor, bool], Tensor]


def run_on_host(
    run: Callable[[Sequence[Tensor]], list[Tensor]],
    operands: Sequence[Tensor],
    also_read: Sequence[Tensor],
    like: Sequence[Tensor],
) -> list[Tensor]:
    """``run(operands)``, which programs repeat.

    ``also_read`` are tensors that a derivative rule reads: a loop has to know of them beforehand.
    ``like`` are of the form of the results, for a pass of placeholders.
    """
    # Derivatives are the caller's: a tangent that goes along would be a tensor nobody knows of.
    operands = [t.detach() for t in operands]
    if not _core._is_recording():
        return run(operands)
    count = len(operands)
    given = ([*like],) if placeholder_pass.get() else ()
    made: list[Tensor] = _core._host_call(
        lambda tensors: run(tensors[:count]), [*operands, *also_read], *given
    )
    return made


class Solution(Function):
    """A solution, whose derivatives are solutions."""

    @staticmethod
    def forward(
        ctx: Any, how: How, places: Places, adjoint: bool, values: Tensor, b: Tensor
    ) -> Tensor:
        (x,) = run_on_host(
            lambda given: [how(places, given[0], given[1], adjoint)],
            [values, b],
            [places.rows, places.columns],
            [b],
        )
        ctx.how, ctx.places, ctx.adjoint = how, places, adjoint
        ctx.save_for_backward(values, x)
        if _core._current_dual_level() >= 0:  # elsewhere the result would be held in a cycle
            ctx.save_for_forward(values, x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        values, x = ctx.saved_tensors
        places, adjoint = ctx.places, ctx.adjoint
        u = Solution.apply(ctx.how, places, not adjoint, values, g)
        by_values = None
        if ctx.needs_input_grad[3]:
            left, right = (x, u) if adjoint else (u, x)
            by_values = -entries_of_product(places, left, right)
        return None, None, None, by_values, u

    @staticmethod
    def jvp(
        ctx: Any, _: Any, __: Any, ___: Any, dvalues: Tensor | None, db: Tensor | None
    ) -> Tensor:
        values, x = ctx.saved_tensors
        places, moved = ctx.places, db
        if dvalues is not None:
            if ctx.adjoint:
                turned, order = places.transposed
                pull = product(turned, dvalues[order].conj_physical(), x)
            else:
                pull = product(places, dvalues, x)
            moved = -pull if moved is None else moved - pull
        found: Tensor = Solution.apply(ctx.how, places, ctx.adjoint, values, moved)
        return found

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, how: How, places: Places, adjoint: bool, values: Tensor, b: Tensor
    ) -> Any:
        of_values, of_b = in_dims[3:]
        if of_values is None:  # samples are columns
            rows = b.movedim(of_b, 1)
            n, size, columns = rows.shape
            x = Solution.apply(how, places, adjoint, values, rows.reshape(n, size * columns))
            return x.reshape(n, size, columns), 1
        each = []
        for k in range(info.batch_size):
            right = b if of_b is None else b.select(of_b, k)
            each.append(Solution.apply(how, places, adjoint, values.select(of_values, k), right))
        return _core.stack(each), 0


def entries_of_product(places: Places, p: Tensor, q: Tensor) -> Tensor:
    """The elements of ``p qᴴ`` that are entries."""
    left, right = p.index_select(0, places.rows), q.index_select(0, places.columns)
    if right.is_complex():
        right = right.conj_physical()
    return (left * right).sum(-1)
