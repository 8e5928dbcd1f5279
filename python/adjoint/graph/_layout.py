"""How a graph becomes a tree: which rows stand below which.

A graph is laid out in spines: columns of rows in which every row is an input of the row above it.
An op with several inputs continues its spine with the one behind which most of the graph lies; the
others hang beside it as spines of their own. A node that several others use stands below the last
of them; the others refer to it. So a loop, whatever its body, becomes one long spine whose rows
repeat, which `_fold` then finds.

Behind which input most of the graph lies is read off the dominator tree: the nodes that are reached
through it only. All of it takes O(n log n) steps and no recursion.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ._view import Graph, GraphNode

_VOTERS = 100_000  # nodes that elect: steps of a loop are alike


@dataclass(slots=True)
class Row:
    """A node, and what hangs beside it."""

    node: GraphNode
    leaves: Sequence[GraphNode] = ()
    later: Sequence[GraphNode] = ()  # stand further down
    branches: Sequence[Spine] = ()


@dataclass(slots=True)
class Spine:
    """Rows, each an input of the one above."""

    rows: list[Row] = field(default_factory=list)


def lay_out(graph: Graph) -> list[Spine]:
    """Every spine of the graph, those of the roots first, a branch after the spine it hangs on."""
    layout = _Layout(graph)
    # Twice: the second time, rows that are alike continue with the same input. The first step of a
    # loop, which starts from something else, then looks like the others.
    layout.elect()
    return layout.spines()


class _Layout:
    """Tables by the numbers of nodes, which a part of a graph has from the whole."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.size = max([n.index for n in graph.nodes], default=0) + 1
        self.member = bytearray(self.size)
        for n in graph.nodes:
            self.member[n.index] = 1
        self.weight = self._weights()
        self.votes: defaultdict[int, Counter[int]] = defaultdict(Counter)
        self.elected: dict[int, int] = {}

    def elect(self) -> None:
        """The input that each kind of node continues with: what `spines` would choose, counted."""
        waiting = self._users()
        stack = list(reversed(self.graph.roots))
        left = _VOTERS
        while stack and left > 0:
            node = stack.pop()
            while left > 0:
                left -= 1
                ready: list[GraphNode] = []
                for child in node.inputs:
                    k = child.index
                    if child.is_leaf or k >= self.size or not self.member[k]:
                        continue
                    waiting[k] -= 1
                    if not waiting[k]:
                        ready.append(child)
                if not ready:
                    break
                main = ready[0]
                if len(node.children) > 1:
                    if len(ready) > 1:
                        main = max(ready, key=self._weight)
                        stack.append(main)
                        stack.extend(n for n in reversed(ready) if n is not main)
                    slot = next(i for i, (n, _) in enumerate(node.children) if n is main)
                    self.votes[node._kind][slot] += 1
                    if len(ready) > 1:
                        break
                node = main
        self.elected = {key: counted.most_common(1)[0][0] for key, counted in self.votes.items()}

    def spines(self) -> list[Spine]:
        member, size = self.member, self.size
        waiting = self._users()
        spines = [Spine() for _ in self.graph.roots]
        stack = list(zip(reversed(spines), reversed(self.graph.roots), strict=True))
        while stack:
            spine, node = stack.pop()
            rows = spine.rows
            while True:
                row = Row(node)
                rows.append(row)
                leaves: list[GraphNode] = []
                later: list[GraphNode] = []
                ready: list[GraphNode] = []
                for child in node.inputs:
                    k = child.index
                    if k >= size or not member[k]:
                        continue
                    if child.is_leaf:
                        leaves.append(child)
                        continue
                    waiting[k] -= 1
                    (later if waiting[k] else ready).append(child)
                if leaves:
                    row.leaves = leaves
                if later:
                    row.later = later
                if not ready:
                    break
                main = ready[0] if len(node.children) == 1 else self._main(node, ready)
                if main is ready[0] and len(ready) == 1:
                    node = main
                    continue
                others = [n for n in ready if n is not main]
                if main is not None:
                    stack.append((spine, main))
                row.branches = branches = [Spine() for _ in others]
                spines.extend(branches)
                stack.extend(zip(reversed(branches), reversed(others), strict=True))
                break
        return spines

    def _users(self) -> list[int]:
        """How many users of each node have not been met: all, at first."""
        waiting = [0] * self.size
        for n in self.graph.nodes:
            for child in n.inputs:
                if child.index < self.size:
                    waiting[child.index] += 1
        return waiting

    def _weight(self, node: GraphNode) -> tuple[int, int]:
        return self.weight[node.index], node.index

    def _main(self, node: GraphNode, ready: list[GraphNode]) -> GraphNode | None:
        """The input that the spine continues with; None when none of them is it."""
        if self.elected:
            slot = self.elected.get(node._kind, -1)
            child = node.children[slot][0] if 0 <= slot < len(node.children) else None
            if slot >= 0 and (child is None or child.is_leaf):
                return None
            if any(child is n for n in ready):
                return child
        main = ready[0]
        if len(ready) > 1:
            main = max(ready, key=self._weight)
        return main

    def _weights(self) -> list[int]:
        """How many nodes are reached through each node only."""
        # By number: what stands right above a node, -1 before its first user is met. 0 stands above
        # all roots.
        above = [-1] * self.size
        above[0] = 0
        depth = [0] * self.size
        jump = [0] * self.size
        order = [n for n in self.graph.nodes if not n.is_leaf]  # users before what they use
        for node in order:
            i = node.index
            best = above[i]
            if best < 0:
                best = above[i] = 0
            depth[i] = depth[best] + 1
            # Jump pointers: a climb of any height takes O(log n) steps.
            far = jump[best]
            same = depth[best] - depth[far] == depth[far] - depth[jump[far]]
            jump[i] = jump[far] if same else best
            for child in node.inputs:
                k = child.index
                if k < self.size and not child.is_leaf:
                    above[k] = i if above[k] < 0 else _common(above[k], i, above, depth, jump)
        count = [1] * self.size
        for node in reversed(order):
            count[above[node.index]] += count[node.index]
        return count


def _common(a: int, b: int, above: list[int], depth: list[int], jump: list[int]) -> int:
    """The lowest node that stands above both."""
    if depth[a] < depth[b]:
        a, b = b, a
    while depth[a] > depth[b]:
        a = jump[a] if depth[jump[a]] >= depth[b] else above[a]
    while a != b:
        if jump[a] != jump[b]:
            a, b = jump[a], jump[b]
        else:
            a, b = above[a], above[b]
    return a
