"""A file that is being read: nothing is allocated before its size was compared with the file's."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import IO, Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.serialization._errors import LoadError, shown

__all__ = ["Source", "elements", "room"]


class Source:
    """The bytes of a file from its present position on.

    Attributes
    ----------
    size
        How many there are.
    end
        Where the object ends that was read: in most formats, at the end of the file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        try:
            self._base = file.tell()
            file.seek(0, io.SEEK_END)
            self.size = file.tell() - self._base
        except (OSError, AttributeError, io.UnsupportedOperation):
            data = file.read()  # a pipe: its size is known at its end
            self._file, self._base, self.size = io.BytesIO(data or b""), 0, len(data or b"")
        self.end = self.size

    def read(self, start: int, size: int) -> bytes:
        """These bytes, all of them."""
        self._check(start, size)
        self._file.seek(self._base + start)
        data = self._file.read(size)
        if not isinstance(data, bytes):
            raise TypeError("load() reads binary files; open it with mode 'rb'")
        while len(data) < size:  # a file without a buffer may give a part only
            part = self._file.read(size - len(data))
            if not part:
                raise LoadError(f"it ended at byte {start + len(data)} while it was being read")
            data += part
        return data

    def read_into(self, start: int, target: Tensor) -> None:
        """Fill a row of bytes."""
        size = target.numel()
        self._check(start, size)
        if size == 0:
            return
        buffer: Any = target
        view, filled = memoryview(buffer), 0
        self._file.seek(self._base + start)
        readinto = getattr(self._file, "readinto", None)
        while filled < size:
            if readinto is not None:
                count = readinto(view[filled:]) or 0
            else:
                part = self._file.read(min(size - filled, 1 << 24))
                count = len(part)
                view[filled : filled + count] = part
            if count == 0:
                raise LoadError(f"it ended at byte {start + filled} while it was being read")
            filled += count

    def finish(self) -> None:
        """Leave the file at the end of what was read."""
        self._file.seek(self._base + self.end)

    def window(self) -> IO[bytes]:
        """The same bytes as a file of their own, for readers that seek."""
        return io.BufferedReader(_Window(self), 1 << 16)

    def _check(self, start: int, size: int) -> None:
        if start < 0 or size < 0 or start + size > self.size:
            raise LoadError(
                f"it has {self.size} bytes, and {size} should be at byte {start}; is it complete?"
            )


class _Window(io.RawIOBase):
    def __init__(self, source: Source) -> None:
        self._source, self._at = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._source.size}[whence]
        if origin + offset < 0:
            raise ValueError(f"negative seek position {origin + offset}")
        self._at = origin + offset
        return self._at

    def readinto(self, target: Any) -> int:
        view = memoryview(target).cast("B")
        count = max(min(len(view), self._source.size - self._at), 0)
        view[:count] = self._source.read(min(self._at, self._source.size), count)
        self._at += count
        return count


def elements(shape: Any, item: int, what: str) -> int:
    """The number of bytes of a tensor of this shape, which a file gives."""
    from adjoint.serialization._formats import MAX_AXES

    shape = list(shape) if isinstance(shape, tuple) else shape
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise LoadError(f"{what} has the shape {shown(shape)}")
    if len(shape) > MAX_AXES:
        raise LoadError(f"{what} has {len(shape)} axes, and a tensor has at most {MAX_AXES}")
    count, extent = item, item
    for n in shape:
        count *= n
        extent *= max(n, 1)  # strides are products of the lengths, also beside a zero
        if extent >= 2**63:
            raise LoadError(f"{what} has the shape {shown(shape)}, which is too large")
    return count


def room(shape: Sequence[int], dtype: _core.dtype) -> Tensor:
    """A tensor to be filled, of which the file has all elements."""
    try:
        made: Tensor = _core.empty(shape, dtype=dtype)
    except RuntimeError as error:  # the hole of a sparse file is larger than this machine's memory
        raise LoadError(str(error)) from None
    return made
