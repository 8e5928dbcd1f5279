"""What pictures show: the demo's loss and stiffnesses; Taylor tests and step sweeps of checks."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ._figure import blank, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from adjoint.check import CheckReport
    from adjoint.check._results import Sweep, Taylor

_BLUE, _RED, _GREEN = "#2062b4", "#cd4830", "#2e8c57"
_ORDERS = {1: "first", 2: "second"}


def save_recovery(
    path: str | os.PathLike[str],
    losses: Sequence[float],
    found: Sequence[float],
    true: Sequence[float],
) -> None:
    """The demo: the loss on the left, recovered stiffnesses beside the true ones on the right."""
    figure = blank(1160, 460)
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _frame(left, "loss: mean squared error of the positions", "gradient step")
    left.set_yscale("log", nonpositive="mask")
    left.plot(range(1, len(losses) + 1), losses, color=_BLUE, linewidth=2)
    _frame(right, "stiffness of each spring", "spring")
    springs = range(len(true))
    right.plot(springs, true, "o", color=_RED, markersize=12, fillstyle="none", label="true")
    right.plot(springs, found, "o", color=_BLUE, markersize=6, label="recovered")
    right.set_xticks(springs)
    right.set_ylim(bottom=0)
    right.legend(loc="lower right")
    write(figure, path)


def save_check(path: str | os.PathLike[str], report: CheckReport) -> None:
    """Write the picture of a check."""
    write(check(report), path)


def check(report: CheckReport) -> Figure:
    """A check: Taylor remainders on the left, the V of the steps beside them, a row per order."""
    parts = [p for p in report.parts if p.taylor is not None and p.sweep is not None]
    figure = blank(1200, 40 + 470 * max(1, len(parts)))
    figure.suptitle(f"{report.name}: {report.verdict}", parse_math=False)
    if not parts:
        note = report.notes[0] if report.notes else "nothing to draw"
        figure.text(0.5, 0.5, note, ha="center", va="center", wrap=True, parse_math=False)
    grid = figure.subplots(max(1, len(parts)), 2, squeeze=False)
    for part, (left, right) in zip(parts, grid, strict=False):
        if part.taylor is not None and part.sweep is not None:
            _taylor(left, part.taylor, _ORDERS[part.order])
            _sweep(right, part.sweep, _ORDERS[part.order])
    for axes in grid.flat:
        axes.set_visible(axes.has_data())
    return figure


def _taylor(axes: Axes, taylor: Taylor, order: str) -> None:
    _frame(axes, f"Taylor test, {order} derivative", "step t", decades=True)
    rates = zip(taylor.remainders, taylor.rates, taylor.expected, strict=True)
    for (k, (remainders, rate, expected)), colour in zip(
        enumerate(rates), (_BLUE, _RED, _GREEN), strict=False
    ):
        words = "exact" if rate is None else f"rate {rate:.2f} ({expected})"
        axes.plot(taylor.steps, remainders, ".-", color=colour, label=f"order {k}: {words}")
    if taylor.floor > 0:
        axes.axhline(taylor.floor, color="0.6", linestyle="--", label="rounding and noise")
    if taylor.steps:
        axes.legend(fontsize="small")


def _sweep(axes: Axes, sweep: Sweep, order: str) -> None:
    title, below = f"step sweep, {order} derivative", "step t of central differences"
    _frame(axes, title, below, decades=True)
    axes.plot(sweep.steps, sweep.errors, ".-", color=_BLUE, label="relative error")
    if math.isfinite(sweep.step):
        axes.axvline(sweep.step, color=_RED, linewidth=1, label=f"best step {sweep.step:.0e}")
    if sweep.steps:
        axes.legend(fontsize="small")


def _frame(axes: Axes, title: str, below: str, decades: bool = False) -> None:
    axes.set_title(title)
    axes.set_xlabel(below)
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    if decades:  # values of zero have no place and leave a gap
        axes.set_xscale("log", nonpositive="mask")
        axes.set_yscale("log", nonpositive="mask")
