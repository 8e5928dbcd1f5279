"""Writing files as PyTorch's ``save`` lays them out: a pickle, and the storages beside it.

A zip file of which nothing is compressed. Every record begins at a multiple of 64 bytes, by padding
in its header, so that a reader can map the file and use the elements where they are. Checksums and
lengths stand behind a record, so that it is written in one pass and from its own memory.
Read next: `_torch_files`, the reader.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator
from typing import IO, Any

from adjoint.serialization import _settings
from adjoint.serialization._checksum import crc32
from adjoint.serialization._storages import Storages
from adjoint.serialization._writing import write_all

__all__ = ["ALIGNMENT", "ArchiveWriter", "write_archive"]

ALIGNMENT = 64
_LARGE = 0xFFFFFFFF  # from here on lengths and places have 8 bytes, in extra fields
_UTF8, _LENGTHS_BEHIND = 1 << 11, 1 << 3
_SMALL, _CHUNK = 1 << 14, 1 << 20  # a checksum is computed while the bytes are in the cache

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END64 = struct.Struct("<4sQ2H2L4Q")
_LOCATOR64 = struct.Struct("<4sLQL")
_END = struct.Struct("<4s4H2LH")


def write_archive(file: IO[bytes], pickle: bytes, storages: Storages, order: bool = True) -> None:
    """Write an archive with this pickle and these storages.

    ``order`` says whether it has a record about the order of bytes.
    """
    archive = ArchiveWriter(file, _settings.get_crc32_options())
    archive.record("data.pkl", pickle)
    archive.record(".format_version", b"1")
    archive.record(".storage_alignment", str(ALIGNMENT).encode())
    if order:
        archive.record("byteorder", sys.byteorder.encode())
    for record in storages.records():
        if _settings.skips_data():
            archive.room(f"data/{record.key}", record.size)
        else:
            archive.record(f"data/{record.key}", *record.pieces)
    archive.record("version", b"3\n")
    archive.finish()


class ArchiveWriter:
    """Writes records one after the other; `finish` writes the list of them.

    Parameters
    ----------
    file
        Has ``write``; is not asked to seek.
    check
        Whether records get checksums.
    """

    def __init__(self, file: IO[bytes], check: bool = True) -> None:
        self._file, self._check, self._at = file, check, 0
        self._entries: list[tuple[bytes, int, int, int, int]] = []
        self._held = bytearray()  # small pieces, to be written at once

    def record(self, name: str, *pieces: Any) -> None:
        """Add a record with these buffers one after the other as its bytes."""
        views = [memoryview(piece).cast("B") for piece in pieces if len(piece)]
        size, path = sum(map(len, views)), f"archive/{name}".encode()
        start = self._begin(path, size)
        check = 0
        for view in _chunks(views):
            if self._check:
                check = crc32(view, check)
            self._write(view)
        self._end(path, start, size, check)

    def room(self, name: str, size: int) -> None:
        """Add a record of zeros without a checksum, to be filled later by another program."""
        path = f"archive/{name}".encode()
        start = self._begin(path, size)
        for at in range(0, size, _CHUNK):
            self._write(bytes(min(_CHUNK, size - at)))
        self._end(path, start, size, 0)

    def _begin(self, path: bytes, size: int) -> int:
        start = self._at
        extra = _lengths(size, size, start)
        # PyTorch computes where records are from this rule: a field "FB" fills up to a multiple.
        used = start + _LOCAL.size + len(path) + len(extra) + 4
        padding = -used % ALIGNMENT
        extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        flags = _UTF8 | (_LENGTHS_BEHIND if size else 0)
        self._write(_LOCAL.pack(b"PK\x03\x04", 0, flags, 0, 0, 0, 0, 0, 0, len(path), len(extra)))
        self._write(path + extra)
        return start

    def _end(self, path: bytes, start: int, size: int, check: int) -> None:
        if size:
            layout = "<4sL2Q" if _far(size, start) else "<4s3L"
            self._write(struct.pack(layout, b"PK\x07\x08", check, size, size))
        self._entries.append((path, start, size, check, _UTF8 | (_LENGTHS_BEHIND if size else 0)))

    def finish(self) -> None:
        """Write the list of records at the end of the file."""
        start, count = self._at, len(self._entries)
        for entry in self._entries:
            self._write(_listed(*entry))
        end = self._at
        short = min(count, 0xFFFF)
        length, place = min(end - start, _LARGE), min(start, _LARGE)
        self._write(
            _END64.pack(b"PK\x06\x06", 44, 0x31E, 45, 0, 0, count, count, end - start, start)
            + _LOCATOR64.pack(b"PK\x06\x07", 0, end, 1)
            + _END.pack(b"PK\x05\x06", 0, 0, short, short, length, place, 0)
        )
        self._flush()

    def _write(self, data: bytes | memoryview) -> None:
        self._at += len(data)
        if len(data) < _SMALL:
            self._held += data
            if len(self._held) >= _CHUNK:
                self._flush()
        else:
            self._flush()
            write_all(self._file, data)

    def _flush(self) -> None:
        if self._held:
            write_all(self._file, self._held)
            self._held = bytearray()


def _listed(path: bytes, start: int, size: int, check: int, flags: int) -> bytes:
    """A record in the list at the end."""
    extra = _lengths(size, size, start)
    short, place = min(size, _LARGE), min(start, _LARGE)
    head = _CENTRAL.pack(
        b"PK\x01\x02", 0, 0, flags, 0, 0, 0, check, short, short, len(path), len(extra),
        0, 0, 0, 0, place,
    )  # fmt: skip
    return head + path + extra


def _far(size: int, start: int) -> bool:
    return size >= _LARGE or start >= _LARGE


def _lengths(*numbers: int) -> bytes:
    """The field for those of the numbers that do not fit into 4 bytes; nothing if all fit."""
    large = [n for n in numbers if n >= _LARGE]
    if not large:
        return b""
    return struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large)


def _chunks(views: Iterable[memoryview]) -> Iterator[memoryview]:
    for view in views:
        for at in range(0, len(view), _CHUNK):
            yield view[at : at + _CHUNK]
