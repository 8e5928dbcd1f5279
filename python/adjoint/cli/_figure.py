"""The demo's figure: the loss on the left, recovered stiffness beside the true one on the right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from adjoint.cli._axes import BLUE, INK, RED, Axes
from adjoint.cli._png import Canvas


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
    axes = Axes(canvas, (100, 80, 640, 390), (1, max(2, len(losses))), (low, high))
    for power in range(low, high + 1, max(1, (high - low) // 6)):
        axes.horizontal(power, f"1e{power:+d}")
    for fraction in (0.0, 0.25, 0.5, 0.75, 1.0):
        step = max(1, round(fraction * len(losses)))
        axes.tick(step, str(step))
    canvas.curve(((axes.x(i), axes.y(v)) for i, v in logs), BLUE, 2.4)
    axes.finish("loss: mean squared error of the positions", "gradient step")


def _stiffness_panel(canvas: Canvas, found: Sequence[float], true: Sequence[float]) -> None:
    top = math.ceil(max([*true, *(f for f in found if math.isfinite(f)), 1.0]))
    axes = Axes(canvas, (740, 80, 1120, 390), (-0.6, len(true) - 0.4), (0, top))
    for value in range(top + 1):
        axes.horizontal(value, str(value))
    for spring, (f, t) in enumerate(zip(found, true, strict=True)):
        axes.tick(spring, str(spring))
        canvas.ring(axes.x(spring), axes.y(t), 8, RED)
        if math.isfinite(f):
            canvas.disc(axes.x(spring), axes.y(min(max(f, 0), top)), 3.6, BLUE)
    axes.finish("stiffness of each spring", "spring")
    canvas.disc(830, 60, 3.6, BLUE)
    canvas.text(842, 60, "recovered", INK)
    canvas.ring(982, 60, 8, RED)
    canvas.text(998, 60, "true", INK)
