"""The demo's figure: the loss on the left, recovered stiffness beside the true one on the right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from adjoint.cli._png import Canvas, Colour

_INK: Colour = (51, 51, 58)
_GRID: Colour = (228, 228, 234)
_BLUE: Colour = (32, 98, 180)
_RED: Colour = (205, 72, 48)


class _Axes:
    """A frame inside a canvas that maps data to pixels."""

    def __init__(
        self,
        canvas: Canvas,
        frame: tuple[float, float, float, float],
        x: tuple[float, float],
        y: tuple[float, float],
    ) -> None:
        self.canvas = canvas
        self.left, self.top, self.right, self.bottom = frame
        self.x_range, self.y_range = x, y

    def x(self, value: float) -> float:
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)

    def horizontal(self, value: float, label: str) -> None:
        y = self.y(value)
        self.canvas.box(self.left, y - 0.5, self.right, y + 0.5, _GRID)
        self.canvas.text(self.left - 10, y, label, _INK, "right")

    def tick(self, value: float, label: str) -> None:
        x = self.x(value)
        self.canvas.box(x - 0.5, self.bottom, x + 0.5, self.bottom + 6, _INK)
        self.canvas.text(x, self.bottom + 18, label, _INK, "middle")

    def finish(self, title: str, below: str) -> None:
        middle = (self.left + self.right) / 2
        self.canvas.box(self.left - 0.5, self.top, self.left + 0.5, self.bottom, _INK)
        self.canvas.box(self.left, self.bottom - 0.5, self.right, self.bottom + 0.5, _INK)
        self.canvas.text(middle, self.top - 46, title, _INK, "middle")
        self.canvas.text(middle, self.bottom + 44, below, _INK, "middle")


def save_figure(
    path: str | Path, losses: Sequence[float], found: Sequence[float], true: Sequence[float]
) -> None:
    """Draw both panels and write the PNG file."""
    canvas = Canvas(1160, 460)
    _loss_panel(canvas, losses)
    _stiffness_panel(canvas, found, true)
    canvas.save(path)


def _loss_panel(canvas: Canvas, losses: Sequence[float]) -> None:
    logs = [(i, math.log10(v)) for i, v in enumerate(losses, 1) if v > 0 and math.isfinite(v)]
    low = math.floor(min((v for _, v in logs), default=0.0))
    high = max(math.ceil(max((v for _, v in logs), default=1.0)), low + 1)
    axes = _Axes(canvas, (100, 80, 640, 390), (1, max(2, len(losses))), (low, high))
    for power in range(low, high + 1, max(1, (high - low) // 6)):
        axes.horizontal(power, f"1e{power:+d}")
    for fraction in (0.0, 0.25, 0.5, 0.75, 1.0):
        step = max(1, round(fraction * len(losses)))
        axes.tick(step, str(step))
    canvas.curve(((axes.x(i), axes.y(v)) for i, v in logs), _BLUE, 2.4)
    axes.finish("loss: mean squared error of the positions", "gradient step")


def _stiffness_panel(canvas: Canvas, found: Sequence[float], true: Sequence[float]) -> None:
    top = math.ceil(max([*true, *(f for f in found if math.isfinite(f)), 1.0]))
    axes = _Axes(canvas, (740, 80, 1120, 390), (-0.6, len(true) - 0.4), (0, top))
    for value in range(top + 1):
        axes.horizontal(value, str(value))
    for spring, (f, t) in enumerate(zip(found, true, strict=True)):
        axes.tick(spring, str(spring))
        canvas.ring(axes.x(spring), axes.y(t), 8, _RED)
        if math.isfinite(f):
            canvas.disc(axes.x(spring), axes.y(min(max(f, 0), top)), 3.6, _BLUE)
    axes.finish("stiffness of each spring", "spring")
    canvas.disc(830, 60, 3.6, _BLUE)
    canvas.text(842, 60, "recovered", _INK)
    canvas.ring(982, 60, 8, _RED)
    canvas.text(998, 60, "true", _INK)
