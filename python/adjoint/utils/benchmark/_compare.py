"""Measurements side by side: a table for each label, a row for each statement."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from adjoint.utils.benchmark._measurement import (
    Measurement,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)


class Colorize(enum.Enum):
    """What is set off by colour; tables here are plain text."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Show measurements as tables.

    Parameters
    ----------
    results
        Measurements. One table for each label; columns by description, rows by sub-label, or by
        the statement, and number of threads.
    """

    def __init__(self, results: list[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = False
        self._highlight = False

    def __str__(self) -> str:
        return "\n".join(self._render())

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError(
                    f"Expected an instance of `Measurement`, got {type(result)} instead."
                )
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Show no more digits than mean something."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Accepted: tables are plain text."""

    def highlight_warnings(self) -> None:
        """Mark times that vary much."""
        self._highlight = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def _render(self) -> list[str]:
        results = Measurement.merge(self._results)
        labels = ordered_unique(r.task_spec.label for r in results)
        return [self._table([r for r in results if r.task_spec.label == label]) for label in labels]

    def _table(self, results: list[Measurement]) -> str:
        columns = ordered_unique(r.task_spec.description for r in results)
        unit, scale = select_unit(min(r.median for r in results))
        has_env = any(r.task_spec.env is not None for r in results)
        names = ordered_unique((r.env if has_env else "", r.as_row_name) for r in results)
        cells = {
            (
                r.task_spec.num_threads,
                (r.env if has_env else "", r.as_row_name),
                r.task_spec.description,
            ): self._cell(r, scale)
            for r in results
        }
        titles = [column if column is not None else "" for column in columns]
        shown = {name: f"{f'({name[0]}) ' if name[0] else ''}{name[1]}" for name in names}
        first = max(len(text) for text in shown.values()) + 6
        widths = [
            max(len(title), *(len(cells.get((t, name, column), "")) for t, name, _ in cells)) + 2
            for title, column in zip(titles, columns, strict=True)
        ]
        head = " " * first + "".join(
            f"  |  {title:>{width - 2}}" for title, width in zip(titles, widths, strict=True)
        )
        label = results[0].task_spec.label or results[0].task_spec.stmt.splitlines()[0]
        lines = [f"[{f' {label} ':-^{max(len(head) - 2, len(label) + 4)}}]", head]
        for threads in sorted({r.task_spec.num_threads for r in results}):
            title = f"{threads} threads: "
            lines.append(title + "-" * max(len(head) - len(title), 5))
            for name in names:
                row = [cells.get((threads, name, column), "") for column in columns]
                if any(row):
                    lines.append(
                        f"      {shown[name]:<{first - 6}}"
                        + "".join(
                            f"  |  {cell:>{width - 2}}"
                            for cell, width in zip(row, widths, strict=True)
                        )
                    )
        lines += ["", f"Times are in {unit_to_english(unit)}s ({unit}).", ""]
        if self._highlight and any(r.has_warnings for r in results):
            lines.append("(!) the quartiles are more than 10% of the median apart")
        return "\n".join(lines)

    def _cell(self, result: Measurement, scale: float) -> str:
        value = result.median / scale
        if self._trim:
            value = trim_sigfig(value, result.significant_figures)
        mark = "(!) " if self._highlight and result.has_warnings else ""
        return f"{mark}{value:.1f}"
