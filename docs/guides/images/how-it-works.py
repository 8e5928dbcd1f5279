"""The steps b = 2 * a and c = a * b with their numbers, forward and backward."""

from __future__ import annotations

import drawing
from drawing import BLUE, RED

import adjoint as ad


def main() -> None:
    a = ad.tensor(3.0, requires_grad=True)
    b = 2 * a
    c = a * b
    b.retain_grad()
    c.retain_grad()
    c.backward()
    places = {"a": (1.0, 1.45, a), "b": (4.0, 2.5, b), "c": (7.2, 1.45, c)}
    figure, axes = drawing.canvas(8.4, 3.4, 8.4, 3.4)
    for name, (x, y, tensor) in places.items():
        drawing.box(axes, x, y, name, size=14)
        drawing.note(axes, x, y + 0.47, f"value {tensor.item():g}", BLUE, size=11)
        drawing.note(axes, x, y - 0.47, f"gradient {tensor.grad.item():g}", RED, size=11)
    for start, end in (
        ((1.3, 1.75), (3.65, 2.58)),
        ((4.35, 2.58), (6.9, 1.75)),
        ((1.4, 1.4), (6.8, 1.4)),
    ):
        drawing.arrow(axes, start, end, BLUE)
    for start, end in (
        ((6.8, 1.55), (4.35, 2.36)),
        ((3.65, 2.36), (1.4, 1.55)),
        ((6.8, 1.22), (1.4, 1.22)),
    ):
        drawing.arrow(axes, start, end, RED)
    drawing.note(axes, 2.2, 2.42, "b = 2 * a", BLUE, family="monospace")
    drawing.note(axes, 5.9, 2.42, "c = a * b", BLUE, family="monospace")
    drawing.note(axes, 5.15, 1.8, "1 × a = 3", RED)
    drawing.note(axes, 2.95, 1.8, "3 × 2 = 6", RED)
    drawing.note(axes, 4.1, 1.02, "1 × b = 6", RED)
    drawing.note(axes, 1.0, 0.68, "6 + 6", RED, size=9.5)
    drawing.note(
        axes,
        4.2,
        0.3,
        "blue: computed from left to right.   red: from right to left, starting with 1.",
        "black",
    )
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
