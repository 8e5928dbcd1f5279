"""Reading files as PyTorch's ``save`` writes them: an archive with a pickle and storages beside it.

The pickle is the record ``data.pkl``; each storage is a record of its own, stored as it is. The
records must lie apart from each other inside the file. The pickle is run by `_pickle_machine`,
which makes data, or, if the caller says so, by an unpickler (`_unpickling`). Read next:
`_zip_writer`, which writes such files.
"""

from __future__ import annotations

import struct
import sys
import zipfile
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.serialization import _settings
from adjoint.serialization._checksum import crc32
from adjoint.serialization._errors import LoadError, as_damage
from adjoint.serialization._pickle_machine import Machine
from adjoint.serialization._reading import Reading
from adjoint.serialization._source import Source, room
from adjoint.serialization._torch_names import finder, set_state, storages
from adjoint.serialization._unpickling import unpickled
from adjoint.serialization._zip_writer import ALIGNMENT

__all__ = ["names_in", "read"]

_LOCAL_HEADER = struct.Struct("<4s5H3L2H")


class _Archive:
    """The records of a zip file, none of them compressed, each with bytes of its own."""

    def __init__(self, source: Source) -> None:
        self._source = source
        with as_damage(
            lambda e: f"it starts like a zip archive but is not one ({e}); is it complete?"
        ), zipfile.ZipFile(source.window()) as archive:  # fmt: skip
            infos = archive.infolist()
        self.places: dict[str, tuple[int, int, int]] = {}
        for info in infos:
            if info.filename in self.places:
                raise LoadError(f"its archive has two records named {info.filename!r}")
            self.places[info.filename] = self._place(info)
        self._check_apart()

    def _place(self, info: zipfile.ZipInfo) -> tuple[int, int, int]:
        name = info.filename
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise LoadError(f"the record {name!r} of its archive is compressed")
        if info.flag_bits & 1:
            raise LoadError(f"the record {name!r} of its archive is encrypted")
        head = _LOCAL_HEADER.unpack(self._source.read(info.header_offset, _LOCAL_HEADER.size))
        if head[0] != b"PK\x03\x04":
            raise LoadError(f"the record {name!r} of its archive is not where it should be")
        start = info.header_offset + _LOCAL_HEADER.size + head[9] + head[10]
        return start, info.file_size, info.CRC

    def _check_apart(self) -> None:
        end = 0
        for name, (start, size, _) in sorted(self.places.items(), key=lambda item: item[1]):
            if start < end or start + size > self._source.size:
                raise LoadError(f"the record {name!r} of its archive lies over another or outside")
            end = start + size

    def read(self, name: str) -> bytes:
        start, size, check = self._found(name)
        data = self._source.read(start, size)
        _check_sum(name, crc32(data, 0), check)
        return data

    def read_storage(self, name: str, size: int, mapped: Any, unread: bool) -> Tensor:
        """The bytes of a storage, or the place in a mapped file where they are."""
        start, there, check = self._found(name)
        if there != size:
            raise LoadError(f"the storage {name!r} has {there} bytes, and its tensors want {size}")
        if mapped is not None and size and start % ALIGNMENT == 0:  # else elements may lie across
            on_file: Tensor = _core._frombuffer(mapped, _core.uint8, size, start)
            return on_file
        data = room((size,), _core.uint8)
        if unread:
            return data
        self._source.read_into(start, data)
        buffer: Any = data
        _check_sum(name, crc32(memoryview(buffer), 0) if size else 0, check)
        return data

    def _found(self, name: str) -> tuple[int, int, int]:
        if name not in self.places:
            raise LoadError(f"its archive has no record {name!r}")
        return self.places[name]


def _check_sum(name: str, found: int, expected: int) -> None:
    if expected and found != expected:  # torch.serialization.set_crc32_options(False) writes 0
        raise LoadError(f"the record {name!r} of its archive is damaged: its checksum differs")


class _File:
    """An archive that is being read: its pickle, and how its storages are made."""

    def __init__(self, source: Source, reading: Reading) -> None:
        self._archive, self._reading = _Archive(source), reading
        places = self._archive.places
        pickles = [name for name in places if name.rpartition("/")[2] == "data.pkl"]
        if len(pickles) != 1:
            raise LoadError("it is a zip file that torch.save did not write: it has no data.pkl")
        self._folder = pickles[0].removesuffix("data.pkl")
        if f"{self._folder}constants.pkl" in places:
            raise LoadError("it holds a TorchScript program, which adjoint does not run")
        self._swapped = self._order() != sys.byteorder
        self.pickle = self._archive.read(pickles[0])

    def _order(self) -> str:
        name = f"{self._folder}byteorder"
        if name in self._archive.places:
            found = self._archive.read(name)
            if found not in (b"little", b"big"):
                raise LoadError(f"it has the order of bytes {found[:20]!r}")
            return found.decode()
        chosen = _settings.get_default_load_endianness()
        if chosen is _settings.LoadEndianness.NATIVE:
            return sys.byteorder
        return "big" if chosen is _settings.LoadEndianness.BIG else "little"

    def storage(self, key: str, size: int, dtype: _core.dtype) -> Tensor:
        """The bytes of a storage, in the order of this machine."""
        mapped = None if self._swapped else self._reading.mapped
        unread = self._reading.without_values or _settings.skips_data()
        data = self._archive.read_storage(f"{self._folder}data/{key}", size, mapped, unread)
        if self._swapped and not unread:
            item = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
            _swap_bytes(data, item)
        return data


def _swap_bytes(data: Tensor, item: int) -> None:
    import numpy as np

    if data.numel() and item > 1:
        buffer: Any = data
        np.frombuffer(memoryview(buffer), f"u{item}").byteswap(inplace=True)


def read(source: Source, reading: Reading) -> Any:
    """The structure in a file of PyTorch's ``save``."""
    with as_damage(lambda error: f"it is damaged ({type(error).__name__}: {error})"):
        file = _File(source, reading)
    load = storages(file.storage, 5, reading.restore, reading.without_values)
    if reading.unpickler is not None:
        return unpickled(file.pickle, reading.unpickler, load, reading.options)[0]
    machine = Machine(file.pickle, finder(reading.given), load, set_state, reading.classes)
    found = machine.run()
    if machine.at != len(file.pickle):
        raise LoadError(f"its pickle ends at byte {machine.at} of {len(file.pickle)}")
    return found


def names_in(source: Source) -> bytes:
    """The pickle of an archive."""
    return _File(source, Reading()).pickle
