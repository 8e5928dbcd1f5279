"""Which memory a graph lets go of while its nodes run."""

from __future__ import annotations

from collections import Counter

from adjoint import _core
from adjoint.graph._view import Graph, GraphNode


class Memory:
    """The blocks that nodes keep: a block is let go of by the last node that keeps it.

    Blocks that leaves live in stay, and are not counted. Others may still be held by the program.
    """

    def __init__(self, graph: Graph) -> None:
        self._leaves = {_core._storage(leaf.node.variable)[0] for leaf in graph.leaves}
        self._holders = Counter(start for n in graph.nodes for start, _, _ in n.held)

    def release(self, node: GraphNode) -> int:
        """The bytes that go with this node."""
        freed = 0
        for start, whole, _ in node.held:
            self._holders[start] -= 1
            if not self._holders[start] and start not in self._leaves:
                freed += whole
        return freed
