"""Draw what recording and the backward pass do, for the front page: `python docs/images/front.py`.

The numbers in the picture are computed by adjoint.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

import adjoint as ad

BLUE, RED, GREY = "#2062b4", "#cd4830", "#707070"


def numbers() -> list[tuple[str, str, str]]:
    """Each value of the chain: its name, what it is, and its gradient."""
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    square = x**2
    total = square.sum()
    y = total.sin()
    for value in (square, total, y):
        value.retain_grad()
    y.backward()
    named = {"x": x, "x**2": square, "sum": total, "sin": y}
    return [(name, shown(v), shown(v.grad)) for name, v in named.items()]


def shown(t: ad.Tensor) -> str:
    values = [f"{v:.2f}" for v in t.detach().reshape(-1).tolist()]
    return ", ".join(values)


def main() -> None:
    figure = Figure(figsize=(7.6, 1.9), dpi=180)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-1.05, 3.4)
    axes.set_ylim(-0.78, 0.68)
    for place, (name, value, gradient) in enumerate(numbers()):
        box = {"boxstyle": "round,pad=0.55", "facecolor": "white", "edgecolor": GREY}
        axes.text(place, 0, name, ha="center", va="center", family="monospace", size=13, bbox=box)
        axes.text(place, 0.42, value, ha="center", color=BLUE, size=12)
        axes.text(place, -0.55, gradient, ha="center", color=RED, size=12)
        if place:
            arrow = {"arrowstyle": "-|>", "linewidth": 1.6, "shrinkA": 0, "shrinkB": 0}
            axes.annotate(
                "", (place - 0.27, 0.1), (place - 0.73, 0.1), arrowprops=arrow | {"color": BLUE}
            )
            axes.annotate(
                "", (place - 0.73, -0.12), (place - 0.27, -0.12), arrowprops=arrow | {"color": RED}
            )
    for height, text, colour in ((0.42, "values", BLUE), (-0.55, "gradients", RED)):
        axes.text(-0.98, height, text, color=colour, size=12, style="italic")
    figure.savefig(Path(__file__).with_name("front.png"))


def thumbnail() -> None:
    """Two values and the way between them: for examples of the gallery that draw nothing."""
    figure = Figure(figsize=(4, 2.8), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(-0.5, 1.5)
    axes.set_ylim(-0.7, 0.7)
    axes.scatter([0, 1], [0, 0], s=2200, facecolor="white", edgecolor=GREY, linewidth=2)
    arrow = {"arrowstyle": "-|>", "linewidth": 3, "mutation_scale": 22}
    axes.annotate("", (0.76, 0.1), (0.24, 0.1), arrowprops=arrow | {"color": BLUE})
    axes.annotate("", (0.24, -0.1), (0.76, -0.1), arrowprops=arrow | {"color": RED})
    figure.savefig(Path(__file__).with_name("thumbnail.png"))


if __name__ == "__main__":
    main()
    thumbnail()
