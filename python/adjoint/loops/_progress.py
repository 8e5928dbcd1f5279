"""Progress bars of long loops.

A loop that may show one runs in pieces of about a tenth of a second; the bar appears when the loop
has taken two seconds. Where nobody would see it the loop runs as a whole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from adjoint._progress import Bar, is_seen

__all__ = ["CallsBar", "LoopBar", "bar_for"]

_F = TypeVar("_F", bound=Callable[..., Any])

_PIECE = 0.1  # seconds
_PATIENCE = 2.0


class _Thread(threading.local):
    shows = False  # a loop around this one has a bar


_thread = _Thread()


class LoopBar:
    """How far a loop is.

    Parameters
    ----------
    text
        What is shown beside the bar.
    total
        How many steps there are; None if that is not known.
    """

    def __init__(self, text: str, total: int | None) -> None:
        self._text, self._total = text, total
        self._piece = 1
        self._done = 0
        self._start = time.monotonic()
        self._bar: Bar | None = None

    def piece(self) -> int:
        """How many steps should run before the next look at the clock."""
        return self._piece

    def ran(self, steps: int, since: float, counted: bool) -> None:
        """Steps have run since a time; those that are run again are not counted."""
        now = time.monotonic()
        taken = max(now - since, 1e-6)
        self._piece = min(max(int(steps * _PIECE / taken), 1), 2 * self._piece)
        self._done += steps if counted else 0
        if self._bar is None and now - self._start >= _PATIENCE:
            self._bar = Bar(self._text, self._total)
        if self._bar is not None:
            self._bar.show(self._done)

    def stop(self) -> None:
        """Take it away."""
        if self._bar is not None:
            self._bar.stop()


class bar_for:
    """A bar for the length of a block, where somebody sees it and no other is there."""

    # A class, as entering a generator takes longer than a short loop.
    __slots__ = ("_bar", "_given")

    def __init__(self, text: str, total: int | None) -> None:
        self._given = text, total

    def __enter__(self) -> LoopBar | None:
        self._bar: LoopBar | None = None
        if not _thread.shows and is_seen():
            self._bar = LoopBar(*self._given)
            _thread.shows = True
        return self._bar

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            _thread.shows = False
            self._bar.stop()


class CallsBar:
    """A line for the length of a block that counts calls, such as those of a solver of others'.

    It appears when the block has taken two seconds, unless another bar is there. Until then loops
    in the block may show theirs.
    """

    def __init__(self, text: str) -> None:
        self._text, self._done = text, 0
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
            if time.monotonic() - self._start < _PATIENCE or _thread.shows or not is_seen():
                return
            self._bar, _thread.shows = Bar(self._text, None), True
        self._bar.show(self._done, text)

    @property
    def is_shown(self) -> bool:
        """Whether it has appeared."""
        return self._bar is not None

    def stop(self) -> None:
        """Take it away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar, _thread.shows = None, False

    def __exit__(self, *_: Any) -> None:
        self.stop()
