"""Which elements of a result depend on which elements of the inputs, from the recorded graph.

Every node passes sets of input elements on, oldest first: one row of a sparse boolean matrix per
element of its result. What an op does with the rows is stated in its block, or follows from its
kind (`Depends` in src/dispatch/facts.h), never from the values of its operands, so a zero that
happens to be there hides nothing:

- pointwise: each element of the result has what stands in its place in the operands
- moved: elements are picked (views, indexing, joining) or gathered into others (sums, scatters);
  which goes where is found by sending labels through the node, see `_moved`
- along axes (softmax, sort, norm): everything that shares the element's place on the other axes
- products of matrices: rows and columns; zeros of a constant matrix count as structure
- a few that have a rule of their own (layer norm, scatters that reduce, losses by class; externals
  by the pattern that they were given): ``_dependence_rules.py``
- anything else: every element of the result has everything. Never too little.

Read next: ``_sparse.py``, which asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._core import Node, Tensor
from adjoint._tensor.creation import from_numpy
from adjoint._tensor.typeinfo import finfo
from adjoint.autograd.grad_mode import enable_grad

from ._dependence_rows import (
    NodeContext,
    Rows,
    broadcast,
    broadcasts,
    empty,
    everything,
    grouped,
    joined,
    put,
    sparse,
    taken,
    unknown,
)
from ._dependence_rules import DEPENDENCE_RULES, external_rows

__all__ = ["RULES", "dependencies"]

# --- rules --------------------------------------------------------------------------------------


def _pointwise(context: NodeContext) -> list[Rows]:
    out = context.outputs[0]
    if len(context.outputs) != 1 or any(
        r is not None and not broadcasts(s, out)
        for r, s in zip(context.inputs, context.shapes, strict=True)
    ):
        return unknown(context)
    parts = [
        None if r is None else taken(r, broadcast(s, out), context)
        for r, s in zip(context.inputs, context.shapes, strict=True)
    ]
    return [joined(parts, context.size, context.n)]


def _along(context: NodeContext) -> list[Rows]:
    """Everything that shares the place on the axes that the op does not work along."""
    dims = context.saved("dim")
    if dims is None or dims == () or dims == []:
        return unknown(context)
    found = []
    for shape in context.outputs:
        parts: list[Rows | None] = []
        for r, given in zip(context.inputs, context.shapes, strict=True):
            if r is None:
                continue
            part = grouped(r, tuple(given), shape, dims, context)
            if part is None:
                return unknown(context)
            parts.append(part)
        found.append(joined(parts, int(np.prod(shape, dtype=np.int64)), context.n))
    return found


# Note [Labels]: a moving op is linear, and each element of its result is (a multiple of) one
# element of each operand, or each element of an operand goes into one element of the result. The
# first is read off J l, where l numbers the operand's elements (J 1 are the factors); the second
# off l J. The node gives u J; J v is the derivative of that by u. A vector of random numbers then
# says whether the op really is of this kind: sums of several would not give one of them.
def _moved(context: NodeContext) -> list[Rows]:
    if any(not dtype.is_floating_point for dtype in context.dtypes):
        return unknown(context)
    found = []
    for slot, shape in enumerate(context.outputs):
        size = int(np.prod(shape, dtype=np.int64))
        parts: list[Rows | None] = []
        for edge, r in enumerate(context.inputs):
            if r is None:
                continue
            places = _picked(context, slot, edge)
            if places is not None:
                parts.append(taken(r, places, context))
                continue
            places = _gathered(context, slot, edge)
            if places is not None:
                parts.append(put(r, places, size))
            else:
                parts.append(everything(r, size, context))
        found.append(joined(parts, size, context.n))
    return found


def _pulled(context: NodeContext, slot: int, edge: int, cotangent: Tensor) -> Tensor | None:
    given = [cotangent if k == slot else None for k in range(len(context.outputs))]
    if any(g is None for g in given):
        given = [
            _core.zeros(s, dtype=d) if g is None else g
            for g, s, d in zip(given, context.outputs, context.dtypes, strict=True)
        ]
    results = context.node(*given)
    pulled: Tensor | None = results[edge] if isinstance(results, tuple) else results
    return pulled


def _picked(context: NodeContext, slot: int, edge: int) -> Any:
    """Which element of an operand each element of a result is; -1 for none; None if it is more."""
    from adjoint.autograd import grad

    count = int(np.prod(context.shapes[edge], dtype=np.int64))
    shape, dtype = context.outputs[slot], context.dtypes[slot]
    with enable_grad():
        variable = _core.zeros(shape, dtype=dtype).requires_grad_()
        pulled = _pulled(context, slot, edge, variable)
    if pulled is None or not pulled.requires_grad:
        return np.full(int(np.prod(shape, dtype=np.int64)), -1)
    if not pulled.is_floating_point():
        return None
    linear: Tensor = pulled

    def push(numbers: Any) -> Any:
        tangent = from_numpy(numbers).to(linear.dtype).reshape(linear.shape)
        (pushed,) = grad(linear, variable, tangent, retain_graph=True, allow_unused=True)
        if pushed is None:
            return np.zeros(variable.numel())
        return pushed.detach().to(_core.float64).reshape(-1).numpy(force=True)

    try:
        return _element_origins(push, count, linear.dtype)
    except RuntimeError:  # an op whose gradient cannot be differentiated (embedding)
        return None


def _gathered(context: NodeContext, slot: int, edge: int) -> Any:
    """Into which element of a result each element of an operand goes; None if into several."""
    example = _pulled(
        context, slot, edge, _core.zeros(context.outputs[slot], dtype=context.dtypes[slot])
    )
    if example is not None and not example.is_floating_point():
        return None
    shape, dtype = context.outputs[slot], context.dtypes[slot]
    count = int(np.prod(shape, dtype=np.int64))

    def pull(numbers: Any) -> Any:
        cotangent = from_numpy(numbers).to(dtype).reshape(shape)
        pulled = _pulled(context, slot, edge, cotangent)
        if pulled is None:
            return np.zeros(int(np.prod(context.shapes[edge], dtype=np.int64)))
        return pulled.detach().to(_core.float64).reshape(-1).numpy(force=True)

    return _element_origins(pull, count, dtype)


def _element_origins(apply: Callable[[Any], Any], count: int, dtype: Any) -> Any:
    """For a matrix with at most one entry per row, given by its products: the column; else None."""
    eps = float(finfo(dtype).eps)
    factors = apply(np.ones(count))
    there = factors != 0
    safe = np.where(there, factors, 1.0)
    places = np.zeros(len(factors), dtype=np.int64)
    for scale, digits in _digits(count, eps):
        places += scale * np.rint(apply(digits) / safe).astype(np.int64)
    places -= 1
    if ((places >= count) | (places < -1) | ((places >= 0) != there)).any():
        return None
    random = np.random.default_rng(0).uniform(0.5, 1.5, count)
    wanted = np.where(there, factors * random[places], 0.0) if count else factors
    close = np.abs(apply(random) - wanted) <= 8 * eps * np.abs(factors)
    return places if close.all() else None


def _digits(count: int, eps: float) -> Iterator[tuple[int, Any]]:
    """The numbers 1 ... count in parts that a dtype holds with room to spare."""
    base = 1 << max(int(-np.log2(eps)) - 2, 3)
    labels, scale = np.arange(1, count + 1), 1
    while True:
        yield scale, (labels % base).astype(np.float64)
        labels, scale = labels // base, scale * base
        if not labels.any():
            return


def _product(context: NodeContext) -> list[Rows]:
    """Rows of the left matrix and columns of the right one."""
    product = context.facts["product"]
    first, added = product["first"], product["added"]
    parts = []
    if added >= 0 and context.inputs[added] is not None:
        places = broadcast(context.shapes[added], context.outputs[0])
        parts.append(taken(context.inputs[added], places, context))
    left, right = context.inputs[first : first + 2]
    sizes = _product_sizes(product["form"], left, right, context.outputs[0])
    if sizes is None:
        return unknown(context)
    batch, m, k, n = sizes
    out = np.arange(batch * m * n).reshape(batch, m, n)
    rows_of, columns_of = (out // n).reshape(-1), ((out // (m * n)) * n + out % n).reshape(-1)
    flipped = product["form"] == "transposed"  # the second factor stands so
    if left is not None:
        constant = context.saved(product["factors"][1]) if right is None and batch == 1 else None
        if constant is not None:
            matrix = _pattern_of(constant, (n, k) if flipped else (k, n))
            parts.append(_repeated(matrix if flipped else matrix.T, m, left))
        else:
            places = np.repeat(np.arange(batch * m), k)
            parts.append(taken(put(left, places, batch * m), rows_of, context))
    if right is not None:
        alone = left is None and batch == 1 and not flipped
        constant = context.saved(product["factors"][0]) if alone else None
        if constant is not None:
            matrix = _pattern_of(constant, (m, k))
            if n > 1:
                matrix = sparse().kron(matrix, sparse().eye_array(n, dtype=bool), format="csr")
            parts.append(matrix @ right)
        else:
            element = np.arange(batch * k * n)
            places = element // k if flipped else (element // (k * n)) * n + element % n
            parts.append(taken(put(right, places, batch * n), columns_of, context))
    return [joined(parts, context.size, context.n)]


def _product_sizes(
    form: str, left: Rows | None, right: Rows | None, out: tuple[int, ...]
) -> tuple[int, int, int, int] | None:
    """(batch, m, k, n) of a product [batch, m, k] by [batch, k, n]."""
    if not np.prod(out, dtype=np.int64):
        return None
    if form == "transposed":
        m, n = int(np.prod(out[:-1], dtype=np.int64)), out[-1]
        rows = left.shape[0] if left is not None else None
        k = rows // m if rows is not None and m else right.shape[0] // n if right is not None else 0
        return 1, m, k, n
    vector = form == "matrix vector"
    batch = out[0] if form == "batches" else 1
    m, n = (out[-1], 1) if vector else out[-2:]
    if left is not None and m:
        return batch, m, left.shape[0] // (batch * m), n
    if right is not None and n:
        return batch, m, right.shape[0] // (batch * n), n
    return None


def _pattern_of(constant: Tensor, shape: tuple[int, int]) -> Rows:
    return sparse().csr_array(constant.detach().numpy(force=True).reshape(shape) != 0)


def _repeated(matrix: Rows, m: int, rows: Rows) -> Rows:
    """``matrix`` times each of ``m`` blocks of rows."""
    if m > 1:
        matrix = sparse().kron(sparse().eye_array(m, dtype=bool), matrix, format="csr")
    return sparse().csr_array(matrix) @ rows


def _copied(context: NodeContext) -> list[Rows]:
    """A base with a part of it changed in place: what the op of that change does, in that part."""
    window = _core._window_facts(context.node)
    if window is None or window[4] != context.dtypes[0]:
        return unknown(context)
    shape, strides, at, base_strides, _, inner = window
    places = _window(context.outputs[0], base_strides, shape, strides, at)
    if places is None:
        return unknown(context)
    base = context.inputs[0] if context.inputs[0] is not None else empty(context.size, context.n)
    changed = NodeContext(
        inner,
        [taken(base, places, context), *context.inputs[1:]],
        [tuple(shape), *context.shapes[1:]],
        context.n,
    )
    (news,) = _passed(changed)
    kept = np.arange(context.size)
    kept[places] = -1
    return [taken(base, kept, context) + put(news, places, context.size)]


def _window(base: Any, base_strides: Any, shape: Any, strides: Any, at: int) -> Any:
    """Which element of the base each element of a window is."""

    def memory(sizes: Any, steps: Any) -> Any:
        total = np.zeros(sizes, dtype=np.int64)
        for axis, (size, context) in enumerate(zip(sizes, steps, strict=True)):
            total += (np.arange(size) * context).reshape([-1] + [1] * (len(sizes) - axis - 1))
        return total.reshape(-1)

    held, wanted = memory(base, base_strides), at + memory(shape, strides)
    order = np.argsort(held, kind="stable")
    found = np.minimum(np.searchsorted(held[order], wanted), max(len(held) - 1, 0))
    places = order[found]
    return places if np.array_equal(held[places], wanted) else None


RULES: dict[str, Callable[[NodeContext], list[Rows]]] = {
    "everything": unknown,
    "pointwise": _pointwise,
    "moved": _moved,
    "along": _along,
    "product": _product,
    "scattered": lambda context: (
        _moved(context) if context.saved("reduce") is None else unknown(context)
    ),
}


def _passed(context: NodeContext) -> list[Rows]:
    """The rows of each result of a node."""
    if _core._window_facts(context.node) is not None:
        return _copied(context)
    kind = context.facts.get("depends")
    if kind in RULES:
        return RULES[kind](context)
    # Of an op that has its own, or of a custom function; None: it does not know.
    found = external_rows(context) if kind is None else DEPENDENCE_RULES[kind](context)
    return unknown(context) if found is None else found


# --- the graph ----------------------------------------------------------------------------------


def _oldest_first(roots: Sequence[Node]) -> list[Node]:
    """All nodes behind ``roots``, each after those it points to."""
    order: list[Node] = []
    state: dict[Node, bool] = {}  # False: being looked at, True: done
    stack = list(roots)
    while stack:
        node = stack[-1]
        if node in state:
            stack.pop()
            if not state[node]:
                state[node] = True
                order.append(node)
            continue
        state[node] = False
        stack += [
            child for child, _ in node.next_functions if child is not None and child not in state
        ]
    return order


def dependencies(outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Rows:
    """A boolean matrix: elements of all ``outputs`` by elements of all ``inputs`` (leaves)."""
    from adjoint.autograd.graph import get_gradient_edge

    n = sum(x.numel() for x in inputs)
    edges: list[tuple[Node | None, int]] = [
        get_gradient_edge(y)[:2] if y.requires_grad else (None, 0) for y in outputs
    ]
    known: dict[Node, list[Rows | None]] = {}
    start = 0
    for x in inputs:
        own = sparse().eye_array(x.numel(), n, k=start, dtype=bool, format="csr")
        known[get_gradient_edge(x)[0]] = [own]
        start += x.numel()
    order = _oldest_first([node for node, _ in edges if node is not None])
    uses: dict[Node, int] = {}
    for node in order:
        for child, _ in node.next_functions:
            if child is not None:
                uses[child] = uses.get(child, 0) + 1
    for root, _ in edges:
        if root is not None:
            uses[root] = uses.get(root, 0) + 1
    for node in order:
        if node not in known:
            known[node] = _of_node(node, known, n)
        for child, _ in node.next_functions:
            if child is not None:
                uses[child] -= 1
                if not uses[child]:
                    known[child] = []  # nobody asks again
    parts = []
    for (root, slot), y in zip(edges, outputs, strict=True):
        rows = known[root][slot] if root is not None else None
        parts.append(empty(y.numel(), n) if rows is None else rows)
    matrix = sparse().vstack(parts, format="csr") if parts else empty(0, n)
    matrix.sum_duplicates()
    return matrix


def _of_node(node: Node, known: dict[Node, list[Rows | None]], n: int) -> list[Rows | None]:
    inputs: list[Rows | None] = []
    shapes = []
    for child, slot in node.next_functions:
        inputs.append(None if child is None or not known[child] else known[child][slot])
        shapes.append(() if child is None else _shape_at(child, slot))
    if all(r is None for r in inputs):
        return [None] * max(len(_core._node_facts(node)[2]), 1)
    return list(_passed(NodeContext(node, inputs, shapes, n)))


def _shape_at(node: Node, slot: int) -> tuple[int, ...]:
    return tuple(_core._node_facts(node)[2][slot][0])
