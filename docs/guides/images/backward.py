"""The nodes of y = (x * x).sum(), and where hooks run."""

from __future__ import annotations

import drawing
from drawing import BLUE, GREEN, GREY, RED


def main() -> None:
    figure, axes = drawing.canvas(9.4, 2.5, 9.4, 2.5)
    for x, text in ((0.9, "leaf x"), (4.2, "MulBackward0"), (7.9, "SumBackward0")):
        drawing.box(axes, x, 1.2, text)
    drawing.note(axes, 7.9, 0.72, "made by y = h.sum()")
    drawing.note(axes, 4.2, 0.72, "made by h = x * x")
    drawing.arrow(axes, (6.85, 1.2), (5.25, 1.2), RED)
    drawing.arrow(axes, (3.15, 1.2), (1.5, 1.2), RED)
    drawing.note(axes, 6.05, 1.42, "gradient of h\n1, 1, 1", RED)
    drawing.note(axes, 2.3, 1.42, "gradient of x\n2, 4, 6", RED)
    drawing.note(
        axes, 6.05, 2.1, "h.register_hook\nh.retain_grad", GREEN, family="monospace", size=8.5
    )
    drawing.note(
        axes,
        4.2,
        1.75,
        "node.register_prehook\nnode.register_hook",
        GREEN,
        family="monospace",
        size=8.5,
    )
    drawing.note(
        axes,
        1.75,
        2.1,
        "x.register_hook\nx.register_post_accumulate_grad_hook",
        GREEN,
        family="monospace",
        size=8.5,
    )
    drawing.note(axes, 0.9, 0.72, "x.grad += 2, 4, 6", BLUE, family="monospace")
    drawing.arrow(axes, (8.9, 0.3), (0.5, 0.3), GREY)
    drawing.note(axes, 4.7, 0.13, "backward: newest node first", GREY)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
