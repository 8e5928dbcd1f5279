"""A figure of matplotlib's, and writing it to a file.

pyplot is not used: it keeps figures and a backend for the whole program, which are the user's.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

from adjoint.serialization._replace import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 100


class NoMatplotlib(ImportError):
    """A picture was asked for, and matplotlib is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "pictures are drawn by matplotlib, which is not installed.\n"
            "  fix: pip install 'adjoint[plot]'",
            name="matplotlib",
        )


def blank(width: int, height: int) -> Figure:
    """An empty figure of so many pixels.

    Raises
    ------
    NoMatplotlib
        It is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise  # it is there, but something that it needs is not
        raise NoMatplotlib from None
    return Figure(figsize=(width / _DPI, height / _DPI), dpi=_DPI, layout="constrained")


def png(figure: Figure) -> bytes:
    """The picture as a notebook wants it."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def write(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a picture whole or not at all: a PNG, or what the name ends in (.svg, .pdf)."""
    ending = os.path.splitext(path)[1][1:].lower()
    known = ending in figure.canvas.get_supported_filetypes()
    with replacing(path) as file:
        figure.savefig(file, format=ending if known else "png")
