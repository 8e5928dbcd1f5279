"""Rules of dependence that few ops share: `DEPENDENCE_RULES`, by what their blocks say (`Depends`).

Each returns the rows of the results, or None where it does not know. Read first:
``_dependence_rows.py``; ``_dependencies.py`` has the common kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ._dependence_rows import (
    NodeContext,
    Rows,
    broadcast,
    broadcasts,
    everything,
    grouped,
    joined,
    put,
    sparse,
    taken,
    unknown,
)
from ._window_rules import WINDOW_RULES

__all__ = ["DEPENDENCE_RULES", "external_rows"]


def _summed(context: NodeContext, parts: Sequence[Rows | None], shape: Any) -> Rows:
    return joined(parts, int(np.prod(shape, dtype=np.int64)), context.n)


def _along_or_all(context: NodeContext, edge: int, shape: Any, axes: Any) -> Rows | None:
    """What one operand gives to a result of its own shape, or without its axes; else everything."""
    rows = context.inputs[edge]
    if rows is None:
        return None
    given = tuple(context.shapes[edge])
    found = grouped(rows, given, shape, axes, context) if len(given) >= len(shape) else None
    return found if found is not None else everything(rows, int(np.prod(shape)), context)


def _layer_norm(context: NodeContext) -> list[Rows] | None:
    out, last = context.outputs[0], context.saved("normalized_shape")
    if last is None or tuple(context.shapes[0]) not in ((), out):  # () where nothing depends on it
        return None
    parts = [_along_or_all(context, 0, out, range(-len(last), 0))]
    for r, shape in zip(context.inputs[1:], context.shapes[1:], strict=True):  # weight and bias
        if r is not None:
            parts.append(taken(r, broadcast(shape, out), context))
    return [_summed(context, parts, out)]


def _layer_norm_backward(context: NodeContext) -> list[Rows] | None:
    """The gradient of the input goes by rows; those of weight and bias have everything."""
    last = context.saved("normalized_shape")
    if last is None:
        return None
    axes = range(-len(last), 0)
    full = tuple(context.shapes[1]) or tuple(context.shapes[0])
    found = []
    for out in context.outputs:
        parts = []
        for edge, r in enumerate(context.inputs):
            if r is None:
                continue
            if out == full and tuple(context.shapes[edge]) == full:
                parts.append(_along_or_all(context, edge, out, axes))
            else:
                parts.append(everything(r, int(np.prod(out, dtype=np.int64)), context))
        found.append(_summed(context, parts, out))
    return found


def _class_axis(shape: Any) -> int:
    return 1 if len(shape) > 1 else 0


def _cross_entropy(context: NodeContext) -> list[Rows] | None:
    """Each sample's loss by its own row, where they are not summed."""
    given, out = tuple(context.shapes[0]), context.outputs[0]
    if context.saved("reduction") != "none" or not given:
        return None
    axis = _class_axis(given)
    if out != given[:axis] + given[axis + 1 :] or any(r is not None for r in context.inputs[1:]):
        return None
    return [_summed(context, [_along_or_all(context, 0, out, axis)], out)]


def _cross_entropy_backward(context: NodeContext) -> list[Rows] | None:
    out = context.outputs[0]
    if not out or any(r is not None for r in context.inputs[2:]):
        return None
    axis = _class_axis(out)
    parts = [_along_or_all(context, 1, out, axis)]
    if context.inputs[0] is not None:  # one cotangent per sample, or one for all
        shape = tuple(context.shapes[0])
        spread = (*shape[:axis], 1, *shape[axis:]) if shape else shape
        if not broadcasts(spread, out):
            return None
        parts.append(taken(context.inputs[0], broadcast(spread, out), context))
    return [_summed(context, parts, out)]


def _reduced(context: NodeContext, targets: Callable[[Any, Any, Any, int], Any]) -> list[Rows]:
    """What stands in a place, and all that is brought there by an index."""
    out, index, dim = context.outputs[0], context.saved("index"), context.saved("dim")
    brought = context.inputs[2] if len(context.inputs) > 2 else None
    parts = [context.inputs[0]]
    if brought is not None:
        places = None
        if index is not None and out:
            source = tuple(context.shapes[2])
            places = targets(index.detach().numpy(), source, out, dim % len(out))
        if places is None:
            return unknown(context)
        parts.append(put(brought, places.reshape(-1), context.size))
    return [_summed(context, parts, out)]


def _scatter_targets(index: Any, source: Any, out: Any, dim: int) -> Any:
    if index.ndim != len(out) or len(source) != len(out):
        return None
    at = list(np.indices(index.shape))
    at[dim] = index
    places = np.full(source, -1)  # what the index does not reach goes nowhere
    places[tuple(slice(s) for s in index.shape)] = np.ravel_multi_index(at, out)
    return places


def _index_targets(index: Any, source: Any, out: Any, dim: int) -> Any:
    if len(source) != len(out) or index.size != source[dim]:
        return None
    at = list(np.indices(source))
    at[dim] = index.reshape(-1)[at[dim]]
    return np.ravel_multi_index(at, out)


