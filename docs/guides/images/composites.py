"""A structure and its gradient, side by side."""

from __future__ import annotations

import drawing
from drawing import BLUE, GREY, RED
from matplotlib.axes import Axes


def tree(axes: Axes, left: float, colour: str, title: str, leaves: list[tuple[str, str]]) -> None:
    drawing.note(axes, left + 1.5, 2.75, title, colour, size=11)
    drawing.box(axes, left + 0.3, 1.3, "list", GREY)
    for place, name in enumerate(("Body 'earth'", "Body 'moon'")):
        middle = 2.0 - 1.4 * place
        drawing.arrow(axes, (left + 0.6, 1.3), (left + 0.98, middle), GREY)
        drawing.box(axes, left + 1.7, middle, name, GREY, size=9.5)
        for row in range(2):
            field, value = leaves[2 * place + row]
            y = middle + 0.28 - 0.56 * row
            drawing.arrow(axes, (left + 2.42, middle), (left + 2.72, y), GREY)
            axes.text(left + 2.76, y, f"{field} ", va="center", size=9, family="monospace")
            axes.text(left + 3.55, y, value, va="center", size=9, color=colour, family="monospace")


def main() -> None:
    figure, axes = drawing.canvas(10, 2.9, 10, 3)
    values = [
        ("position", "1 1 1"),
        ("velocity", "0 0 0"),
        ("position", "0 0 0"),
        ("velocity", "1 1 1"),
    ]
    slopes = [
        ("position", "2 2 2"),
        ("velocity", "0 0 0"),
        ("position", "0 0 0"),
        ("velocity", "1 1 1"),
    ]
    tree(axes, 0.15, BLUE, "bodies", values)
    tree(axes, 5.45, RED, "grad(loss, bodies)", slopes)
    drawing.arrow(axes, (4.75, 1.3), (5.35, 1.3), RED)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
