"""Three ways in which a gradient gets lost between the loss and x."""

from __future__ import annotations

import drawing
from drawing import BLUE, GREY, RED

ROWS = [
    ("None", "x.detach()", "the history was cut: no arrow leads on"),
    ("0", "relu(x - 10)", "passes nothing on where its input is negative"),
    ("NaN", "sqrt(0)", "an infinite slope times a zero that arrived"),
]


def main() -> None:
    figure, axes = drawing.canvas(8.6, 2.7, 8.6, 2.7)
    for row, (gradient, cause, why) in enumerate(ROWS):
        y = 2.25 - 0.9 * row
        drawing.box(axes, 0.45, y, "x", size=10)
        drawing.box(axes, 2.9, y, cause, RED, size=10)
        drawing.box(axes, 5.0, y, "loss", size=10)
        drawing.arrow(axes, (4.65, y), (3.75, y), BLUE)
        drawing.note(axes, 4.2, y + 0.2, "0" if gradient == "NaN" else "1", BLUE)
        if gradient != "None":
            drawing.arrow(axes, (2.05, y), (0.75, y), RED, linestyle="--")
        drawing.note(axes, 1.4, y + 0.2, f"x.grad is {gradient}", RED)
        drawing.note(axes, 5.45, y, why, GREY, ha="left", size=9)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
