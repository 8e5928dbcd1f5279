"""A curve in the terminal, drawn with braille characters: each is a cell of 2 by 4 dots."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    cells = _draw(logs, low, high, width, height)
    labels = _decade_labels(low, high, height)
    lines = []
    for row, line in enumerate(cells):
        axis = "┤" if row in labels else "│"
        lines.append(f"{labels.get(row, ''):>6} {axis}" + "".join(map(_braille, line)))
    lines.append(" " * 7 + "└" + "─" * width)
    last = str(len(values))
    lines.append(" " * 8 + "1" + " " * (width - 1 - len(last)) + last)
    return "\n".join(line.rstrip() for line in lines)


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
