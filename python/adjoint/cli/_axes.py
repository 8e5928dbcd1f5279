"""Axes of a figure: a frame inside a canvas that maps data to pixels, and the figures' colours."""

from __future__ import annotations

from adjoint.cli._png import Canvas, Colour

INK: Colour = (51, 51, 58)
GRID: Colour = (228, 228, 234)
BLUE: Colour = (32, 98, 180)
RED: Colour = (205, 72, 48)
GREEN: Colour = (46, 140, 87)


class Axes:
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
        """The pixel of a value."""
        low, high = self.x_range
        return self.left + (value - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        """The pixel of a value."""
        low, high = self.y_range
        return self.bottom - (value - low) / (high - low) * (self.bottom - self.top)

    def horizontal(self, value: float, label: str) -> None:
        """A line across, with a label to its left."""
        y = self.y(value)
        self.canvas.box(self.left, y - 0.5, self.right, y + 0.5, GRID)
        self.canvas.text(self.left - 10, y, label, INK, "right")

    def tick(self, value: float, label: str) -> None:
        """A tick below, with a label."""
        x = self.x(value)
        self.canvas.box(x - 0.5, self.bottom, x + 0.5, self.bottom + 6, INK)
        self.canvas.text(x, self.bottom + 18, label, INK, "middle")

    def finish(self, title: str, below: str) -> None:
        """The axes themselves, a title above and words below."""
        middle = (self.left + self.right) / 2
        self.canvas.box(self.left - 0.5, self.top, self.left + 0.5, self.bottom, INK)
        self.canvas.box(self.left, self.bottom - 0.5, self.right, self.bottom + 0.5, INK)
        self.canvas.text(middle, self.top - 46, title, INK, "middle")
        self.canvas.text(middle, self.bottom + 44, below, INK, "middle")
