"""`adjoint.profile()`: time and memory by line and by operation, forward and backward apart.

The sums are kept natively (the tally of ``src/dispatch/profile.h``), so it costs little and has no
list of events; for those see `adjoint.profiler.profile`. Read next: ``_flame.py``, the page.
"""

from __future__ import annotations

import io
import linecache
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from adjoint import _core

from ._events import Kind

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

__all__ = ["Cost", "LineProfile", "Row", "profile"]

_SHOWN = 12  # rows of a table


@dataclass(frozen=True)
class Row:
    """All calls of one operation from one line.

    Attributes
    ----------
    op : str
        The operation; of a backward pass also the name of a node (what its rule takes by itself,
        and handing on the result), and ``"handing on"`` where hooks run or a gradient ends.
    file, line : str and int
        The line of the program; ``""`` and 0 if there is none. Backward work belongs to the line
        of the forward call.
    backward : bool
        Whether it ran in a backward pass.
    count : int
        How often.
    seconds : float
        How long, without what ran inside.
    bytes : int
        Memory that it allocated and did not give back.
    looked_at : int
        How many of the calls were looked at, by chance: what is said of all is estimated from them.
    error : float
        Standard error of ``seconds``, at most; 0 where all calls were looked at.
    count_error : float
        The same of ``count``.
    """

    op: str
    file: str
    line: int
    backward: bool
    count: int
    seconds: float
    bytes: int
    looked_at: int
    error: float
    count_error: float


@dataclass
class Cost:
    """What a line or an operation took, with standard errors of seconds and count, at most."""

    forward: float = 0.0
    backward: float = 0.0
    count: int = 0
    bytes: int = 0
    error: float = 0.0
    count_error: float = 0.0

    @property
    def seconds(self) -> float:
        """Both directions together."""
        return self.forward + self.backward

    def add(self, row: Row) -> None:
        """Add a row."""
        if row.backward:
            self.backward += row.seconds
        else:
            self.forward += row.seconds
            self.bytes += row.bytes
        self.count += row.count
        # The variance of a sum is at most that of its parts: of one stratum, one call is looked at.
        self.error = math.hypot(self.error, row.error)
        self.count_error = math.hypot(self.count_error, row.count_error)


