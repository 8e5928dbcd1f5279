"""The page of a graph: what it shows, as data. The scripts are in ``_pages``.

Up to `_ALL` nodes a page holds every one; above, the nodes of a loop's newest step stand for those
of all steps, with the sums of what they keep. Where too many are left even so, since nothing much
repeats, the newest node of an op, shape, line and module stands for all such nodes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from adjoint import _core, _pages

from ._boxes import Box, boxes, is_parameter
from ._lines import neighbours
from ._modules import Calls
from ._view import Graph, GraphNode, _dtype_name, no_collection

if TYPE_CHECKING:
    from .stepping import Numbers, Step

_ALL = 30_000
_SCRIPTS = (
    "colours.js",
    "model.js",
    "layout.js",
    "scene.js",
    "pens.js",
    "painter.js",
    "camera.js",
    "search.js",
    "details.js",
    "player.js",
    "export.js",
    "keys.js",
    "graph.js",
)


def save(graph: Graph, path: str | os.PathLike[str], steps: Sequence[Step] | None = None) -> str:
    """Write the page of a graph, with the steps of a pass if they are given."""
    return _pages.write(text(graph, steps), path)


def show(graph: Graph, steps: Sequence[Step] | None = None) -> str:
    """Open the page of a graph."""
    return _pages.open_in_browser(text(graph, steps), "graph")


def text(graph: Graph, steps: Sequence[Step] | None = None) -> str:
    """The page of a graph."""
    with no_collection():
        data = _Data(graph).data(steps)
    return _pages.page(graph._title, data, _SCRIPTS, ("graph.css",))


class _Data:
    """The tables of a page."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.content, self.tags = boxes(graph)
        self.calls = Calls(graph)
        self.stands_for = self._representatives()  # number -> that of the node shown for it
        if len(graph) - len(self.stands_for) > _ALL:
            self._gather()
        whole = len(graph) <= _ALL
        self.shown = [n for n in graph.nodes if whole or n.index not in self.stands_for]
        self.place = {n.index: at for at, n in enumerate(self.shown)}
        self.kinds: dict[Any, int] = {}
        self.files: dict[str, int] = {}
        self.code: list[dict[str, Any]] = []

    def data(self, steps: Sequence[Step] | None) -> dict[str, Any]:
        title, _, counts = self.graph.title.partition(": ")
        kinds = [self._kind(n) for n in self.shown]
        return {
            "title": title,
            "counts": counts,
            "kinds": list(self.kinds),
            "code": self.code,
            "node": {
                "kind": kinds,
                "label": {str(at): n.label for at, n in enumerate(self.shown) if n.label},
                "tag": {str(self._at(n)): t for n in self.shown if (t := self.tags.get(n.index))},
                "parameters": [at for at, n in enumerate(self.shown) if is_parameter(n)],
                "freed": [at for at, n in enumerate(self.shown) if n.freed],
                **self._figures(steps),
                **self._forward(),
            },
            "edges": self._edges(),
            "outputs": [self._at(n) for n in self.graph.outputs],
            "tree": [self._item(item) for item in self.content] + self._outside(),
            "steps": self._steps(steps),
        }

    def _representatives(self) -> dict[int, int]:
        found: dict[int, int] = {}
        waiting = [item for item in self.content if isinstance(item, Box)]
        while waiting:
            box = waiting.pop()
            waiting.extend(item for item in box.items if isinstance(item, Box))
            for nodes in box.others:
                for mine, newest in zip(nodes, box.body, strict=True):
                    found[mine.index] = newest.index
        for index, shown in found.items():
            while shown in found:  # a step of an inner loop that is itself not shown
                shown = found[shown]
            found[index] = shown
        return found

    def _gather(self) -> None:
        """One node for all of its kind; without shapes, if they alone are too many."""
        graph, path_of = self.graph, self.calls.path_of
        keys: tuple[Callable[[GraphNode], Hashable], ...] = (
            lambda n: (n._kind, n.label, path_of(n)),
            lambda n: (n.op, n.source, path_of(n)),
        )
        for key in keys:
            newest: dict[Hashable, GraphNode] = {}
            for n in graph.nodes:
                newest.setdefault(key(n), n)
            if len(newest) <= _ALL:
                break
        self.stands_for = {
            n.index: shown.index for n in graph.nodes if (shown := newest[key(n)]) is not n
        }
        ops = [n for n in newest.values() if not n.is_leaf]
        leaves = [n for n in newest.values() if n.is_leaf]
        self.content, self.tags = [Box("gathered", "alike by line", [*ops]), *leaves], {}

    def _at(self, node: GraphNode) -> int:
        """Where a node, or the one that stands for it, is in the tables."""
        at = self.place.get(node.index)
        return self.place[self.stands_for[node.index]] if at is None else at

    def _kind(self, node: GraphNode) -> int:
        file, line = (-1, 0) if node.source is None else self._line(*node.source)
        shapes = ", ".join(str(list(shape)) for shape, _ in node.outputs) or "[]"
        dtype = _dtype_name(node.dtype) if node.outputs else ""
        call = self.calls.innermost(node.node) if self.calls and not node.is_leaf else None
        key = (node.op, node.name, shapes, dtype, file, line, call.path if call else "")
        return self.kinds.setdefault(key, len(self.kinds))

    def _line(self, file: str, line: int) -> tuple[int, int]:
        at = self.files.setdefault(file, len(self.files))
        if at == len(self.code):
            self.code.append({"name": os.path.basename(file), "path": file, "lines": {}})
        lines = self.code[at]["lines"]
        if line not in lines:
            lines.update(neighbours((file, line)))
        return at, line

    def _figures(self, steps: Sequence[Step] | None) -> dict[str, Any]:
        """What each node shown keeps, for itself and for those it stands for."""
        size = len(self.shown)
        many, total, own = [0] * size, [0] * size, [0] * size
        place, stands_for = self.place, self.stands_for
        # Memory that several nodes keep counts where it was kept first, that of leaves nowhere.
        known = {_core._storage(leaf.node.variable)[0] for leaf in self.graph.leaves}
        for n in reversed(self.graph.nodes):
            at = place.get(n.index)
            shown = at is not None
            if at is None:
                at = place[stands_for[n.index]]
            many[at] += 1
            for start, whole, _ in n.held:
                if start not in known:
                    known.add(start)
                    total[at] += whole
                    if shown:
                        own[at] += whole
        stands = [self.place[self.stands_for.get(n.index, n.index)] for n in self.shown]
        figures: dict[str, Any] = {
            "bytes": own,
            "shared": [max(0, n.saved_bytes - own[at]) for at, n in enumerate(self.shown)],
            "many": many,
            "total": total,
            "stands": stands,
        }
        if steps is not None:
            seconds: list[float | None] = [None] * size
            norm: list[float | None] = [None] * size
            for step in steps:
                at = self._at(step.node)
                seconds[at] = (seconds[at] or 0.0) + step.seconds
                norm[at] = _larger(norm[at], _norm(step))
            figures["seconds"] = [None if s is None else round(s, 9) for s in seconds]
            figures["norm"] = [_json(v) for v in norm]
        return figures

    def _forward(self) -> dict[str, Any]:
        """How long the calls took that made the nodes, if a profile saw them."""
        times = _core._forward_times([n.node for n in self.graph.nodes])
        if not any(times):
            return {}
        seconds: list[float | None] = [None] * len(self.shown)
        means: set[int] = set()
        for node, time in zip(self.graph.nodes, times, strict=True):
            if time is not None:
                at = self._at(node)
                seconds[at] = (seconds[at] or 0.0) + time[0]
                if time[1]:
                    means.add(at)
        rounded = [None if s is None else round(s, 9) for s in seconds]
        return {"forward": rounded, "means": sorted(means)}

    def _edges(self) -> list[int]:
        """From a node to its inputs, one after another: from, to, from, to."""
        if len(self.shown) == len(self.graph):
            return [
                at
                for n in self.shown
                for child in n.inputs
                if (to := self.place.get(child.index)) is not None
                for at in (self.place[n.index], to)
            ]
        stands, place = self.stands_for, self.place
        found: set[tuple[int, int]] = set()
        for n in self.graph.nodes:
            mine = stands.get(n.index, n.index)
            for child in n.inputs:
                found.add((mine, stands.get(child.index, child.index)))
        pairs = sorted((place[a], place[b]) for a, b in found if a in place and b in place)
        return [at for pair in pairs for at in pair]

    def _item(self, item: GraphNode | Box) -> Any:
        """A tree of numbers and boxes; boxes are nested about as deep as loops in the program."""
        if isinstance(item, GraphNode):
            return self.place[item.index]
        found: dict[str, Any] = {
            "kind": item.kind,
            "title": item.title,
            "items": [self._item(i) for i in item.items if self._is_here(i)],
        }
        if item.count > 1:
            found["count"] = item.count
            if len(self.shown) == len(self.graph):
                found["others"] = [[self.place[n.index] for n in nodes] for nodes in item.others]
                if len(item.body) > len(item.items):  # some of it is in boxes
                    found["newest"] = [self.place[n.index] for n in item.body]
        return found

    def _outside(self) -> list[int]:
        """Nodes in no box and no step of a loop: of steps that are not quite like the others."""
        inside = set(self.stands_for)
        waiting = [self.content]
        while waiting:
            for item in waiting.pop():
                if isinstance(item, Box):
                    waiting.append(item.items)
                else:
                    inside.add(item.index)
        return [self.place[n.index] for n in self.shown if n.index not in inside]

    def _is_here(self, item: GraphNode | Box) -> bool:
        return isinstance(item, Box) or item.index in self.place

    def _steps(self, steps: Sequence[Step] | None) -> list[Any] | None:
        if steps is None or len(self.shown) < len(self.graph):
            return None
        return [
            {
                "node": self.place[s.node.index],
                "seconds": round(s.seconds, 9),
                "got": [_numbers(g) for g in s.arrived],
                "used": [_numbers(g) for g in s.used] if s.changed_by_hooks else None,
                "sent": [
                    [self.place[d.node.index], _numbers(d.gradient), int(d.added)] for d in s.sent
                ],
                "before": _numbers(s.before),
                "after": _numbers(s.after),
                "freed": s.freed,
                "breaks": list(s.breaks),
            }
            for s in steps
        ]


def _norm(step: Step) -> float | None:
    """The norm of all that a node got."""
    norms = [g.norm for g in step.used if g is not None]
    return math.hypot(*norms) if norms else None


def _larger(a: float | None, b: float | None) -> float | None:
    """The larger norm; NaN is larger than all, since it is what one looks for."""
    if a is None or b is None:
        return b if a is None else a
    return a if a != a or a >= b else b


def _json(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    return str(value)


def _numbers(g: Numbers | None) -> Any:
    if g is None:
        return None
    values = [_json(v) if isinstance(v, float) else str(v) for v in g.values]
    figures = [_json(v) for v in (g.norm, g.smallest, g.largest)]
    return [*figures, g.zeros, g.nans, g.infs, g.numel, values]
