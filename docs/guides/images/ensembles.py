"""Draw docs/guides/images/ensembles.png: what travels in a map and its backward pass."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

BLUE, RED, GREY = "#2062b4", "#cd4830", "#707070"


def main() -> None:
    figure = Figure(figsize=(9, 2.9), dpi=120)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, 9)
    axes.set_ylim(0, 2.9)
    box = {"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": GREY}
    axes.text(1.2, 1.45, "your program", ha="center", va="center", size=12, bbox=box)
    arrow = {"arrowstyle": "-|>", "linewidth": 1.5}
    for place, y in enumerate((2.45, 1.45, 0.45)):
        text = f"worker {place + 1}: f(member {place + 1}), its graph"
        axes.text(7.1, y, text, ha="center", va="center", size=11, bbox=box)
        start, end = (2.25, 1.5 + 0.1 * (1 - place)), (5.35, y + 0.08)
        axes.annotate("", end, start, arrowprops=arrow | {"color": BLUE})
        axes.annotate(
            "", (2.25, 1.3 + 0.1 * (1 - place)), (5.35, y - 0.12), arrowprops=arrow | {"color": RED}
        )
    axes.text(3.1, 2.5, "members and what they share", color=BLUE, ha="center", size=10)
    axes.text(3.1, 2.28, "backward: gradients of results", color=BLUE, ha="center", size=10)
    axes.text(3.1, 0.5, "results", color=RED, ha="center", size=10)
    axes.text(3.1, 0.28, "backward: gradients, summed in order", color=RED, ha="center", size=10)
    figure.savefig(Path(__file__).with_name("ensembles.png"))


if __name__ == "__main__":
    main()
