"""Curves in the terminal, drawn with braille characters: each is a cell of 2 by 4 dots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

# The bit of each dot of a braille cell, by row and column.
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


def log_plot(values: Sequence[float], width: int = 60, height: int = 12) -> str:
    """Return `values` against their index, on a logarithmic axis from decade to decade.

    Values that are not positive and finite have no place on the axis and leave a gap.
    """
    logs = [math.log10(v) if v > 0 and math.isfinite(v) else math.nan for v in values]
    seen = [v for v in logs if not math.isnan(v)]
    if not seen:
        return "(no positive finite values to plot)"
    low, high = math.floor(min(seen)), math.ceil(max(seen))
    high = max(high, low + 1)
    cells = [list(map(_braille, row)) for row in _draw(logs, low, high, width, height)]
    lines = _framed(cells, low, high, width)
    last = str(len(values))
    lines.append(" " * 8 + "1" + " " * (width - 1 - len(last)) + last)
    return "\n".join(line.rstrip() for line in lines)


def log_log_plot(
    x: Sequence[float],
    curves: Mapping[str, Sequence[float]],
    width: int = 60,
    height: int = 14,
    mark: float | None = None,
) -> str:
    """Return several curves over one logarithmic axis; ``x`` falls or rises by a constant factor.

    A curve starts with its key, a single character. ``mark`` is a value of ``x`` that gets a line.
    """
    logs = {
        key: [math.log10(v) if v > 0 and math.isfinite(v) else math.nan for v in values]
        for key, values in curves.items()
    }
    seen = [v for values in logs.values() for v in values if not math.isnan(v)]
    if not seen:
        return "(no positive finite values to plot)"
    low = math.floor(min(seen))
    high = max(math.ceil(max(seen)), low + 1)
    dots = [[0] * width for _ in range(height)]
    for values in logs.values():
        for row, more in zip(dots, _draw(values, low, high, width, height), strict=True):
            row[:] = [a | b for a, b in zip(row, more, strict=True)]
    cells = [list(map(_braille, row)) for row in dots]
    if mark is not None and len(x) > 1:
        place = math.log(mark / x[0]) / math.log(x[-1] / x[0])
        column = min(max(round(place * (width - 1)), 0), width - 1)
        for line in cells:
            line[column] = "┊" if line[column] == " " else line[column]
    _write_keys(cells, logs, low, high)
    lines = _framed(cells, low, high, width)
    first, last = f"{x[0]:.0e}", f"{x[-1]:.0e}"
    lines.append(" " * 8 + first + " " * (width - len(first) - len(last)) + last)
    return "\n".join(line.rstrip() for line in lines)


def _write_keys(
    cells: list[list[str]], logs: Mapping[str, Sequence[float]], low: int, high: int
) -> None:
    """The key of each curve at its start, one row up where another stands already."""
    for key, values in logs.items():
        known = next((v for v in values if not math.isnan(v)), None)
        if known is None:
            continue
        row = min(round((high - known) / (high - low) * (len(cells) - 1)), len(cells) - 1)
        while row and cells[row][0] in logs:
            row -= 1
        cells[row][0] = key


def _framed(cells: list[list[str]], low: int, high: int, width: int) -> list[str]:
    """The rows of a plot behind an axis, and the axis below."""
    labels = _decade_labels(low, high, len(cells))
    lines = []
    for row, line in enumerate(cells):
        axis = "┤" if row in labels else "│"
        lines.append(f"{labels.get(row, ''):>6} {axis}" + "".join(line))
    lines.append(" " * 7 + "└" + "─" * width)
    return lines


def _draw(logs: list[float], low: int, high: int, width: int, height: int) -> list[list[int]]:
    cells = [[0] * width for _ in range(height)]
    columns, rows = 2 * width, 4 * height
    previous: int | None = None
    for column in range(columns):
        # The value where this column of dots stands; all lie between first and last.
        value = logs[round(column * (len(logs) - 1) / max(1, columns - 1))]
        if math.isnan(value):
            previous = None
            continue
        row = round((high - value) / (high - low) * (rows - 1))
        # Joined to the column before, so that a steep curve has no holes.
        start = row if previous is None else previous
        for dot in range(min(start, row), max(start, row) + 1):
            cells[dot // 4][column // 2] |= _DOTS[dot % 4][column % 2]
        previous = row
    return cells


def _decade_labels(low: int, high: int, height: int) -> dict[int, str]:
    every = max(1, math.ceil((high - low) / max(1, height // 2)))
    return {
        round((high - power) / (high - low) * (4 * height - 1)) // 4: f"1e{power:+d}"
        for power in range(low, high + 1, every)
    }


def _braille(bits: int) -> str:
    return chr(0x2800 + bits) if bits else " "
