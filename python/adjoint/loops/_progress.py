"""Progress bars of long loops.

A loop that may show one runs in pieces of about a tenth of a second; the bar appears when the loop
has taken two seconds. Where nobody would see it the loop runs as a whole.
"""

from __future__ import annotations

import time
from typing import Any

from adjoint._progress import PATIENCE, Bar, is_seen, thread

__all__ = ["LoopBar", "bar_for"]

_PIECE = 0.1  # seconds


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

    def begin_at(self, steps: int) -> None:
        """So many steps have run before."""
        self._done = steps

    def ran(self, steps: int, since: float, counted: bool) -> None:
        """Steps have run since a time; those that are run again are not counted."""
        now = time.monotonic()
        taken = max(now - since, 1e-6)
        self._piece = min(max(int(steps * _PIECE / taken), 1), 2 * self._piece)
        self._done += steps if counted else 0
        if self._bar is None and now - self._start >= PATIENCE:
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
        if not thread.shows and is_seen():
            self._bar = LoopBar(*self._given)
            thread.shows = True
        return self._bar

    def __exit__(self, *_: Any) -> None:
        if self._bar is not None:
            thread.shows = False
            self._bar.stop()
