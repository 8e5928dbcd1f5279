"""Queues of work on a GPU, and the choice of one: names for programs that guard their use."""

from __future__ import annotations

from typing import Any

from adjoint.cuda._absent import AbsentClass, no_gpu

__all__ = ["Event", "ExternalStream", "Stream", "StreamContext", "device", "device_of", "stream"]


class Stream(AbsentClass):
    """A queue of work on a GPU."""


class ExternalStream(Stream):
    """A queue of work that another library made."""


class Event(AbsentClass):
    """A mark in a queue of work on a GPU."""


class StreamContext:
    """A ``with`` block whose work goes to a stream; with None, an ordinary block."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            no_gpu()

    def __exit__(self, *_: Any) -> None:
        pass


def stream(stream: Stream | None) -> StreamContext:
    """Return a ``with`` block whose work goes to a stream; with None, an ordinary block."""
    return StreamContext(stream)


class device:
    """A ``with`` block in which another GPU is the current one; a negative number changes nothing.

    Parameters
    ----------
    device
        Its number, or None.
    """

    def __init__(self, device: Any) -> None:
        self.idx = device if isinstance(device, int) else getattr(device, "index", None)
        self._wanted = device

    def __enter__(self) -> None:
        if self._wanted is not None and not (isinstance(self.idx, int) and self.idx < 0):
            no_gpu()

    def __exit__(self, *_: Any) -> None:
        pass


class device_of(device):
    """The same for the GPU of a tensor, which is none: an ordinary block."""

    def __init__(self, obj: Any) -> None:
        super().__init__(-1)
