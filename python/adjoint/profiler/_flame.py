"""A profile as a page: a flame view (direction, file, line, operation) above the tables.

The page is drawn by ``_pages/flame.js``; here is what it shows, as data.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from adjoint import _pages

if TYPE_CHECKING:
    from ._by_line import Cost, LineProfile, Row

_THIN = 0.0005  # of the whole: narrower boxes are left out
_ROWS = 200  # of a table


def page(profile: LineProfile) -> str:
    """The whole page."""
    from ._by_line import _place, _time

    title = f"profile: {_time(profile.seconds)}"
    lines = {_place(*key): cost for key, cost in profile.lines.items()}
    data = {
        "title": title,
        "seconds": profile.seconds,
        "outside": profile.outside,
        "note": profile.note,
        "flame": [_direction(profile, name) for name in ("forward", "backward")],
        "lines": _table(lines),
        "ops": _table(profile.ops),
    }
    return _pages.page(title, data, ("flame.js",), ("flame.css",))


def _table(costs: dict[str, Cost]) -> list[list[Any]]:
    return [
        [name, cost.forward, cost.backward, cost.count, cost.bytes, cost.error, cost.count_error]
        for name, cost in list(costs.items())[:_ROWS]
    ]


def _direction(profile: LineProfile, name: str) -> dict[str, Any]:
    from ._by_line import _place

    def line_box(file: str, line: str, rows: list[Row]) -> dict[str, Any]:
        ops = [(op, of_op) for op, of_op in _grouped(rows, lambda row: row.op) if keep(of_op)]
        titles = [(f"{op} × {_calls(rows)}", rows) for op, rows in ops]
        return _box(_place(file, int(line)), rows, [_box(*title, []) for title in titles])

    def file_box(file: str, rows: list[Row]) -> dict[str, Any]:
        lines = _grouped(rows, lambda row: str(row.line))
        inner = [line_box(file, line, of_line) for line, of_line in lines if keep(of_line)]
        return _box(os.path.basename(file) or "(leaves)", rows, inner)

    def keep(rows: list[Row]) -> bool:
        return _sum(rows) > _THIN * profile.seconds

    rows = [row for row in profile.rows if row.backward == (name == "backward")]
    files = _grouped(rows, lambda row: row.file)
    return _box(name, rows, [file_box(file, of_file) for file, of_file in files if keep(of_file)])


def _box(title: str, rows: list[Row], inside: list[dict[str, Any]]) -> dict[str, Any]:
    return {"title": title, "seconds": _sum(rows), "items": inside}


def _grouped(rows: list[Row], key: Callable[[Row], str]) -> Iterable[tuple[str, list[Row]]]:
    """The longest first."""
    groups: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return sorted(groups.items(), key=lambda item: -_sum(item[1]))


def _calls(rows: list[Row]) -> str:
    about = "~" if any(row.count_error for row in rows) else ""
    return f"{about}{sum(row.count for row in rows):,}"


def _sum(rows: list[Row]) -> float:
    return sum(row.seconds for row in rows)
