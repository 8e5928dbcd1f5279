"""Reading files that PyTorch's ``save`` wrote before version 1.6, or was told to write so.

Five pickles one after the other (a magic number, the version, the machine, the object, the keys of
its storages), then the storages in the order of the keys, each after its number of elements.
"""

from __future__ import annotations

import struct
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.serialization._errors import LoadError, shown
from adjoint.serialization._pickle_machine import Machine
from adjoint.serialization._source import Source, room
from adjoint.serialization._torch_names import names, set_state, storages

__all__ = ["is_legacy", "read"]

_MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001


def is_legacy(start: bytes) -> bool:
    """Whether a file that begins so is of this format: a pickle of the magic number."""
    return start[:1] == b"\x80" and _MAGIC.to_bytes(10, "little") in start[:32]


class _Pickles:
    """The pickles at the beginning of a file, and the memory of the storages that they name."""

    def __init__(self, data: bytes) -> None:
        self._data, self.at = data, 0
        self.storages: dict[str, tuple[Tensor, int]] = {}  # with the size of an element
        self._left = len(data)

    def next(self) -> Any:
        """What the pickle at ``at`` holds; ``at`` becomes its end."""
        load = storages(self._storage, 6)
        machine = Machine(self._data, names(), load, set_state, self.at)
        found, self.at = machine.run(), machine.at
        return found

    def _storage(self, key: str, size: int, item: int) -> Tensor:
        if key not in self.storages:
            self._left -= size
            if self._left < 0:
                raise LoadError(f"the storage {key!r} wants {size} bytes, which it does not have")
            self.storages[key] = room((size,), _core.uint8), item
        return self.storages[key][0]


def read(source: Source) -> Any:
    """The structure in such a file."""
    pickles = _Pickles(source.read(0, source.size))
    magic, version, machine = pickles.next(), pickles.next(), pickles.next()
    if (magic, version) != (_MAGIC, _VERSION):
        raise LoadError(f"it starts like a file of torch.save, but has version {shown(version)}")
    if machine["little_endian"] is not True:
        raise LoadError("it was written on a big-endian machine")
    # Once to learn which storages there are, and where they begin; once to make the tensors.
    start = pickles.at
    pickles.next()
    keys = pickles.next()
    if sorted(keys) != sorted(pickles.storages):
        raise LoadError(f"it has the storages {shown(keys)}, which are not those of its tensors")
    _fill([pickles.storages[key] for key in keys], source, pickles.at)
    pickles.at = start
    return pickles.next()


def _fill(storages: list[tuple[Tensor, int]], source: Source, at: int) -> None:
    for data, item in storages:
        (count,) = struct.unpack("<q", source.read(at, 8))
        if count * item != data.numel():
            raise LoadError(f"a storage of {data.numel()} bytes has {count} elements at byte {at}")
        source.read_into(at + 8, data)
        at += 8 + data.numel()
    if at != source.size:
        raise LoadError(f"its storages end at byte {at} of {source.size}")
