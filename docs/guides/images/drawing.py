"""Boxes, arrows and plots in one style, for the scripts beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

BLUE, RED, GREY, GREEN = "#2062b4", "#cd4830", "#707070", "#2f8f4e"


def canvas(width: float, height: float, across: float, up: float) -> tuple[Figure, Axes]:
    """An empty sheet whose coordinates go from 0 to `across` and from 0 to `up`."""
    figure = Figure(figsize=(width, height), dpi=150)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, across)
    axes.set_ylim(0, up)
    return figure, axes


def box(axes: Axes, x: float, y: float, text: str, colour: str = GREY, **kind: Any) -> None:
    style = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": colour}
    kind = {"family": "monospace", "size": 11} | kind
    axes.text(x, y, text, ha="center", va="center", bbox=style, **kind)


def note(axes: Axes, x: float, y: float, text: str, colour: str = GREY, **kind: Any) -> None:
    kind = {"size": 9.5, "ha": "center", "va": "center"} | kind
    axes.text(x, y, text, color=colour, **kind)


def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = GREY,
    bend: float = 0.0,
    **kind: Any,
) -> None:
    style = {"arrowstyle": "-|>", "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0, "color": colour}
    style["connectionstyle"] = f"arc3,rad={bend}"
    axes.annotate("", end, start, arrowprops=style | kind)


def plot(width: float, height: float, panels: int = 1, **kind: Any) -> tuple[Figure, Any]:
    """A figure with one or several axes side by side, without their upper and right lines."""
    figure = Figure(figsize=(width, height), dpi=130, layout="constrained")
    axes = figure.subplots(1, panels, **kind)
    for one in [axes] if panels == 1 else axes:
        one.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Figure, script: str) -> None:
    """Write the picture beside its script, under the same name."""
    figure.savefig(Path(script).with_suffix(".png"))
