"""Rows of dependencies, and what can be done with them: `NodeContext`, `taken`, `put`, `grouped`.

One row per element of a tensor says which elements of the inputs it depends on: a sparse boolean
matrix. Read next: ``_dependencies.py``, whose rules work on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._core import Node
from adjoint._op_facts import facts_of

Rows = Any  # a scipy.sparse.csr_array of bools: elements of a tensor by elements of the inputs

_MOST = 200_000_000  # entries; a pattern beyond this is no sparse one

__all__ = [
    "NodeContext",
    "Rows",
    "broadcast",
    "broadcasts",
    "empty",
    "everything",
    "grouped",
    "joined",
    "put",
    "sparse",
    "taken",
    "unknown",
]


class NodeContext:
    """One node, with what its rule needs to know."""

    def __init__(self, node: Node, inputs: list[Rows | None], shapes: list[Any], n: int) -> None:
        self.node = node
        self.inputs = inputs  # one per edge; None where nothing depends on the inputs
        self.shapes = shapes  # of the tensors at the edges
        self.n = n  # elements of all inputs
        _, op, outputs, _, self.line, _, _ = _core._node_facts(node)
        self.op: str = op or ""
        self.facts = (
            facts_of(node) or {}
        )  # what the block of the op says; none for custom functions
        self.outputs = [tuple(shape) for shape, _ in outputs]
        self.dtypes = [dtype for _, dtype in outputs]

    @property
    def size(self) -> int:
        """Elements of the first result."""
        return int(np.prod(self.outputs[0], dtype=np.int64))

    def saved(self, name: str) -> Any:
        """An argument of the op, if the node knows it."""
        return getattr(self.node, f"_saved_{name}", None)

    def __str__(self) -> str:
        where = f" (line {self.line[1]} of {self.line[0]})" if self.line else ""
        return f"{self.op or type(self.node).__name__}{where}"


def sparse() -> Any:
    """``scipy.sparse``, loaded when it is needed."""
    from scipy import sparse

    return sparse


def empty(size: int, n: int) -> Rows:
    """Rows of nothing."""
    return sparse().csr_array((size, n), dtype=bool)


def _refuse_dense(entries: int, context: NodeContext) -> None:
    if entries > _MOST:
        raise RuntimeError(
            f"sparsity='detect': after {context} there are {entries:.3g} dependencies, which is "
            "not sparse. fix: give the pattern if it is known to be sparse, or use jacrev or jacfwd"
        )


def taken(rows: Rows, places: Any, context: NodeContext) -> Rows:
    """Row ``places[i]`` as row i; nothing where it is -1."""
    if len(places) == rows.shape[0] and np.array_equal(places, np.arange(len(places))):
        return rows
    there = places >= 0
    _refuse_dense(int(np.diff(rows.indptr)[places[there]].sum()), context)
    if there.all():
        return rows[places]
    start = np.concatenate([[0], np.cumsum(there)])
    picked = places[there]
    ones = np.ones(len(picked), dtype=bool)
    return sparse().csr_array((ones, picked, start), shape=(len(places), rows.shape[0])) @ rows


def put(rows: Rows, places: Any, size: int) -> Rows:
    """All rows i with ``places[i] == k`` together as row k; -1 goes nowhere."""
    there = np.flatnonzero(places >= 0)
    ones = np.ones(len(there), dtype=bool)
    matrix = sparse().csr_array((ones, (places[there], there)), shape=(size, rows.shape[0]))
    return matrix @ rows


def everything(rows: Rows, size: int, context: NodeContext) -> Rows:
    """All of it in each of ``size`` rows."""
    together = put(rows, np.zeros(rows.shape[0], dtype=np.int64), 1)
    return taken(together, np.zeros(size, dtype=np.int64), context)


def joined(parts: Sequence[Rows | None], size: int, n: int) -> Rows:
    """Row by row, what any of the parts has."""
    found = [part for part in parts if part is not None]
    total = found[0] if found else empty(size, n)
    for part in found[1:]:
        total = total + part
    return total


def unknown(context: NodeContext) -> list[Rows]:
    """The rule for what nobody described: every element of a result has everything."""
    found = []
    for shape in context.outputs:
        size = int(np.prod(shape, dtype=np.int64))
        parts = [None if r is None else everything(r, size, context) for r in context.inputs]
        found.append(joined(parts, size, context.n))
    return found


def broadcasts(shape: Any, to: Any) -> bool:
    """Whether a shape can be expanded to another."""
    try:
        return bool(np.broadcast_shapes(shape, to) == to)
    except ValueError:
        return False


def broadcast(shape: Any, to: Any) -> Any:
    """Which element of a tensor stands in each place when it is broadcast."""
    places = np.arange(np.prod(shape, dtype=np.int64)).reshape(shape)
    return np.broadcast_to(places, to).reshape(-1)


def grouped(rows: Rows, given: Any, shape: Any, dims: Any, context: NodeContext) -> Rows | None:
    """What an operand of shape ``given`` has along ``dims``, in each place of a result.

    None if the result is not what remains of the operand, with these axes or without them.
    """
    if not given:
        return None
    axes = {d % len(given) for d in ([dims] if isinstance(dims, int) else dims)}
    kept = tuple(1 if i in axes else s for i, s in enumerate(given))
    count = int(np.prod(kept, dtype=np.int64))
    numbers = np.arange(count).reshape(kept)
    if len(shape) == len(given):
        if not broadcasts(kept, shape):
            return None
        results = np.broadcast_to(numbers, shape)
    elif shape == tuple(s for i, s in enumerate(given) if i not in axes):
        results = numbers
    else:
        return None
    together = put(rows, np.broadcast_to(numbers, given).reshape(-1), count)
    return taken(together, results.reshape(-1), context)
