"""Draws the graph that an example recorded: leaves to the left, the result to the right.

Used by gallery_pictures.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import adjoint as ad

BLUE, GREY = "#2062b4", "#707070"
LARGEST, LONGEST = 16, 7  # nodes, and nodes in a row, that a small picture has room for


def result(namespace: dict[str, Any]) -> tuple[str, ad.Tensor] | None:
    """The last variable with a history: a single number, if there is one."""
    tensors = [
        (name, value)
        for name, value in namespace.items()
        if isinstance(value, ad.Tensor) and value.grad_fn is not None
    ]
    tensors.sort(key=lambda pair: pair[1].numel() == 1)  # stable: the last one of its kind
    return tensors[-1] if tensors else None


def places(nodes: list[Any]) -> dict[Any, tuple[float, float]]:
    """Columns by the distance from the result, rows in the order of the graph."""
    column: dict[Any, int] = {}
    for node in nodes:  # a node stands before its inputs
        column.setdefault(node, 0)
        for source in node.inputs:
            column[source] = max(column.get(source, 0), column[node] + 1)
    columns: dict[int, list[Any]] = {}
    for node in nodes:
        columns.setdefault(column[node], []).append(node)
    return {
        node: (-float(x), (len(beside) - 1) / 2 - row)
        for x, beside in columns.items()
        for row, node in enumerate(beside)
    }


def in_order(graph: Any) -> list[Any]:
    """The nodes of a graph, each before its inputs."""
    waiting = dict.fromkeys(graph.nodes, 0)
    for node in graph.nodes:
        for source in set(node.inputs):
            waiting[source] += 1
    ready = [node for node in graph.nodes if not waiting[node]]
    for node in ready:
        for source in dict.fromkeys(node.inputs):
            waiting[source] -= 1
            if not waiting[source]:
                ready.append(source)
    return ready


def label(node: Any) -> str:
    """What stands in the box of a node."""
    if node.is_leaf:
        return str(node.label or "leaf")[-14:]
    return {"ExternalFunction": "external", "_linear_bias": "linear"}.get(node.op, node.op)


def draw(namespace: dict[str, Any], target: Path) -> bool:
    """Draw the graph of the last result; False if there is none, or if it is large."""
    from matplotlib.figure import Figure

    found = result(namespace)
    if found is None:
        return False
    name, _ = found
    # Called with the variables of the example in sight, which give leaves their names.
    graph = eval(f"draw({name})", {**namespace, "draw": ad.graph})
    if not 2 <= len(graph.nodes) <= LARGEST:
        return False
    nodes = in_order(graph)
    at = places(nodes)
    wide = -min(x for x, _ in at.values())
    if wide >= LONGEST:
        return False
    high = max(y for _, y in at.values()) + 1
    figure = Figure(figsize=(max(4.0, 1.35 * (wide + 1.8)), max(2.2, 0.9 * (2 * high))), dpi=130)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-wide - 0.6, 1.2)
    axes.set_ylim(-high, high)
    for node in nodes:
        for source in node.inputs:
            axes.annotate(
                "",
                at[node],
                at[source],
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": GREY,
                    "linewidth": 1.5,
                    "shrinkA": 18,
                    "shrinkB": 20,
                },
            )
    for node, (x, y) in at.items():
        colour = BLUE if node.is_leaf else GREY
        style = {"boxstyle": "round,pad=0.45", "facecolor": "white", "edgecolor": colour}
        kind = {"family": "monospace", "size": 13, "ha": "center", "va": "center"}
        axes.text(x, y, label(node), bbox=style, color=colour if node.is_leaf else "black", **kind)
    axes.text(0.55, 0, f"= {name}", family="monospace", size=13, va="center")
    figure.savefig(target)
    return True
