"""Why a call cannot be replayed, and the line that people are told. Read next: `_walk`."""

from __future__ import annotations

from types import FrameType
from typing import NamedTuple

from ._names import place_of
from ._visible import is_library

__all__ = ["Refusal", "Stopped", "Unguardable", "user_line"]


class Refusal(NamedTuple):
    """Why a call cannot be replayed, and where: ``model.py:12   print(x)``."""

    reason: str
    where: str


class Stopped(BaseException):
    """A backward pass that runs for its recording alone must not go on."""


class Unguardable(Exception):
    """Something cannot be guarded: the reason, and what it was reached by."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason)
        self.reason, self.path = reason, path


def user_line(frame: FrameType) -> str:
    """The line of the user's code that leads to a frame."""
    at: FrameType | None = frame
    while at is not None and is_library(at.f_code.co_filename):
        at = at.f_back
    return "" if at is None else place_of(at.f_code, at.f_lineno)
