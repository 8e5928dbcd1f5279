"""A profile as a page: a flame view (direction, file, line, operation) above the tables.

Widths are times. It is plain HTML and CSS: no scripts, no requests; boxes say more when pointed at.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from html import escape
from typing import TYPE_CHECKING

from adjoint.notebook import rich_html

if TYPE_CHECKING:
    from ._by_line import LineProfile, Row

_THIN = 0.002  # of the whole: narrower boxes are left out
_STYLE = """
:root { color-scheme: light dark; --ink: #1d1d1f; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8ea; --paper: #17181a; } }
body { font: 14px/1.4 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 2rem auto; max-width: 1200px; padding: 0 1rem; }
h1 { font-size: 1.3rem; }
.flame { position: relative; margin: 1rem 0 2rem; }
.box { position: absolute; height: 24px; box-sizing: border-box; overflow: hidden;
  white-space: nowrap; text-overflow: ellipsis; padding: 2px 5px;
  border: 1px solid var(--paper); border-radius: 3px;
  color: #111; font: 12px/18px ui-monospace, monospace; }
.box:hover { filter: brightness(1.15); }
"""
_COLOURS = {"forward": "#7fb3e6", "backward": "#f0a48f", "outside": "#b8bcc4"}


def page(profile: LineProfile) -> str:
    """The whole page."""
    from ._by_line import _time

    title = f"{_time(profile.seconds)}, forward and backward"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>profile: {title}</title><style>{_STYLE}</style></head><body>"
        f"<h1>Where the time went: {title}</h1>{_flame(profile)}"
        f"{rich_html(profile.__rich__(), width=150)}</body></html>"
    )


def _flame(profile: LineProfile) -> str:
    whole = profile.seconds or 1.0
    boxes = [_box("all", whole, 0.0, 0, whole, _COLOURS["outside"])]
    left = 0.0
    for direction in ("forward", "backward"):
        rows = [row for row in profile.rows if row.backward == (direction == "backward")]
        seconds = sum(row.seconds for row in rows)
        colour = _COLOURS[direction]
        if seconds > 0:
            boxes.append(_box(direction, seconds, left, 1, whole, colour))
            boxes += _levels(rows, left, whole, colour)
        left += seconds
    if profile.outside / whole > _THIN:
        words = "outside of operations"
        boxes.append(_box(words, profile.outside, left, 1, whole, _COLOURS["outside"]))
    return f'<div class="flame" style="height:{24 * 5}px">{"".join(boxes)}</div>'


def _levels(rows: list[Row], left: float, whole: float, colour: str) -> Iterable[str]:
    """Boxes of files, lines and operations, the longest of each first."""
    for file, in_file, at_file in _grouped(rows, left, lambda row: row.file):
        yield _box(os.path.basename(file) or "(leaves)", _sum(in_file), at_file, 2, whole, colour)
        for line, in_line, at_line in _grouped(in_file, at_file, lambda row: str(row.line)):
            from ._by_line import _place

            text = _place(file, int(line))
            yield _box(text, _sum(in_line), at_line, 3, whole, colour)
            for op, of_op, at_op in _grouped(in_line, at_line, lambda row: row.op):
                count = sum(row.count for row in of_op)
                yield _box(f"{op} × {count:,}", _sum(of_op), at_op, 4, whole, colour)


def _grouped(
    rows: list[Row], left: float, key: Callable[[Row], str]
) -> Iterable[tuple[str, list[Row], float]]:
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    for name, members in sorted(groups.items(), key=lambda item: -_sum(item[1])):
        yield name, members, left
        left += _sum(members)


def _sum(rows: list[Row]) -> float:
    return sum(row.seconds for row in rows)


def _box(text: str, seconds: float, left: float, level: int, whole: float, colour: str) -> str:
    from ._by_line import _time

    if seconds / whole < _THIN:
        return ""
    words = escape(text, quote=True)
    place = f"left:{100 * left / whole:.3f}%;width:{100 * seconds / whole:.3f}%;top:{24 * level}px"
    return (
        f'<div class="box" style="{place};background:{colour}" title="{words}: {_time(seconds)}, '
        f'{seconds / whole:.1%}">{words}</div>'
    )
