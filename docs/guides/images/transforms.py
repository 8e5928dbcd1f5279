"""Which entries of a Jacobian one pass gives: a column, a row, or all columns of one colour."""

from __future__ import annotations

import drawing
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

COLOURS = ["#2062b4", "#cd4830", "#e0a52b"]


def grid(axes: Axes, entries: np.ndarray, groups: np.ndarray, title: str, below: str) -> None:
    rows, columns = entries.shape
    for i, j in np.ndindex(rows, columns):
        colour = COLOURS[groups[i, j]] if entries[i, j] and groups[i, j] >= 0 else "white"
        if entries[i, j] and groups[i, j] < 0:
            colour = "#d9d9d9"
        axes.add_patch(
            Rectangle((j, rows - 1 - i), 0.92, 0.92, facecolor=colour, edgecolor="#c8c8c8")
        )
    axes.set_xlim(-0.5, columns + 0.5)
    axes.set_ylim(-0.4, rows + 0.2)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(title, family="monospace", size=11)
    axes.text(columns / 2, -0.5, below, ha="center", va="top", size=9.5, color=drawing.GREY)


def main() -> None:
    figure, axes = drawing.plot(8.4, 2.9, 3, width_ratios=[3, 7, 7])
    tall, wide = np.ones((7, 3), bool), np.ones((3, 7), bool)
    first_column = np.where(np.arange(3) == 0, 0, -1) * np.ones((7, 1), int)
    first_row = (np.where(np.arange(3) == 0, 0, -1) * np.ones((7, 1), int)).T
    grid(axes[0], tall, first_column, "jacfwd", "a column per pass:\n3 passes")
    grid(axes[1], wide, first_row, "jacrev", "a row per pass: 3 passes")
    band = np.abs(np.subtract.outer(np.arange(7), np.arange(7))) <= 1
    grid(
        axes[2],
        band,
        np.ones((7, 1), int) * (np.arange(7) % 3),
        "jacobian",
        "a colour per pass: 3 passes, at any size",
    )
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
