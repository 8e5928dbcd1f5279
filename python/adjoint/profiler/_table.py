"""Events as a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from adjoint.profiler._times import format_memory, format_share, format_time

_WIDTH = 12  # of a column of numbers
_GAP = "  "


@dataclass
class Look:
    """How a table is to look."""

    sort_by: str | None
    row_limit: int
    source_width: int
    name_width: int
    shapes_width: int
    header: str | None
    top_level_only: bool
    time_unit: str | None
    memory: bool
    shapes: bool
    lines: bool


@dataclass
class _Column:
    title: str
    text: Callable[[Any], str]
    width: int
    left: bool = False

    def cell(self, text: str) -> str:
        return text.ljust(self.width) if self.left else text.rjust(self.width)


def build(events: Any, look: Look) -> str:
    """The table."""
    if not events:
        return ""
    rows = list(events)
    if look.sort_by is not None:
        # Device columns are PyTorch's; there is one device here.
        wanted = look.sort_by.replace("cuda", "device").replace("xpu", "device")
        rows.sort(key=attrgetter(wanted), reverse=True)
    if look.top_level_only:
        rows = [row for row in rows if row.cpu_parent is None]
    total = sum(event.self_cpu_time_total for event in events)
    shown = rows if look.row_limit < 0 else rows[: look.row_limit]
    columns = _columns(shown, look, total)
    rule = _GAP.join("-" * column.width for column in columns) + _GAP
    titles = _GAP.join(column.cell(column.title) for column in columns) + _GAP
    lines = [look.header] if look.header is not None else []
    lines += [rule, titles, rule]
    for row in shown:
        lines.append(_GAP.join(column.cell(column.text(row)) for column in columns) + _GAP)
        if look.lines:  # further lines of the stack below the first
            before = sum(column.width + len(_GAP) for column in columns[:-1])
            lines += [
                " " * before + columns[-1].cell(_cut_left(line, look.source_width))
                for line in row.stack[1:]
            ]
    lines += [rule, f"Self CPU time total: {format_time(total, look.time_unit)}"]
    return "\n".join(lines) + "\n"


def _columns(rows: list[Any], look: Look, total: float) -> list[_Column]:
    def time(value: float) -> str:
        return format_time(value, look.time_unit)

    def wide(texts: list[str], most: int) -> int:
        return min(max([len(text) for text in texts], default=0) + 4, most)

    names = max(wide([row.key for row in rows], look.name_width), _WIDTH)
    columns = [
        _Column("Name", lambda e: _cut_right(e.key, names), names),
        _Column("Self CPU %", lambda e: format_share(e.self_cpu_time_total, total), _WIDTH),
        _Column("Self CPU", lambda e: time(e.self_cpu_time_total), _WIDTH),
        _Column("CPU total %", lambda e: format_share(e.cpu_time_total, total), _WIDTH),
        _Column("CPU total", lambda e: time(e.cpu_time_total), _WIDTH),
        _Column("CPU time avg", lambda e: time(e.cpu_time), _WIDTH),
    ]
    if look.memory:
        columns += [
            _Column("CPU Mem", lambda e: format_memory(e.cpu_memory_usage), _WIDTH),
            _Column("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage), _WIDTH),
        ]
    columns.append(_Column("# of Calls", lambda e: str(e.count), _WIDTH))
    if look.shapes:
        width = max(wide([str(row.input_shapes) for row in rows], look.shapes_width), 16)
        columns.append(_Column("Input Shapes", lambda e: str(e.input_shapes)[:width], width))
    if look.lines:
        texts = [line for row in rows for line in row.stack]
        width = max(wide(texts, look.source_width), 16)
        columns.append(
            _Column(
                "Source Location",
                lambda e: _cut_left(e.stack[0], width) if e.stack else "",
                width,
                left=True,
            )
        )
    return columns


def _cut_right(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _cut_left(text: str, width: int) -> str:
    """The end of a path says more than its beginning."""
    return text if len(text) <= width else "..." + text[-(width - 3) :]
