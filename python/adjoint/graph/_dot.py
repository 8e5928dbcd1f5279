"""The graph in the language of Graphviz."""

from __future__ import annotations

from . import _lines
from ._view import Graph, GraphNode, _dtype_name


def dot(graph: Graph, name: str) -> str:
    """One box per node, an arrow from each input to what uses it."""
    lines = [f"digraph {_quoted(name)} {{", '  node [shape=box, fontname="monospace"];']
    outputs = {id(n) for n in graph.outputs}
    for n in graph.nodes:
        style = ", style=filled, fillcolor=lightblue" if n.is_leaf else ""
        style = style or (", style=bold" if id(n) in outputs else "")
        lines.append(f"  n{n.index} [label={_quoted(_label(n))}{style}];")
    for node, child, _ in graph.edges:
        lines.append(f"  n{child.index} -> n{node.index};")
    return "\n".join([*lines, "}"]) + "\n"


def _label(n: GraphNode) -> str:
    rows = [n.title, f"{list(n.shape)} {_dtype_name(n.dtype)}"]
    if not n.is_leaf:
        rows.append(_lines.place(n.source))
    return "\n".join(rows)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
