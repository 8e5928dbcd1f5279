"""What a recording does with a call."""

from __future__ import annotations

import drawing
from drawing import BLUE, GREEN, GREY, RED

ROWS = [
    ("f written in Python", "looked into, line by line", GREEN, "recorded"),
    ("math.sin, list.append, np.dot", "in the table of known C code", GREEN, "trusted"),
    ("a C function, @compiler.pure", "vouched for by you", GREEN, "trusted"),
    ("ad.external(f)", "a host call", BLUE, "runs in each replay"),
    ("any other C function", "not known", RED, "the whole function runs eagerly, with a warning"),
]


def main() -> None:
    figure, axes = drawing.canvas(9.4, 2.8, 9.4, 2.8)
    for row, (call, why, colour, end) in enumerate(ROWS):
        y = 2.5 - 0.55 * row
        drawing.note(axes, 2.75, y, call, "black", ha="right", family="monospace", size=9)
        drawing.arrow(axes, (2.85, y), (5.35, y), colour)
        drawing.note(axes, 4.1, y + 0.14, why, GREY, size=8.5)
        drawing.note(axes, 5.45, y, end, colour, ha="left")
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
