"""What `forward` hands to `backward`."""

from __future__ import annotations

import drawing
from drawing import BLUE, GREY, RED


def main() -> None:
    figure, axes = drawing.canvas(7.6, 2.3, 7.6, 2.3)
    drawing.box(axes, 0.6, 1.75, "x")
    drawing.box(axes, 3.6, 1.75, "Exp.forward", BLUE)
    drawing.box(axes, 6.8, 1.75, "y")
    drawing.box(axes, 0.6, 0.5, "gradient\nof x")
    drawing.box(axes, 3.6, 0.5, "Exp.backward", RED)
    drawing.box(axes, 6.8, 0.5, "gradient\nof y")
    drawing.arrow(axes, (0.9, 1.75), (2.75, 1.75), BLUE)
    drawing.arrow(axes, (4.5, 1.75), (6.5, 1.75), BLUE)
    drawing.arrow(axes, (6.15, 0.5), (4.55, 0.5), RED)
    drawing.arrow(axes, (2.65, 0.5), (1.25, 0.5), RED)
    drawing.arrow(axes, (3.6, 1.5), (3.6, 0.78), GREY)
    drawing.note(axes, 3.75, 1.13, "ctx: what forward kept (here y)", ha="left")
    drawing.note(axes, 1.85, 1.95, "called by apply", BLUE)
    drawing.note(axes, 1.95, 0.3, "grad * y", RED, family="monospace")
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
