"""Queues of work on the CPU: there is one, and what a call returns is done."""

from __future__ import annotations

from typing import Any

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "stream"]


class Stream:
    """A queue of work, which is always empty."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Do nothing."""

    def record_event(self) -> None:
        """Do nothing."""

    def wait_event(self, event: Any) -> None:
        """Do nothing."""


class Event:
    """A mark in a queue of work; everything before it is done."""

    def query(self) -> bool:
        """Return True."""
        return True

    def record(self, stream: Any = None) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def wait(self, stream: Any = None) -> None:
        """Do nothing."""


_current = [Stream()]


def current_stream(device: Any = None) -> Stream:
    """The queue of the current block."""
    return _current[-1]


class StreamContext:
    """A ``with`` block whose work goes to a queue; with None, an ordinary block."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        _current.append(_current[-1] if self.stream is None else self.stream)

    def __exit__(self, *_: object) -> None:
        _current.pop()


def stream(stream: Stream | None) -> StreamContext:
    """A ``with`` block whose work goes to a queue."""
    return StreamContext(stream)
