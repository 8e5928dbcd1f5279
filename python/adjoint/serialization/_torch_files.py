"""Reading files that PyTorch's ``save`` wrote, without running what they say.

Such a file is a zip archive: a pickle ``data.pkl`` and one raw record per storage, all of them
stored as they are. `_pickle_machine` runs the pickle, with the names of `_torch_names`; here is the
archive, whose records must lie apart from each other inside the file.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.serialization._errors import LoadError, as_damage
from adjoint.serialization._pickle_machine import Machine
from adjoint.serialization._source import Source, room
from adjoint.serialization._torch_names import names, set_state, storages

__all__ = ["read"]

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
        _check_sum(name, zlib.crc32(data), check)
        return data

    def read_storage(self, name: str, size: int) -> Tensor:
        start, there, check = self._found(name)
        if there != size:
            raise LoadError(f"the storage {name!r} has {there} bytes, and its tensors want {size}")
        data = room((size,), _core.uint8)
        self._source.read_into(start, data)
        buffer: Any = data
        _check_sum(name, zlib.crc32(memoryview(buffer)) if size else 0, check)
        return data

    def _found(self, name: str) -> tuple[int, int, int]:
        if name not in self.places:
            raise LoadError(f"its archive has no record {name!r}")
        return self.places[name]


def _check_sum(name: str, found: int, expected: int) -> None:
    if expected and found != expected:  # torch.serialization.set_crc32_options(False) writes 0
        raise LoadError(f"the record {name!r} of its archive is damaged: its checksum differs")


def read(source: Source) -> Any:
    """The structure in a file of PyTorch's ``save``."""
    archive = _Archive(source)
    pickles = [name for name in archive.places if name.rpartition("/")[2] == "data.pkl"]
    if len(pickles) != 1:
        raise LoadError("it is a zip file that torch.save did not write: it has no data.pkl")
    folder = pickles[0].removesuffix("data.pkl")
    order = f"{folder}byteorder"
    if order in archive.places and archive.read(order) != b"little":
        raise LoadError("it was written on a big-endian machine")
    data = archive.read(pickles[0])
    load = storages(lambda key, size, _: archive.read_storage(f"{folder}data/{key}", size), 5)
    machine = Machine(data, names(), load, set_state)
    found = machine.run()
    if machine.at != len(data):
        raise LoadError(f"its pickle ends at byte {machine.at} of {len(data)}")
    return found
