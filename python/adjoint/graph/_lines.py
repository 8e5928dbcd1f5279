"""Places in the user's program, and amounts of memory, as text."""

from __future__ import annotations

import linecache
import os

Source = tuple[str, int]  # file, line


def place(source: Source | None) -> str:
    """``train.py:41``, the form every message uses."""
    if source is None:
        return "(outside Python)"
    return f"{os.path.basename(source[0])}:{source[1]}"


def text(source: Source | None) -> str:
    """The line of the program itself, empty when the file can't be read."""
    return "" if source is None else linecache.getline(*source).strip()


def described(source: Source | None) -> str:
    """``train.py:41   y = x * w``."""
    line = text(source)
    return f"{place(source)}   {line}" if line else place(source)


def size(count: int) -> str:
    """Bytes with the unit that reads best; ``96 B``, ``12.5 kB``, ``1.2 GB``."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("kB", "MB", "GB"):
        value /= 1000
        if value < 999.95:
            return f"{value:.1f} {unit}"
    return f"{value / 1000:.1f} TB"


def neighbours(source: Source | None, around: int = 3) -> list[tuple[int, str]]:
    """The line of the program and those around it, with their numbers; what can't be read, not."""
    if source is None:
        return []
    file, line = source
    lines = linecache.getlines(file)
    first = max(1, line - around)
    return [(n, lines[n - 1].rstrip()) for n in range(first, min(line + around, len(lines)) + 1)]
