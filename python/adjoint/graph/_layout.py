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

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field

from ._view import Graph, GraphNode


@dataclass(slots=True)
class Row:
    """A node, and what hangs beside it."""

    node: GraphNode
    leaves: list[GraphNode] = field(default_factory=list)
    later: list[GraphNode] = field(default_factory=list)  # stand further down
    branches: list[Spine] = field(default_factory=list)


@dataclass(slots=True)
class Spine:
    """Rows, each an input of the one above."""

    rows: list[Row] = field(default_factory=list)


def lay_out(graph: Graph) -> list[Spine]:
    """Every spine of the graph, those of the roots first, a branch after the spine it hangs on."""
    members = {id(n) for n in graph.nodes}
    weight = _weights(graph, members)
    # Twice: the second time, rows that are alike continue with the same input. The first step of a
    # loop, which starts from something else, then looks like the others.
    votes: dict[Hashable, Counter[int]] = {}
    _spines(graph, members, weight, votes, {})
    elected = {key: counted.most_common(1)[0][0] for key, counted in votes.items()}
    return _spines(graph, members, weight, votes, elected)


def signature(node: GraphNode) -> Hashable:
    """What makes two nodes alike."""
    return node.name, node.op, node.outputs, node.source


def _spines(
    graph: Graph,
    members: set[int],
    weight: dict[int, int],
    votes: dict[Hashable, Counter[int]],
    elected: dict[Hashable, int],
) -> list[Spine]:
    waiting = {id(n): sum([id(p) in members for p in n.parents]) for n in graph.nodes}
    spines = [Spine() for _ in graph.roots]
    stack = list(zip(reversed(spines), reversed(graph.roots), strict=True))
    while stack:
        spine, node = stack.pop()
        row = Row(node)
        spine.rows.append(row)
        ready: list[GraphNode] = []
        for child in node.inputs:
            if id(child) not in members:
                continue
            if child.is_leaf:
                row.leaves.append(child)
                continue
            waiting[id(child)] -= 1
            (row.later if waiting[id(child)] else ready).append(child)
        if not ready:
            continue
        main = _main(node, ready, weight, votes, elected)
        if main is not None:
            stack.append((spine, main))
        if len(ready) > 1 or main is None:
            others = [n for n in ready if n is not main]
            row.branches = [Spine() for _ in others]
            spines.extend(row.branches)
            stack.extend(zip(reversed(row.branches), reversed(others), strict=True))
    return spines


def _main(
    node: GraphNode,
    ready: list[GraphNode],
    weight: dict[int, int],
    votes: dict[Hashable, Counter[int]],
    elected: dict[Hashable, int],
) -> GraphNode | None:
    """The input that the spine continues with; None when none of them is it."""
    if len(node.children) == 1:
        return ready[0]
    key = signature(node)
    if elected:
        slot = elected.get(key, -1)
        child = node.children[slot][0] if 0 <= slot < len(node.children) else None
        if child is None or child.is_leaf:
            return None if slot >= 0 else ready[0]
        if any(child is n for n in ready):
            return child
    main = max(ready, key=lambda n: (weight[id(n)], n.index))
    if not elected:
        slot = next(i for i, (child, _) in enumerate(node.children) if child is main)
        votes.setdefault(key, Counter())[slot] += 1
    return main


def _weights(graph: Graph, members: set[int]) -> dict[int, int]:
    """How many nodes are reached through each node only."""
    order = [n for n in graph.nodes if not n.is_leaf]  # newest first: users before what they use
    at = {id(n): i + 1 for i, n in enumerate(order)}  # 0 stands above all roots
    above = [0] * (len(order) + 1)
    depth = [0] * (len(order) + 1)
    jump = [0] * (len(order) + 1)
    for i, node in enumerate(order, 1):
        users = [at[id(p)] for p in node.parents if id(p) in members]
        best = users[0] if users else 0
        for other in users[1:]:
            best = _common(best, other, above, depth, jump)
        above[i] = best
        depth[i] = depth[best] + 1
        # Jump pointers: a climb of any height takes O(log n) steps.
        far = jump[best]
        jump[i] = jump[far] if depth[best] - depth[far] == depth[far] - depth[jump[far]] else best
    count = [1] * (len(order) + 1)
    for i in range(len(order), 0, -1):
        count[above[i]] += count[i]
    return {id(n): count[i] for i, n in enumerate(order, 1)}


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
