"""What `save` does on the disk, and who reads the file."""

from __future__ import annotations

import drawing
from drawing import BLUE, GREY, RED


def main() -> None:
    figure, axes = drawing.canvas(9.2, 2.4, 9.2, 2.4)
    drawing.box(axes, 0.75, 1.75, "ad.save", BLUE)
    drawing.box(axes, 3.3, 1.75, ".adjoint-….tmp", GREY)
    drawing.box(axes, 6.3, 1.75, "checkpoint.pt", GREY)
    drawing.arrow(axes, (1.4, 1.75), (2.4, 1.75), BLUE)
    drawing.note(axes, 1.9, 1.97, "1. write", BLUE)
    drawing.arrow(axes, (4.2, 1.75), (5.45, 1.75), BLUE)
    drawing.note(axes, 4.85, 1.97, "2. rename", BLUE)
    drawing.note(axes, 3.3, 1.2, "if anything fails here,\nthe old file is untouched", RED)
    drawing.arrow(axes, (6.0, 1.5), (5.2, 0.72), GREY)
    drawing.arrow(axes, (6.6, 1.5), (7.4, 0.72), GREY)
    drawing.box(axes, 4.95, 0.45, "ad.load", BLUE)
    drawing.box(axes, 7.6, 0.45, "torch.load", BLUE)
    drawing.note(axes, 3.0, 0.45, "runs nothing that the file says", GREY)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
