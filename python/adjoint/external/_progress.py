"""A progress bar for the evaluations of a Jacobian."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Bar", "wanted_now"]


def wanted_now() -> bool:
    """Whether somebody sees a bar that was not asked for: standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


class Bar:
    """A bar on standard error, from the first result to the last."""

    def __init__(self, name: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar: Any = Progress(
            *columns,
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=sys.stderr.isatty(),
        )
        self._bar.start()
        self._task = self._bar.add_task(f"derivative of {name}", total=total)

    def show(self, done: int) -> None:
        """So many evaluations are done."""
        self._bar.update(self._task, completed=done)

    def stop(self) -> None:
        """Leave it, or take it away on a terminal."""
        self._bar.stop()
