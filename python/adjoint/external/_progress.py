"""A progress bar for the evaluations of a Jacobian, shown only when they take long."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

__all__ = ["Progress"]

_AFTER = 2.0  # seconds of silence


class Progress:
    """Counts results; draws a bar after two seconds, if standard error is a terminal.

    ``show`` is None for that, True for a bar at once, False for none.
    """

    def __init__(self, name: str, total: int, show: bool | None) -> None:
        self.name, self.total, self.show = name, total, show
        self.bar: Any = None
        self.task: Any = None
        self.start = 0.0

    def __enter__(self) -> Progress:
        self.start = time.perf_counter()
        if self.show:
            self._open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def each(self, results: Iterable[Any]) -> Iterator[Any]:
        """Hand results on, and count them."""
        for done, result in enumerate(results, 1):
            if self.bar is not None:
                self.bar.update(self.task, completed=done)
            elif self.show is None and time.perf_counter() - self.start > _AFTER:
                if sys.stderr is not None and sys.stderr.isatty():
                    self._open()
                else:
                    self.show = False
            yield result

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self.bar = Bar(
            *columns,
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=sys.stderr.isatty(),
        )
        self.bar.start()
        self.task = self.bar.add_task(f"derivative of {self.name}", total=self.total)
