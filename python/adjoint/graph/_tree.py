"""The text of a graph: one row per node, repeated parts in a frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from . import _lines
from ._fold import Block, Folder, Item
from ._layout import Row, Spine, lay_out
from ._view import Graph, GraphNode, _count, _dtype_name, no_collection

_DEEPEST = 40  # levels of indentation


class _Line(NamedTuple):
    head: str  # the lines of the tree and the op
    node: GraphNode | None = None
    reference: bool = False


def printed(graph: Graph, fold: bool, limit: int | None, width: int) -> str:
    """The whole text; see `Graph.tree`."""
    if not graph.nodes:
        return f"{graph.title}\n(nothing matches)"
    with no_collection():
        spines = lay_out(graph)
        items: dict[int, list[Item]] = {id(s): list(s.rows) for s in spines}
        if fold:
            items = Folder().fold_all(spines)
    tops = [items[id(s)] for s in spines[: len(graph.roots)]]
    lines: list[_Line] = []
    more = 0
    for line in _lines_of(tops, items):
        if limit is None or len(lines) < limit:
            lines.append(line)
        else:
            more += 1
    rows = _columns(lines, width)
    if more:
        rows.append(f"... {more:,} more lines; graph.tree(limit=None) gives all")
    return "\n".join([graph.title, *rows])


def _lines_of(tops: list[list[Item]], items: dict[int, list[Item]]) -> Iterator[_Line]:
    """Depth first with a stack of iterators, so that depth costs no recursion."""
    stack: list[Iterator[_Line | tuple[str, str, list[Item]]]] = []
    for top in tops:
        stack.append(_steps("", "", top, items))
        while stack:
            step = next(stack[-1], None)
            if step is None:
                stack.pop()
            elif isinstance(step, _Line):
                yield step
            else:
                stack.append(_steps(*step, items))


def _steps(
    first: str, prefix: str, spine: list[Item], items: dict[int, list[Item]]
) -> Iterator[_Line | tuple[str, str, list[Item]]]:
    """Lines of one spine; a tuple stands for a spine that is to be put in its place.

    ``first`` stands in front of the first line, ``prefix`` in front of the others.
    """
    for number, item in enumerate(spine):
        lead = prefix if number else first
        last = number == len(spine) - 1
        if isinstance(item, Block):
            nodes = _nodes_in(item.items, items)
            yield _Line(f"{lead}╔ {item.count:,} × {_count(nodes, 'node')}")
            yield f"{prefix}║ ", f"{prefix}║ ", item.items
            yield _Line(f"{prefix}╚")
            for leaf in item.rest:
                yield _Line(f"{prefix}{leaf.title}", leaf)
            continue
        yield _Line(lead + item.node.title, item.node)
        yield from _beside(item, prefix, last, items)


def _beside(
    row: Row, prefix: str, last: bool, items: dict[int, list[Item]]
) -> Iterator[_Line | tuple[str, str, list[Item]]]:
    hanging: list[GraphNode | Spine] = [*row.branches, *row.later, *row.leaves]
    for k, thing in enumerate(hanging):
        end = last and k == len(hanging) - 1
        elbow, beam = ("└─ ", "   ") if end else ("├─ ", "│  ")
        if isinstance(thing, Spine):
            if len(prefix) > 3 * _DEEPEST:
                yield _Line(f"{prefix}{elbow}(deeper branch)")
            else:
                yield prefix + elbow, prefix + beam, items[id(thing)]
        elif thing.is_leaf:
            yield _Line(f"{prefix}{elbow}{thing.title}", thing)
        else:
            yield _Line(f"{prefix}{elbow}↓ {thing.title}", thing, reference=True)


def _nodes_in(body: list[Item], items: dict[int, list[Item]]) -> int:
    total = 0
    stack: list[tuple[int, Item]] = [(1, item) for item in body]
    while stack:
        times, item = stack.pop()
        if isinstance(item, Block):
            stack.extend((times * item.count, inner) for inner in item.items)
        else:
            total += times
            stack.extend((times, inner) for s in item.branches for inner in items[id(s)])
    return total


def _columns(lines: list[_Line], width: int) -> list[str]:
    """Line the columns up: head, shape, dtype, bytes, place, source text."""
    cells = [_cells(line) for line in lines]
    widths = [max((len(c[k]) for c in cells), default=0) for k in range(5)]
    widths[0] = min(widths[0], 48)
    rows = []
    said = ("", "")
    for c in cells:
        same = c[5] and (c[4], c[5]) == said
        said = (c[4], c[5]) if c[4] else said
        parts = [
            c[0].ljust(widths[0]),
            c[1].ljust(widths[1]),
            c[2].ljust(widths[2]),
            c[3].rjust(widths[3]),
            c[4].ljust(widths[4]),
            '"' if same else c[5],
        ]
        row = "  ".join(parts).rstrip()
        rows.append(row if len(row) <= width else row[: width - 3] + "...")
    return rows


def _cells(line: _Line) -> tuple[str, str, str, str, str, str]:
    node = line.node
    if node is None:
        return line.head, "", "", "", "", ""
    shapes = ", ".join(str(list(shape)) for shape, _ in node.outputs[:3])
    if len(node.outputs) > 3:
        shapes = f"{len(node.outputs)} × {list(node.shape)}"
    dtype = _dtype_name(node.dtype)
    if node.is_leaf or line.reference:
        where = "" if node.is_leaf else _lines.place(node.source)
        return line.head, shapes, dtype, "", where, ""
    saved = node.saved_bytes
    kept = "freed" if node.freed else _lines.size(saved) if saved else ""
    return line.head, shapes, dtype, kept, _lines.place(node.source), _lines.text(node.source)
