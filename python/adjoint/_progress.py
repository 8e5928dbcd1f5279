"""One progress bar for everything that takes long: by rich on a terminal, as HTML in a notebook.

Used by loops, externals and solvers, each of which decides when a bar is worth showing.
"""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable
from html import escape
from typing import Any, TypeVar

__all__ = ["PATIENCE", "Bar", "CallsBar", "is_seen", "thread"]

_F = TypeVar("_F", bound=Callable[..., Any])

PATIENCE = 2.0  # seconds, after which a bar is worth showing

_BETWEEN = 0.1  # seconds from one picture in a notebook to the next


def is_seen() -> bool:
    """Whether somebody sees a bar: standard error is a terminal, or a notebook runs this."""
    return in_notebook() or _is_terminal(sys.stderr)


_asked: tuple[Any, bool] = (None, False)  # asking takes longer than a short loop


def _is_terminal(stream: Any) -> bool:
    global _asked
    known, answer = _asked
    if stream is not known:
        answer = stream is not None and stream.isatty()
        _asked = stream, answer
    return answer


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which shows what `IPython.display` is given."""
    ipython = sys.modules.get("IPython")  # a kernel has imported it
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


class _Thread(threading.local):
    shows = False  # a bar of something around this, which stands for it too


thread = _Thread()


class Bar:
    """How far something is; shown from the start, taken away by `stop`.

    Parameters
    ----------
    text
        What is shown beside the bar.
    total
        How many steps there are; None if that is not known.
    stays
        Leave the last picture where it is, if it is not on a terminal.
    """

    def __init__(self, text: str, total: int | None, stays: bool = False) -> None:
        kind = _InNotebook if in_notebook() else _OnTerminal
        self._shown: _InNotebook | _OnTerminal = kind(text, total, stays)

    def show(self, done: int, text: str | None = None) -> None:
        """So much is done; the text beside it changes if a new one is given."""
        self._shown.show(done, text)

    def stop(self) -> None:
        """Take it away."""
        self._shown.stop()


class _OnTerminal:
    def __init__(self, text: str, total: int | None, stays: bool) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=not stays or sys.stderr.isatty(),
        )
        self._bar.start()
        self._task = self._bar.add_task(text, total=total)

    def show(self, done: int, text: str | None) -> None:
        self._bar.update(self._task, completed=done, description=text)

    def stop(self) -> None:
        self._bar.stop()


class _InNotebook:
    """A ``<progress>`` that is drawn anew a few times a second; needs no widgets."""

    def __init__(self, text: str, total: int | None, stays: bool) -> None:
        self._text, self._total, self._stays = text, total, stays
        self._start = self._last = time.monotonic()
        self._pictures: Any = importlib.import_module("IPython.display")
        self._place = self._pictures.display(self._picture(0), display_id=True)

    def show(self, done: int, text: str | None) -> None:
        self._text = self._text if text is None else text
        now = time.monotonic()
        if now - self._last >= _BETWEEN or done == self._total:
            self._last = now
            self._place.update(self._picture(done))

    def _picture(self, done: int) -> Any:
        if self._total is None:
            state, count = "", f"{done:,}"
        else:
            state = f' value="{done}" max="{max(self._total, 1)}"'
            count = f"{done:,}/{self._total:,}{self._left(done)}"
        return self._pictures.HTML(
            '<div style="font-family:monospace">'
            f"{escape(self._text)} <progress{state}></progress> {count}</div>"
        )

    def _left(self, done: int) -> str:
        if not done or self._total is None:
            return ""
        seconds = round((time.monotonic() - self._start) * (self._total - done) / done)
        return f" {seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"

    def stop(self) -> None:
        if not self._stays:
            self._place.update(self._pictures.HTML(""))


class CallsBar:
    """A line for the length of a block that counts calls, such as those of a solver of others'.

    It appears when the block has taken two seconds, unless another bar is there. Until then loops
    in the block may show theirs.
    """

    def __init__(self, text: str, total: int | None = None) -> None:
        self._text, self._total, self._done = text, total, 0
        self._start = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> CallsBar:
        return self

    def counting(self, function: _F) -> _F:
        """The function, whose calls are counted."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self.count()
            return result

        return counted  # type: ignore[return-value]

    def count(self, text: str | None = None) -> None:
        """One more; the text beside it changes if a new one is given."""
        self._done += 1
        if self._bar is None:
            if time.monotonic() - self._start < PATIENCE or thread.shows or not is_seen():
                return
            self._bar, thread.shows = Bar(self._text, self._total), True
        self._bar.show(self._done, text)

    @property
    def is_shown(self) -> bool:
        """Whether it has appeared."""
        return self._bar is not None

    def stop(self) -> None:
        """Take it away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar, thread.shows = None, False

    def __exit__(self, *_: Any) -> None:
        self.stop()