class LineProfile:
    """What `profile` found; ``print`` it, or ``save("profile.html")``.

    Attributes
    ----------
    seconds : float
        From the start to the end.
    rows : list of Row
        By operation, line and direction, the longest first.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.rows: list[Row] = []
        self._start: float | None = None

    def __enter__(self) -> LineProfile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin; what was found before is forgotten."""
        _core._tally_start()
        self._start = time.perf_counter()

    def stop(self) -> None:
        """End, and sum up."""
        if self._start is None:
            raise RuntimeError("the profile was not started.\n  fix: use `with ad.profile() as p:`")
        self.seconds = time.perf_counter() - self._start
        self._start = None
        self.rows = _rows(_core._tally_stop())

    @property
    def lines(self) -> dict[tuple[str, int], Cost]:
        """By file and line, the longest first."""
        return self._by(lambda row: (row.file, row.line))

    @property
    def ops(self) -> dict[str, Cost]:
        """By operation, the longest first."""
        return self._by(lambda row: row.op)

    def _by(self, key: Callable[[Row], Any]) -> dict[Any, Cost]:
        found: defaultdict[Any, Cost] = defaultdict(Cost)
        for row in self.rows:
            found[key(row)].add(row)
        return dict(sorted(found.items(), key=lambda item: -item[1].seconds))

    @property
    def outside(self) -> float:
        """Seconds that no operation took: Python, other libraries, waiting."""
        return max(self.seconds - sum(row.seconds for row in self.rows), 0.0)

    @property
    def note(self) -> str:
        """What is estimated, in words; empty if everything was looked at."""
        calls = sum(row.count for row in self.rows)
        seen = sum(row.looked_at for row in self.rows)
        if not any(row.count_error for row in self.rows):
            return ""
        return (
            f"~ and ±: estimated from {seen:,} of about {calls:,} calls, drawn by chance; "
            "± is one standard error"
        )

    def __str__(self) -> str:
        from rich.console import Console

        stream = io.StringIO()
        console = Console(file=stream, width=110, color_system=None, force_jupyter=False)
        console.print(self.__rich__())
        return "\n".join(line.rstrip() for line in stream.getvalue().rstrip().splitlines())

    def __rich__(self) -> RenderableType:
        from rich.console import Group

        inside = self.seconds - self.outside
        title = (
            f"{_time(self.seconds)}: {_time(inside)} in operations, {_time(self.outside)} outside"
        )
        by_line = self._table("line", {_place(*key): cost for key, cost in self.lines.items()})
        note = ["", self.note] if self.note else []
        return Group(title, "", by_line, "", self._table("operation", self.ops), *note)

    def _table(self, what: str, costs: dict[str, Cost]) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in ("forward", "backward", "share", "calls", "bytes kept"):
            table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
        table.add_column(what, no_wrap=True, overflow="ellipsis")
        for name, cost in list(costs.items())[:_SHOWN]:
            times = [_time(s) if s else "" for s in (cost.forward, cost.backward)]
            # Text, not markup: `x[loss]` would be taken for a style.
            figures = [self._share(cost), _count(cost), _size(cost.bytes)]
            table.add_row(*times, *figures, Text(name))
        if len(costs) > _SHOWN:
            table.add_row("", "", "", "", "", f"... {len(costs) - _SHOWN} more")
        return table

    def _share(self, cost: Cost) -> str:
        whole = self.seconds or math.inf
        error = f" ±{100 * cost.error / whole:.1f}" if cost.error > 0.0005 * whole else ""
        return f"{100 * cost.seconds / whole:.1f}%{error}"

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write a page with a flame view and the tables: one file that needs nothing else."""
        from adjoint import _pages
        from adjoint.profiler._flame import page

        return _pages.write(page(self), path)

    def _repr_html_(self) -> str:
        from adjoint.notebook import rich_html

        return rich_html(self.__rich__())


def profile() -> LineProfile:
    """Time and memory of what runs inside, by line and by operation, forward and backward apart.

    Returns
    -------
    LineProfile
        A context manager; afterwards ``print`` it, ask for ``lines``, ``ops`` and ``rows``, or
        ``save("profile.html")``, a page with a flame view.

    Notes
    -----
    The first 256 calls of each operation (by size of its operands, a power of 16) are all looked
    at, and so is whatever lasts longer than about 20 microseconds. Of shorter calls one in so many
    is looked at, drawn by chance, that looking takes about a hundredth of the time; it stands for
    all of them. So the calls of an operation are counted, but how lines share them, their times
    and their bytes are estimates without bias, each with its standard error (`Row`). A call that
    took a hundred times as long as others of its kind, and more than 30 microseconds, stands for
    itself alone: the garbage collector or another program had its turn meanwhile. A run is 1 to 5 %
    slower, whether it is a training step or a loop on three numbers.
    It looks at the thread that started it, and at backward passes of that thread.

    The page of a graph that was recorded inside (``adjoint.graph(y).save("graph.html")``) shows how
    long the call took that made each node.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.ones(1000, requires_grad=True)
    >>> with ad.profile() as p:
    ...     for _ in range(3):
    ...         y = (x.exp() * x).sum()
    ...         y.backward()
    >>> p.ops["exp"].count, p.ops["exp"].bytes > 0
    (3, True)
    """
    return LineProfile()


def _rows(raw: list[tuple[Any, ...]]) -> list[Row]:
    """One row for all places of a line where an operation is called."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in map(_row, raw):
        key = row.op, row.file, row.line, row.backward
        found[key] = _added(found[key], row) if key in found else row
    return sorted(found.values(), key=lambda row: -row.seconds)


def _added(a: Row, b: Row) -> Row:
    return replace(
        a,
        count=a.count + b.count,
        seconds=a.seconds + b.seconds,
        bytes=a.bytes + b.bytes,
        looked_at=a.looked_at + b.looked_at,
        error=math.hypot(a.error, b.error),
        count_error=math.hypot(a.count_error, b.count_error),
    )


def _row(raw: tuple[Any, ...]) -> Row:
    name, kind, backward, where, count, nanoseconds, memory, seen, error, count_error = raw
    file, line, _ = where or ("", 0, "")
    op = name.rpartition("::")[2] if Kind(kind) is Kind.NODE else name
    errors = error / 1e9, count_error
    return Row(op, file, line, backward, count, nanoseconds / 1e9, memory, seen, *errors)


def _place(file: str, line: int) -> str:
    if not file:
        return "(leaves)"
    return f"{os.path.basename(file)}:{line}  {linecache.getline(file, line).strip()}"


def _count(cost: Cost) -> str:
    return f"{'~' if cost.count_error else ''}{cost.count:,}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1 or unit == "us":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


def _size(count: int) -> str:
    from adjoint.graph._lines import size

    return size(count) if count > 0 else ""
