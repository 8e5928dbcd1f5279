"""Settings of `save` and `load`: byte order, checksums, mapped files, tensors without data."""

from __future__ import annotations

import contextlib
import enum
import mmap
import threading
from typing import Any

__all__ = [
    "LoadEndianness",
    "SourceChangeWarning",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]


class LoadEndianness(enum.Enum):
    """The order of bytes in files that do not tell it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class SourceChangeWarning(Warning):
    """Never given: PyTorch warned so where a class in a file had another source."""


class _Settings(threading.local):
    def __init__(self) -> None:
        self.skip_data = False


_local = _Settings()
_endianness: LoadEndianness | None = None
_checksums = True
_mapping = mmap.MAP_PRIVATE


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes that `load` takes for files without a mark; None: little."""
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set what `get_default_load_endianness` returns."""
    global _endianness
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _endianness = endianness


def get_crc32_options() -> bool:
    """Whether `save` writes checksums."""
    return _checksums


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether `save` writes checksums. Without them damage to elements is not noticed."""
    global _checksums
    _checksums = bool(compute_crc32)


def get_default_mmap_options() -> int | None:
    """How ``load(mmap=True)`` maps files: ``mmap.MAP_PRIVATE`` or ``mmap.MAP_SHARED``."""
    return _mapping


class set_default_mmap_options(contextlib.ContextDecorator):
    """Set how ``load(mmap=True)`` maps files, from now on or for a ``with`` block.

    Parameters
    ----------
    flags : int
        ``mmap.MAP_PRIVATE``: writing to a tensor does not change the file; or ``mmap.MAP_SHARED``:
        it does.
    """

    def __init__(self, flags: int) -> None:
        global _mapping
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )
        self.prev, _mapping = _mapping, flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        global _mapping
        _mapping = self.prev


class skip_data:
    """Inside a ``with`` block, `save` writes zeros for elements and `load` does not read them.

    Parameters
    ----------
    materialize_fake_tensors : bool
        Without effect: there are no such tensors here.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._old, _local.skip_data = _local.skip_data, True

    def __exit__(self, *_: Any) -> None:
        _local.skip_data = self._old


def skips_data() -> bool:
    """Whether this thread is inside of `skip_data`."""
    return _local.skip_data
