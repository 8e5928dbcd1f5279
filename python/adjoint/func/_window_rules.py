"""Rules of dependence of convolutions and pooling, by what their blocks say (`Depends`).

A convolution is a sum of products of an element of the input, one of the weight and one of the
result; the three ops differ in which of these they give. Read first: ``_dependence_rows.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._dependence_rows import NodeContext, Rows, joined, sparse

__all__ = ["WINDOW_RULES"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]


def _meeting(
    x: Sequence[int], w: Sequence[int], y: Sequence[int], stride: Any, padding: Any, dilation: Any
) -> tuple[Array, Array, Array]:
    """Flat places (in x, w, y) of all products of one channel, given their spatial sizes."""
    grid = np.indices((*y, *w)).reshape(2 * len(y), -1)
    out, tap = grid[: len(y)], grid[len(y) :]
    place = [
        q * s - p + t * d for q, t, s, p, d in zip(out, tap, stride, padding, dilation, strict=True)
    ]
    inside = np.logical_and.reduce([(i >= 0) & (i < n) for i, n in zip(place, x, strict=True)])
    at = [np.ravel_multi_index([a[inside] for a in p], n) for p, n in ((place, x), (tap, w))]
    return at[0], at[1], np.ravel_multi_index([q[inside] for q in out], y)


def _products(x: Shape, w: Shape, y: Shape, context: NodeContext) -> dict[str, Array]:
    """The same over samples, groups and channels: flat places in the whole tensors."""
    groups = context.saved("groups")
    spacing = [context.saved(name) for name in ("stride", "padding", "dilation")]
    places = _meeting(x[2:], w[2:], y[2:], *spacing)
    n, g, o, i = np.indices((x[0], groups, w[0] // groups, w[1])).reshape(4, -1, 1)
    size = [int(np.prod(s[2:], dtype=np.int64)) for s in (x, w, y)]
    return {
        "x": (((n * groups + g) * w[1] + i) * size[0] + places[0]).reshape(-1),
        "w": (((g * (w[0] // groups) + o) * w[1] + i) * size[1] + places[1]).reshape(-1),
        "y": (((n * groups + g) * (w[0] // groups) + o) * size[2] + places[2]).reshape(-1),
    }


def _shape_of(context: NodeContext, edge: int, name: str) -> Shape | None:
    if context.inputs[edge] is not None:
        return tuple(context.shapes[edge])
    saved = context.saved(name)
    return None if saved is None else tuple(saved.shape)


def _convolution(names: str) -> Callable[[NodeContext], list[Rows] | None]:
    """``names``: what the two operands and the result are, such as "xwy"."""

    def rule(context: NodeContext) -> list[Rows] | None:
        arguments = {"xwy": ("input", "weight"), "ywx": ("g", "weight"), "yxw": ("g", "input")}
        shapes: dict[str, Any] = {names[2]: tuple(context.outputs[0])}
        for edge in (0, 1):
            shapes[names[edge]] = _shape_of(context, edge, arguments[names][edge])
        if None in shapes.values() or not context.size:
            return None
        found = _products(shapes["x"], shapes["w"], shapes["y"], context)
        parts = []
        for edge in (0, 1):
            rows = context.inputs[edge]
            if rows is not None:
                pairs = np.ones(found["x"].size, bool), (found[names[2]], found[names[edge]])
                matrix = sparse().csr_array(pairs, shape=(context.size, rows.shape[0]))
                parts.append(matrix @ rows)
        if len(context.inputs) > 2 and context.inputs[2] is not None:  # the bias, one for a channel
            channels = context.outputs[0][1]
            each = int(np.prod(context.outputs[0][2:], dtype=np.int64))
            parts.append(context.inputs[2][np.arange(context.size) // each % channels])
        return [joined(parts, context.size, context.n)]

    return rule


def _pooled(context: NodeContext, places: list[Array], axes: int) -> list[Rows] | None:
    """Each element of the smaller side has its window of the larger one, or the other way round.

    ``places``: by axis, which element of the larger side (columns) is in which window (rows).
    """
    rows, back = context.inputs[0], context.saved("size") is not None
    if rows is None:
        return None
    together = sparse().csr_array(np.ones((1, 1), bool))
    for incidence in places:
        together = sparse().kron(together, sparse().csr_array(incidence), format="csr")
    lead = int(np.prod(context.outputs[0][:-axes], dtype=np.int64))
    matrix = sparse().kron(sparse().eye_array(lead, dtype=bool), together, format="csr")
    found = sparse().csr_array(matrix.T if back else matrix) @ rows
    return [found] * len(context.outputs)


def _sides(context: NodeContext, axes: int) -> tuple[Shape, Shape]:
    """Sizes of the input of the pooling and of its result."""
    one, other = tuple(context.shapes[0])[-axes:], tuple(context.outputs[0])[-axes:]
    return (other, one) if context.saved("size") is not None else (one, other)


def _windows(context: NodeContext) -> list[Rows] | None:
    kernel, stride = context.saved("kernel_size"), context.saved("stride")
    if context.inputs[0] is None:
        return None
    padding, holes = context.saved("padding"), context.saved("dilation") or (1,) * len(kernel)
    inner, outer = _sides(context, len(kernel))
    places = []
    for n, m, k, s, p, d in zip(inner, outer, kernel, stride, padding, holes, strict=True):
        element = np.arange(m)[:, None, None] * s - p + np.arange(k)[:, None] * d
        places.append((element == np.arange(n)).any(axis=1))
    return _pooled(context, places, len(kernel))


def _adaptive_windows(context: NodeContext) -> list[Rows] | None:
    size = context.saved("size") or context.saved("output_size")
    if size is None or context.inputs[0] is None:
        return None
    places = []
    for n, m in zip(*_sides(context, len(size)), strict=True):
        q, element = np.arange(m)[:, None], np.arange(n)
        places.append((element >= q * n // m) & (element < -(-(q + 1) * n // m)))
    return _pooled(context, places, len(size))


def _by_kind(names: str) -> Callable[[NodeContext], list[Rows] | None]:
    """A pooling is a convolution without weights: what the node has kept tells them apart."""
    convolution = _convolution(names)

    def rule(context: NodeContext) -> list[Rows] | None:
        if context.saved("groups") is not None:
            return convolution(context)
        return (_windows if context.saved("kernel_size") is not None else _adaptive_windows)(
            context
        )

    return rule


WINDOW_RULES: dict[str, Callable[[NodeContext], list[Rows] | None]] = {
    "window products": _by_kind("xwy"),
    "window products, input": _by_kind("ywx"),
    "window products, weight": _convolution("yxw"),
}
