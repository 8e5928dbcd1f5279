"""Files as PyTorch's ``save`` wrote them before version 1.6, or is told to write them.

Five pickles one after the other (a magic number, the version, the machine, the object, the keys of
its storages), then the storages in the order of the keys, each after its number of elements.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from typing import IO, Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.serialization._errors import LoadError, as_damage, shown
from adjoint.serialization._pickle_machine import Machine, Name
from adjoint.serialization._reading import LEGACY_MAGIC, Reading
from adjoint.serialization._source import Source, room
from adjoint.serialization._storages import Storages
from adjoint.serialization._torch_names import finder, set_state, storages
from adjoint.serialization._torch_places import STORAGE_TYPES
from adjoint.serialization._unpickling import unpickled
from adjoint.serialization._writing import write_all

__all__ = ["read", "write"]

Finder = Callable[[str, str], Any]
_VERSION = 1001


class _Blank(dict[Any, Any]):
    """Takes the place of every object while only the storages of a pickle are looked for."""

    def __new__(cls, *_: Any, **__: Any) -> _Blank:
        return super().__new__(cls)

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Nothing."""

    def append(self, item: Any) -> None:
        """Nothing."""

    def extend(self, items: Any) -> None:
        """Nothing."""

    def __setstate__(self, state: Any) -> None:
        """Nothing."""


def _without_tensors(find: Finder, given: dict[tuple[str, str], Any]) -> Finder:
    """The same names, but of what is made of tensors only the places are taken."""
    taken = Name("an object", _take, _take)

    def look(module: str, name: str) -> Any:
        if (module, name) in given:
            return taken
        found = find(module, name)
        return taken if isinstance(found, Name) and module.startswith("torch.") else found

    return look


class _Taken:
    """A place that is taken."""


def _take(m: Machine, *_: Any) -> Any:
    return m.made(_Taken(), lambda state: None)


class _StorageFinder(pickle.Unpickler):
    """Runs a pickle without what it names, except for the types of storages."""

    def __init__(self, file: IO[bytes], persistent: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._persistent = persistent

    def find_class(self, module: str, name: str) -> Any:
        """A type of storages, or what takes the place of everything else."""
        kind = STORAGE_TYPES.get(name)
        return kind if kind is not None and module in ("torch", "torch.storage") else _Blank

    def persistent_load(self, pid: Any) -> Any:
        """Note a storage."""
        return _Blank if pid[0] == "module" else self._persistent(pid)


class _Pickles:
    """The pickles at the beginning of a file, and the memory of the storages that they name."""

    def __init__(self, data: bytes, reading: Reading) -> None:
        self._data, self._reading, self.at = data, reading, 0
        self.storages: dict[str, tuple[Tensor, int]] = {}  # with the size of an element
        self._left = len(data)

    def next(self, find: Finder | None = None) -> Any:
        """What the pickle at ``at`` holds, which is data; ``at`` becomes its end."""
        load = self._storages() if find is None else storages(self._room, 6)
        find = finder(self._reading.given) if find is None else find
        machine = Machine(self._data, find, load, set_state, self._reading.classes, self.at)
        found, self.at = machine.run(), machine.at
        return found

    def find_storages(self) -> None:
        """Learn which storages the pickle at ``at`` names, without making its object."""
        if self._reading.unpickler is None:
            self.next(_without_tensors(finder(self._reading.given), self._reading.given))
            return
        file = io.BytesIO(self._data)
        file.seek(self.at)
        _StorageFinder(file, storages(self._room, 6)).load()
        self.at = file.tell()

    def next_object(self) -> Any:
        """What the pickle at ``at`` holds, read as the caller wants it."""
        reading = self._reading
        if reading.unpickler is None:
            return self.next()
        load = self._storages()

        def find(pid: Any) -> Any:
            # A class comes with its source, which is not looked at.
            return pid[1] if pid[0] == "module" else load(pid)

        return unpickled(self._data, reading.unpickler, find, reading.options, self.at)[0]

    def _storages(self) -> Any:
        return storages(self._room, 6, self._reading.restore, self._reading.without_values)

    def _room(self, key: str, size: int, dtype: _core.dtype) -> Tensor:
        if key not in self.storages:
            self._left -= size
            if self._left < 0:
                raise LoadError(f"the storage {key!r} wants {size} bytes, which it does not have")
            self.storages[key] = room((size,), _core.uint8), dtype.itemsize
        return self.storages[key][0]


def read(source: Source, reading: Reading) -> Any:
    """The structure in such a file."""
    with as_damage(lambda error: f"it is damaged ({type(error).__name__}: {error})"):
        pickles = _Pickles(source.read(0, source.size), reading)
        magic, version, machine = pickles.next(), pickles.next(), pickles.next()
        if (magic, version) != (LEGACY_MAGIC, _VERSION):
            raise LoadError(
                f"it starts like a file of torch.save, but has version {shown(version)}"
            )
        if machine["little_endian"] is not True:
            raise LoadError("it was written on a big-endian machine")
        # Once to learn which storages there are, and where they begin; once to make the object.
        start = pickles.at
        pickles.find_storages()
        keys = pickles.next()
        if sorted(keys) != sorted(pickles.storages):
            raise LoadError(
                f"it has the storages {shown(keys)}, which are not those of its tensors"
            )
        storages = [pickles.storages[key] for key in keys]
        source.end = _fill(storages, source, pickles.at)  # others may follow in one file
    pickles.at = start
    return pickles.next_object()


def _fill(storages: list[tuple[Tensor, int]], source: Source, at: int) -> int:
    """Read the storages one after the other; where they end."""
    for data, item in storages:
        (count,) = struct.unpack("<q", source.read(at, 8))
        if count * item != data.numel():
            raise LoadError(f"a storage of {data.numel()} bytes has {count} elements at byte {at}")
        source.read_into(at + 8, data)
        at += 8 + data.numel()
    return at


def write(file: IO[bytes], pickled: bytes, storages: Storages, protocol: int) -> None:
    """Write such a file with this pickle and these storages."""
    sizes = {"short": 2, "int": 4, "long": 4}
    machine = {"protocol_version": _VERSION, "little_endian": True, "type_sizes": sizes}
    for part in (LEGACY_MAGIC, _VERSION, machine):
        write_all(file, pickle.dumps(part, protocol))
    write_all(file, pickled)
    records = sorted(storages.records(), key=lambda record: record.key)
    write_all(file, pickle.dumps([record.key for record in records], protocol))
    for record in records:
        write_all(file, struct.pack("<q", record.size // record.item))
        for piece in record.pieces:
            write_all(file, piece)
