"""A graph as nested boxes: loops, alike branches, calls of modules, the parts of composites.

Loops are what `_repeats` finds, and branches that are alike, too; modules are those of
`graph.modules`, or what parameters tell (`_spans`). Operations on a composite are done part by
part: their nodes were made one after another by the same instruction, and none is computed from
another.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ._lines import place
from ._modules import Call, Calls, chain
from ._repeats import Item, Repeat, repeats
from ._view import Graph, GraphNode, no_collection


@dataclass(slots=True)
class Box:
    """A box with what is in it.

    A loop shows its newest step, alike branches the first; ``others`` are the nodes of each of the
    other steps or branches, in the same order as ``body``.
    """

    kind: str  # "loop", "branches", "module", "told" (a module, too), "parts" or "composite"
    title: str
    items: list[GraphNode | Box] = field(default_factory=list)
    count: int = 1
    body: list[GraphNode] = field(default_factory=list)
    others: list[list[GraphNode]] = field(default_factory=list)


Content = list[GraphNode | Box]


def boxes(graph: Graph) -> tuple[Content, dict[int, str]]:
    """The nodes of a graph in their boxes; leaves stand in none, but for those of composites.

    A module that is a single node has no box: its name is in the dict, by the node's number.
    """
    tags: dict[int, str] = {}
    calls = Calls(graph)
    with no_collection():
        ops = [n for n in graph.nodes if not n.is_leaf]
        content = _content(repeats(ops, calls.path_of))
    _Modules(calls).sort(content)
    parts, waiting = _Parts(graph), [content]
    while waiting:
        items = waiting.pop()
        items[:] = [_without_wrapping(item, tags) for item in items]
        waiting.extend(item.items for item in items if isinstance(item, Box))
        parts.sort(items)
    return [*content, *_leaves(graph)], tags


def _without_wrapping(item: GraphNode | Box, tags: dict[int, str]) -> GraphNode | Box:
    only = item.items[0] if isinstance(item, Box) and len(item.items) == 1 else None
    if (
        not isinstance(item, Box)
        or item.kind not in ("module", "told")
        or not isinstance(only, GraphNode)
    ):
        return item
    tags[only.index] = item.title.partition("  ")[0]
    return only


def _leaves(graph: Graph) -> Content:
    """The leaves; those of one composite in a box of its name."""
    roots = Counter(_root(n) for n in graph.leaves)
    content: Content = []
    made: dict[str, Box] = {}
    for n in graph.leaves:
        root = _root(n)
        if not root or roots[root] < 2:
            content.append(n)
            continue
        if root not in made:
            made[root] = Box("composite", root)
            content.append(made[root])
        made[root].items.append(n)
    return content


def is_parameter(node: GraphNode) -> bool:
    """Whether it is a leaf that belongs to a model."""
    nn = sys.modules.get("adjoint.nn")
    return nn is not None and isinstance(node.variable, nn.Parameter)


def _root(leaf: GraphNode) -> str:
    """``state`` of ``state.position`` and ``state[0]``; empty for a name of one part."""
    if is_parameter(leaf):  # of a model, which has boxes of its own
        return ""
    root = re.split(r"[.\[]", leaf.label, maxsplit=1)[0]
    return root if root != leaf.label else ""


def _content(items: Iterable[Item]) -> Content:
    return [item if isinstance(item, GraphNode) else _loop(item) for item in items]


def _loop(repeat: Repeat) -> Box:
    newest, *others = repeat.steps
    kind, what = ("loop", "loop") if _goes_on(repeat) else ("branches", "alike")
    box = Box(kind, _lines(what, newest), [], repeat.count, newest, others)
    box.items = _content(repeat.items)
    return box


def _goes_on(repeat: Repeat) -> bool:
    """Whether the newest step is computed from others, or is one of several beside one another."""
    first, last = repeat.steps[-1][-1].index, repeat.steps[0][-1].index
    return any(
        first <= child.index < last and not child.is_leaf
        for node in repeat.steps[0]
        for child in node.inputs
    )


def _lines(what: str, nodes: Sequence[GraphNode]) -> str:
    """``loop  train.py:41–44``: the lines of the file that most nodes are from."""
    sources = [n.source for n in nodes if n.source is not None]
    if not sources:
        return what
    file = Counter(name for name, _ in sources).most_common(1)[0][0]
    lines = [line for name, line in sources if name == file]
    last = f"–{max(lines)}" if max(lines) > min(lines) else ""
    return f"{what}  {place((file, min(lines)))}{last}"


class _Modules:
    """Puts nodes into the boxes of the calls that made them."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def sort(self, content: Content) -> None:
        waiting = [(content, 0)] if self._calls else []
        while waiting:
            items, depth = waiting.pop()
            loops = [item for item in items if isinstance(item, Box)]
            waiting.extend((loop.items, len(self._chain(loop))) for loop in loops)
            self._sort(items, depth)

    def _sort(self, items: Content, depth: int) -> None:
        """Sort what stands in ``depth`` calls already."""
        top: Content = []
        made: dict[int, Box] = {}
        for item in items:
            into = top
            for call in self._chain(item)[depth:]:
                box = made.get(id(call))
                if box is None:
                    box = made[id(call)] = Box("told" if call.is_told else "module", _title(call))
                    into.append(box)
                into = box.items
            into.append(item)
        items[:] = top

    def _chain(self, item: GraphNode | Box) -> list[Call]:
        if isinstance(item, GraphNode):
            return chain(self._calls.innermost(item.node))
        inner = [self._chain(i) for i in item.items]
        return inner[0][: _common(inner)] if inner else []


def _title(call: Call) -> str:
    name = call.path.rpartition(".")[2]
    return name if name == call.kind else f"{name}  {call.kind}"


def _common(chains: list[list[Call]]) -> int:
    """How many calls all chains begin with."""
    for depth, calls in enumerate(zip(*chains, strict=False)):
        if any(call is not calls[0] for call in calls):
            return depth
    return min(map(len, chains), default=0)


class _Parts:
    """Puts the nodes of one operation on a composite into a box."""

    def __init__(self, graph: Graph) -> None:
        ops = [n for n in graph.nodes if not n.is_leaf]
        self._place = {n.index: at for at, n in enumerate(ops)}  # leaves are made in between

    def sort(self, items: Content) -> None:
        alike: dict[tuple[str, int], list[GraphNode]] = {}
        for item in items:
            if isinstance(item, GraphNode) and item.source is not None:
                # One object for each instruction: two products on one line are not alike.
                alike.setdefault((item.name, id(item.source)), []).append(item)
        runs = [run for nodes in alike.values() for run in self._runs(nodes)]
        if any(len(run) == len(items) for run in runs):
            return  # a box around all that is there says nothing
        box_of: dict[int, Box] = {}
        for run in runs:
            box = Box("parts", f"{run[0].op} of {len(run)} parts")
            box_of.update((n.index, box) for n in run)
        result: Content = []
        for item in items:
            found = box_of.get(item.index) if isinstance(item, GraphNode) else None
            if found is None:
                result.append(item)
                continue
            if not found.items:
                result.append(found)
            found.items.append(item)
        items[:] = result

    def _runs(self, nodes: list[GraphNode]) -> Iterable[list[GraphNode]]:
        """Two or more that were made right after one another, and not from one another."""
        run: list[GraphNode] = []
        for node in sorted(nodes, key=lambda n: n.index):
            if run and (
                self._place[run[-1].index] - self._place[node.index] != 1
                or any(n in node.inputs for n in run)
            ):
                if len(run) > 1:
                    yield run
                run = []
            run.append(node)
        if len(run) > 1:
            yield run
