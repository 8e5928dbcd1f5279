"""What the block of an op says of it: the row of `op_table()` that belongs to a node.

No table of names stands in Python: what is true of an op is stated in its block, or follows from
its kind (src/dispatch/facts.h).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from adjoint import _core
from adjoint._core import Node

__all__ = ["facts_of"]


@cache
def _rows() -> dict[str, dict[str, Any]]:
    return {row["full_name"]: row for row in _core.op_table()}


def facts_of(node: Node) -> dict[str, Any] | None:
    """What its block says of the op that made a node; None if no op did."""
    name = _core._node_op(node)
    return None if name is None else _rows()[name]
