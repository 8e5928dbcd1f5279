"""What graphs are alive, by source line: the first thing to look at when memory grows."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field

from adjoint import _core
from adjoint._core import Node

from . import _lines

_Key = tuple[_lines.Source | None, str]
_last: dict[_Key, tuple[int, int]] | None = None  # of the call before


@dataclass(frozen=True)
class ReportRow:
    """The live nodes that one line made by one op.

    Attributes
    ----------
    source : tuple of str and int, or None
        File and line.
    op : str
        The op.
    nodes : int
        Live nodes.
    bytes : int
        Memory they keep for the backward pass; memory kept by several nodes counts at the oldest.
    nodes_growth, bytes_growth : int
        Since the call before.
    """

    source: _lines.Source | None
    op: str
    nodes: int
    bytes: int
    nodes_growth: int
    bytes_growth: int


@dataclass(frozen=True)
class GraphReport:
    """All live graph nodes, by line; the result of `graph_report`.

    Attributes
    ----------
    rows : list of ReportRow
        Most memory first.
    nodes, bytes : int
        Totals.
    nodes_growth, bytes_growth : int or None
        Since the call before; None for the first call.
    """

    rows: list[ReportRow]
    nodes: int
    bytes: int
    nodes_growth: int | None
    bytes_growth: int | None
    _limit: int = field(default=20, repr=False)

    def __str__(self) -> str:
        return self.table(self._limit)

    def _repr_html_(self) -> str:
        from adjoint.notebook import text_html

        return text_html(str(self))

    def table(self, limit: int | None = 20) -> str:
        """The report as text, with at most ``limit`` lines; None for all."""
        title = f"graphs alive: {self.nodes:,} nodes keep {_lines.size(self.bytes)}"
        if self.nodes_growth is not None and self.bytes_growth is not None:
            title += (
                f"; since the last report {_signed(self.nodes_growth)} nodes, "
                f"{_signed_size(self.bytes_growth)}"
            )
        if not self.rows:
            return title
        head = ("nodes", "growth", "bytes", "growth", "op", "line")
        shown = self.rows if limit is None else self.rows[:limit]
        cells = [head, *(self._cells(row) for row in shown)]
        widths = [max(len(c[k]) for c in cells) for k in range(6)]
        lines = [title]
        for c in cells:
            numbers = "  ".join(c[k].rjust(widths[k]) for k in range(4))
            lines.append(f"{numbers}  {c[4].ljust(widths[4])}  {c[5]}".rstrip())
        if len(shown) < len(self.rows):
            lines.append(f"... and {len(self.rows) - len(shown):,} more lines")
        return "\n".join(lines)

    def _cells(self, row: ReportRow) -> tuple[str, str, str, str, str, str]:
        first = self.nodes_growth is None
        return (
            f"{row.nodes:,}",
            "" if first else _signed(row.nodes_growth),
            _lines.size(row.bytes),
            "" if first else _signed_size(row.bytes_growth),
            row.op,
            _lines.described(row.source),
        )


def _signed(count: int) -> str:
    return f"{count:+,}" if count else "0"


def _signed_size(count: int) -> str:
    return ("-" if count < 0 else "+" if count else "") + _lines.size(abs(count))


def graph_report() -> GraphReport:
    """What graphs are alive: nodes and the memory they keep, by source line, and their growth.

    A program whose memory grows keeps graphs alive: usually by adding up losses instead of
    ``loss.item()``, or by storing results that still have a history. Call this once per epoch: the
    line that grows is the line whose results are kept.

    Returns
    -------
    GraphReport
        Print it, or read its ``rows``.

    Examples
    --------
    >>> import gc
    >>> import adjoint as ad
    >>> _ = gc.collect()
    >>> before = ad.graph_report()
    >>> x = ad.ones(1000, requires_grad=True)
    >>> kept = [(x * i).exp() for i in range(10)]
    >>> report = ad.graph_report()
    >>> report.nodes_growth, report.bytes_growth
    (20, 40000)
    """
    global _last
    now = _measure()
    before, _last = _last, now
    old = before or {}
    keys = list(now) + [k for k in old if k not in now]
    rows = [_row(k, now.get(k, (0, 0)), old.get(k, (0, 0))) for k in keys]
    rows.sort(key=lambda r: (-r.bytes, -r.nodes, r.op))
    nodes = sum(r.nodes for r in rows)
    held = sum(r.bytes for r in rows)
    return GraphReport(
        [r for r in rows if r.nodes or r.nodes_growth or r.bytes_growth],
        nodes,
        held,
        None if before is None else nodes - sum(n for n, _ in before.values()),
        None if before is None else held - sum(b for _, b in before.values()),
    )


def _row(key: _Key, now: tuple[int, int], before: tuple[int, int]) -> ReportRow:
    return ReportRow(*key, *now, now[0] - before[0], now[1] - before[1])


def _measure() -> dict[_Key, tuple[int, int]]:
    from ._view import _op_label, no_collection

    with no_collection():
        _core._see_everything()
        live = [o for o in gc.get_objects() if issubclass(type(o), Node)]
        live.sort(key=Node._sequence_nr)
        facts = [_core._node_facts(n) for n in live]
        # Leaves would be there without a graph, and so would their memory.
        seen = {
            _core._storage(n.variable)[0]
            for n, f in zip(live, facts, strict=True)
            if f[0] == "AccumulateGrad" and hasattr(n, "variable")
        }
        found: dict[_Key, tuple[int, int]] = {}
        for name, op, _, held, source, _, _ in facts:
            if name == "AccumulateGrad":
                continue
            key = (source, _op_label(name, op))
            nodes, total = found.get(key, (0, 0))
            for start, whole, _own in held:
                if start not in seen:
                    seen.add(start)
                    total += whole
            found[key] = (nodes + 1, total)
    return found
