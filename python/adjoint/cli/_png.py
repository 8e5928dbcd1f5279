"""A small picture: lines, discs, boxes and text on a canvas, written as a PNG file.

Everything is drawn three times as large and averaged down, which smooths the edges.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from adjoint.cli import _font
from adjoint.serialization._replace import replacing

Colour = tuple[int, int, int]
_OVER = 3


class Canvas:
    """A white picture; coordinates are in pixels from the top left, as floats."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._pixels: NDArray[np.uint8] = np.full(
            (height * _OVER, width * _OVER, 3), 255, dtype=np.uint8
        )

    def box(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        """Fill a rectangle."""
        x0, x1 = sorted((round(left * _OVER), round(right * _OVER)))
        y0, y1 = sorted((round(top * _OVER), round(bottom * _OVER)))
        self._pixels[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)] = colour

    def disc(self, x: float, y: float, radius: float, colour: Colour) -> None:
        """Fill a circle."""
        self._stroke(x, y, x, y, radius, colour)

    def ring(self, x: float, y: float, radius: float, colour: Colour) -> None:
        """Draw a circle's outline, white inside."""
        self.disc(x, y, radius, colour)
        self.disc(x, y, radius - 1.8, (255, 255, 255))

    def curve(
        self, points: Iterable[tuple[float, float]], colour: Colour, width: float = 2.0
    ) -> None:
        """Join points by lines with round ends."""
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            self._stroke(x0, y0, x1, y1, width / 2, colour)

    def text(
        self, x: float, y: float, words: str, colour: Colour, align: str = "left", scale: int = 2
    ) -> None:
        """Write a line whose vertical middle is at `y`; `align` is left, middle or right."""
        length = (len(words) * _font.ADVANCE - 2) * scale
        left = x - {"left": 0.0, "middle": length / 2, "right": float(length)}[align]
        top = y - (_font.HEIGHT - 1) * scale / 2
        for position, character in enumerate(words.lower()):
            start = left + position * _font.ADVANCE * scale
            for x0, y0, x1, y1 in _font.strokes(character):
                ends = (start + x0 * scale, top + y0 * scale, start + x1 * scale, top + y1 * scale)
                self._stroke(*ends, 0.42 * scale, colour)

    def _stroke(
        self, x0: float, y0: float, x1: float, y1: float, radius: float, colour: Colour
    ) -> None:
        """Fill all points nearer than `radius` to the segment."""
        x0, y0, x1, y1, radius = (value * _OVER for value in (x0, y0, x1, y1, radius))
        height, width, _ = self._pixels.shape
        left, right = max(0, int(min(x0, x1) - radius)), min(width, int(max(x0, x1) + radius) + 2)
        top, bottom = max(0, int(min(y0, y1) - radius)), min(height, int(max(y0, y1) + radius) + 2)
        if left >= right or top >= bottom:
            return
        y, x = np.mgrid[top:bottom, left:right]
        dx, dy = x1 - x0, y1 - y0
        squared = dx * dx + dy * dy
        along = ((x - x0) * dx + (y - y0) * dy) / squared if squared > 0 else np.zeros(x.shape)
        along = np.clip(along, 0.0, 1.0)
        inside = (x - x0 - along * dx) ** 2 + (y - y0 - along * dy) ** 2 <= radius * radius
        self._pixels[top:bottom, left:right][inside] = colour

    def save(self, path: str | Path) -> None:
        """Write the PNG file."""
        blocks = self._pixels.reshape(self.height, _OVER, self.width, _OVER, 3)
        picture = blocks.mean(axis=(1, 3)).round().astype(np.uint8)
        with replacing(path) as file:
            file.write(encode_png(picture))


def encode_png(picture: NDArray[np.uint8]) -> bytes:
    """Return the PNG file of an array of shape (height, width, 3)."""
    height, width, _ = picture.shape
    # Each row starts with its filter: 0, none.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), picture.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", header),
            (b"IDAT", zlib.compress(rows.tobytes(), 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    body = kind + data
    return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
