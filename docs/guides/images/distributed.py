"""Two ranks of data parallel training: gradients are averaged while backward still runs."""

from __future__ import annotations

import drawing
from drawing import BLUE, GREEN, RED
from matplotlib.patches import Rectangle

PARTS = [
    (0.0, 3.0, BLUE, "forward"),
    (3.0, 1.6, RED, "backward 3"),
    (4.6, 1.6, RED, "backward 2"),
    (6.2, 1.6, RED, "backward 1"),
    (8.7, 0.9, "#555555", "step"),
]


def main() -> None:
    figure, axes = drawing.canvas(9.6, 2.6, 11.2, 2.9)
    for rank, y in ((0, 2.1), (1, 0.35)):
        drawing.note(axes, 0.45, y + 0.22, f"rank {rank}\nits half", "black")
        for start, width, colour, text in PARTS:
            box = Rectangle((start + 1, y), width - 0.06, 0.45, facecolor=colour, alpha=0.85)
            axes.add_patch(box)
            drawing.note(axes, start + 1 + width / 2, y + 0.22, text, "white", size=9)
    for start, text in ((5.65, "average layer 3"), (7.25, "layer 2"), (8.85, "layer 1")):
        wide = 1.55 if "average" in text else 0.82
        axes.add_patch(Rectangle((start, 1.22), wide, 0.42, facecolor=GREEN, alpha=0.85))
        drawing.note(axes, start + wide / 2, 1.43, text, "white", size=8.5)
    drawing.note(axes, 3.6, 1.43, "buckets are reduced as soon as they are full", GREEN)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