def _view_as_real(context: NodeContext) -> list[Rows] | None:
    rows = context.inputs[0]
    return None if rows is None else [taken(rows, np.arange(context.size) // 2, context)]


def _view_as_complex(context: NodeContext) -> list[Rows] | None:
    rows = context.inputs[0]
    return None if rows is None else [put(rows, np.arange(2 * context.size) // 2, context.size)]


def _cdist(context: NodeContext) -> list[Rows] | None:
    """Each distance by its two points."""
    out = context.outputs[0]
    parts = []
    for at, r in enumerate(context.inputs[:2]):
        if r is None:
            continue
        given = tuple(context.shapes[at])
        points = (*given[:-1], 1) if at == 0 else (*given[:-2], 1, given[-2])
        count = int(np.prod(given[:-1], dtype=np.int64))
        if not given[-1] or not broadcasts(points, out):
            return None
        together = put(r, np.arange(r.shape[0]) // given[-1], count)
        parts.append(taken(together, broadcast(points, out), context))
    return [_summed(context, parts, out)]


def _matrices(context: NodeContext) -> list[Rows] | None:
    """Each matrix (or vector, or number) of a result by the matrices in its place of the batch."""
    known = [tuple(s) for r, s in zip(context.inputs, context.shapes, strict=True) if r is not None]
    batch = max(len(s) for s in known) - 2
    if batch <= 0 or any(not 0 <= len(out) - batch <= 2 for out in context.outputs):
        return None
    found = []
    for out in context.outputs:
        leading, inner = out[:batch], int(np.prod(out[batch:], dtype=np.int64))
        parts: list[Rows | None] = []
        for r, given in zip(context.inputs, context.shapes, strict=True):
            if r is None:
                continue
            own = tuple(given)[:-2]
            # A shape that may also be one vector per matrix is not told apart.
            doubtful = len(given) == batch + 1 and tuple(given)[:-1] == leading
            if len(given) < 2 or doubtful or not broadcasts(own, leading):
                parts.append(everything(r, int(np.prod(out, dtype=np.int64)), context))
                continue
            count = int(np.prod(own, dtype=np.int64))
            each = r.shape[0] // max(count, 1)
            together = put(r, np.arange(r.shape[0]) // max(each, 1), count)
            parts.append(taken(together, np.repeat(broadcast(own, leading), inner), context))
        found.append(_summed(context, parts, out))
    return found


def external_rows(context: NodeContext) -> list[Rows] | None:
    """An external whose pattern is known, and its first derivatives.

    By `sparsity=` or `elementwise=True`, or from a `jacobian=` that is sparse.
    """
    from adjoint.external._call import Call
    from adjoint.external._derivatives import Derivatives

    node: Any = context.node  # of a custom function, which keeps what it likes
    call, maps = getattr(node, "call", None), getattr(node, "maps", None)
    if isinstance(maps, Derivatives):
        return _derivative_rows(context, maps, node.kind)
    if not isinstance(call, Call):
        return None
    plan = call.definition.plan
    if plan.elementwise:
        return _external_elementwise(context)
    count = len(context.inputs)
    if plan.sparsity is not None:
        matrix = sparse().csr_array(plan.sparsity) != 0
        return _by_matrices(context, [matrix])
    if call.definition.given.jacobian is None:
        return None
    known = call.derivatives(node.saved_tensors, [True] * count).structure()
    return None if known is None else _by_matrices(context, [_boolean(known)])


def _derivative_rows(context: NodeContext, maps: Any, kind: str) -> list[Rows] | None:
    """J'u and Jv: of the vector by the pattern, of x by what shares an output with it."""
    known = maps.structure()
    if known is None:
        return None
    matrix = _boolean(known)
    if kind == "pull":
        return _by_matrices(context, [(matrix.T @ matrix) != 0, matrix.T.tocsr()])
    return _by_matrices(context, [matrix, matrix])


def _boolean(known: Any) -> Any:
    rows, columns, shape = known
    return sparse().csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)


def _by_matrices(context: NodeContext, matrices: list[Any]) -> list[Rows] | None:
    """The rows of the results, from matrices of result by operand elements, side by side."""
    matrix = sparse().hstack(matrices, format="csr") if len(matrices) > 1 else matrices[0]
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in context.outputs]
    node: Any = context.node
    operands = node.saved_tensors[: len(context.inputs)]
    starts = np.cumsum([0, *(t.numel() for t in operands)])
    if matrix.shape != (sum(sizes), starts[-1]):
        return None  # complex numbers, or outputs without derivative
    columns = [matrix[:, a:b] for a, b in pairwise(starts)]
    parts = [None if r is None else c @ r for c, r in zip(columns, context.inputs, strict=True)]
    rows = joined(parts, sum(sizes), context.n)
    return [rows[a:b] for a, b in pairwise(np.cumsum([0, *sizes]))]


def _external_elementwise(context: NodeContext) -> list[Rows] | None:
    known = [s for r, s in zip(context.inputs, context.shapes, strict=True) if r is not None]
    if not all(broadcasts(tuple(s), out) for s in known for out in context.outputs):
        return None
    return [
        _summed(
            context,
            [
                None if r is None else taken(r, broadcast(s, out), context)
                for r, s in zip(context.inputs, context.shapes, strict=True)
            ],
            out,
        )
        for out in context.outputs
    ]


DEPENDENCE_RULES: dict[str, Callable[[NodeContext], list[Rows] | None]] = {
    "normalized rows": _layer_norm,
    "normalized rows backward": _layer_norm_backward,
    "class rows": _cross_entropy,
    "class rows backward": _cross_entropy_backward,
    "scatter reduced": lambda context: _reduced(context, _scatter_targets),
    "index reduced": lambda context: _reduced(context, _index_targets),
    "pair split": _view_as_real,
    "pair joined": _view_as_complex,
    "distances": _cdist,
    **WINDOW_RULES,
    "matrices": _matrices,
}
