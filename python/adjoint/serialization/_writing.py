"""Writing all of a buffer to a file that may take it in parts."""

from __future__ import annotations

from errno import EAGAIN
from io import RawIOBase
from typing import IO, Any

__all__ = ["write_all"]


def write_all(file: IO[bytes], data: bytes | bytearray | memoryview) -> None:
    """All of it: a file without a buffer may take a part only, or none at the moment."""
    view = memoryview(data)
    while len(view):
        count: Any = file.write(view)
        if count == 0 or (count is None and isinstance(file, RawIOBase)):
            raise BlockingIOError(EAGAIN, f"cannot save: the file takes none of {len(view)} bytes")
        if not isinstance(count, int) or count >= len(view):  # some objects do not tell
            return
        view = view[count:]
