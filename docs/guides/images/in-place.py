"""A value is saved at one version of its memory and needed again after a change."""

from __future__ import annotations

import drawing
from drawing import BLUE, GREY, RED


def main() -> None:
    figure, axes = drawing.canvas(8.2, 2.3, 8.2, 2.3)
    for x, text, version in (
        (1.3, "loss = (w * w).sum()", "version 0"),
        (4.3, "w.add_(1)", "version 1"),
        (7.0, "loss.backward()", "version 1"),
    ):
        drawing.box(axes, x, 1.75, text, size=10)
        drawing.note(axes, x, 1.25, f"memory of w: {version}")
    drawing.arrow(axes, (2.55, 1.75), (3.6, 1.75), GREY)
    drawing.arrow(axes, (5.0, 1.75), (5.95, 1.75), GREY)
    drawing.arrow(axes, (1.3, 1.05), (1.3, 0.62), BLUE)
    drawing.note(axes, 1.3, 0.42, "saves w for backward,\nwith its version: 0", BLUE)
    drawing.arrow(axes, (7.0, 1.05), (7.0, 0.62), RED)
    drawing.note(
        axes, 7.0, 0.42, "0 is not 1: an error that names\nboth lines, not a wrong number", RED
    )
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
