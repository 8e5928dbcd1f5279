"""The plots of a report as a PNG: Taylor remainders on the left, the V of the steps beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from adjoint.cli._axes import BLUE, GREEN, GRID, INK, RED, Axes
from adjoint.cli._png import Canvas, Colour

from ._results import Part, Sweep, Taylor

if TYPE_CHECKING:
    from ._report import CheckReport

__all__ = ["save_figure"]

_HEIGHT = 470
_COLOURS: tuple[Colour, ...] = (BLUE, RED, GREEN)
_GREY: Colour = (170, 170, 180)


def save_figure(path: str | Path, report: CheckReport) -> None:
    """Draw a row of two panels for each order that was looked at."""
    parts = [p for p in report.parts if p.taylor is not None and p.sweep is not None]
    canvas = Canvas(1200, 40 + _HEIGHT * max(1, len(parts)))
    canvas.text(600, 24, f"{report.name}: {report.verdict}", INK, "middle")
    if not parts:
        canvas.text(600, 200, report.notes[0][:90] if report.notes else "nothing", INK, "middle")
    for row, part in enumerate(parts):
        _row(canvas, 40 + row * _HEIGHT, part)
    canvas.save(path)


def _row(canvas: Canvas, top: float, part: Part) -> None:
    order = {1: "first", 2: "second"}[part.order]
    if part.taylor is not None and part.taylor.steps:
        _taylor(canvas, (100, top + 90, 560, top + 390), part.taylor, order)
    if part.sweep is not None and part.sweep.steps:
        _sweep(canvas, (710, top + 90, 1170, top + 390), part.sweep, order)


def _axes(
    canvas: Canvas,
    frame: tuple[float, float, float, float],
    steps: Sequence[float],
    curves: Sequence[Sequence[float]],
) -> Axes:
    """Decades on both axes."""
    values = [math.log10(v) for c in curves for v in c if v > 0 and math.isfinite(v)] or [0.0]
    low = max(math.floor(min(values)), math.ceil(max(values)) - 40)
    high = max(math.ceil(max(values)), low + 1)
    left, right = math.floor(math.log10(steps[-1])), math.ceil(math.log10(steps[0]))
    axes = Axes(canvas, frame, (left, right), (low, high))
    for power in range(low, high + 1, max(1, (high - low + 5) // 6)):
        axes.horizontal(power, f"1e{power:+d}")
    for power in range(left, right + 1, max(1, (right - left + 4) // 5)):
        axes.tick(power, f"1e{power:+d}")
    return axes


def _curve(
    canvas: Canvas, axes: Axes, steps: Sequence[float], values: Sequence[float], colour: Colour
) -> None:
    """Joined points; a value of zero has no place and leaves a gap."""
    run: list[tuple[float, float]] = []
    for t, v in [*zip(steps, values, strict=True), (1.0, math.nan)]:
        if v > 0 and math.isfinite(v) and math.log10(v) >= axes.y_range[0]:
            run.append((axes.x(math.log10(t)), axes.y(math.log10(v))))
            canvas.disc(*run[-1], 2.6, colour)
        else:
            canvas.curve(run, colour, 2.0)
            run = []


def _taylor(
    canvas: Canvas, frame: tuple[float, float, float, float], taylor: Taylor, order: str
) -> None:
    axes = _axes(canvas, frame, taylor.steps, taylor.remainders)
    if taylor.floor > 0 and axes.y_range[0] <= math.log10(taylor.floor) <= axes.y_range[1]:
        y = axes.y(math.log10(taylor.floor))
        for x in range(int(frame[0]) + 2, int(frame[2]), 10):
            canvas.box(x, y - 0.8, x + 5, y + 0.8, _GREY)
    for remainders, colour in zip(taylor.remainders, _COLOURS, strict=False):
        _curve(canvas, axes, taylor.steps, remainders, colour)
    axes.finish(f"Taylor test, {order} derivative", "step t (dashes: rounding and noise)")
    place = frame[0]
    for k, (rate, expected) in enumerate(zip(taylor.rates, taylor.expected, strict=True)):
        words = f"order {k}: " + ("exact" if rate is None else f"rate {rate:.2f} ({expected})")
        canvas.disc(place + 4, frame[1] - 18, 4, _COLOURS[k])
        canvas.text(place + 14, frame[1] - 18, words, INK, scale=1)
        place += 160


def _sweep(
    canvas: Canvas, frame: tuple[float, float, float, float], sweep: Sweep, order: str
) -> None:
    axes = _axes(canvas, frame, sweep.steps, [sweep.errors])
    if math.isfinite(sweep.step):
        x = axes.x(math.log10(sweep.step))
        canvas.box(x - 1, frame[1], x + 1, frame[3], GRID)
        canvas.box(x - 1, frame[1], x + 1, frame[1] + 8, RED)
        canvas.text(x, frame[1] - 18, f"best step {sweep.step:.0e}", RED, "middle", scale=1)
    _curve(canvas, axes, sweep.steps, sweep.errors, BLUE)
    axes.finish(f"step sweep, {order} derivative", "step t of central differences")
