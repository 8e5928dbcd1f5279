"""Reading safetensors files: a length, a header in JSON, the elements.

The entries must fill the file from the header's end to its own, each byte once. So what is
allocated is what the file has, and two names never stand for one memory.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Collection
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.serialization._decode import Decoder
from adjoint.serialization._errors import LoadError
from adjoint.serialization._formats import CODES
from adjoint.serialization._source import Source, elements, room

__all__ = ["read"]

# The limit of the format: a header is names and shapes.
_LONGEST_HEADER = 100_000_000


def read(source: Source, classes: Collection[type]) -> Any:
    """The structure in a file of adjoint's, or the dict of tensors in anybody's."""
    if source.size < 8:
        raise LoadError(
            f"it is not a file of adjoint.save, safetensors or torch.save: it has {source.size} "
            "bytes"
        )
    (length,) = struct.unpack("<Q", source.read(0, 8))
    if length > min(source.size - 8, _LONGEST_HEADER):
        raise LoadError(
            "it is not a file of adjoint.save, safetensors or torch.save, or it is incomplete: bad "
            f"header (of {length} bytes, in a file of {source.size})"
        )
    header = _parse(source.read(8, length), "header")
    if not isinstance(header, dict):
        raise LoadError("it is not a file of adjoint.save or safetensors: the header is no table")
    metadata = header.pop("__metadata__", None)
    if metadata is not None and not isinstance(metadata, dict):
        raise LoadError(f"the __metadata__ of its header is {metadata!r:.200}")
    places = {name: _place(name, row) for name, row in header.items()}
    _check_places(list(places.values()), source.size - 8 - length)
    tensors = {name: _tensor(source, 8 + length, place) for name, place in places.items()}
    if not metadata or "adjoint" not in metadata:
        return tensors
    return Decoder(tensors, classes).decode_all(_parse(metadata["adjoint"], "structure"))


def _parse(text: Any, what: str) -> Any:
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")  # json would guess the encoding
        return json.loads(text, object_pairs_hook=_table)
    except RecursionError:
        raise LoadError("it is nested too deeply") from None
    except (ValueError, TypeError) as error:
        raise LoadError(
            f"it is not a file of adjoint.save or safetensors: its {what} is not JSON ({error})"
        ) from None


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name stands there twice")
    return table


_Place = tuple[str, _core.dtype, list[int], int, int]


def _place(name: str, row: Any) -> _Place:
    try:
        dtype, shape, (start, end) = CODES[row["dtype"]], row["shape"], row["data_offsets"]
    except (KeyError, TypeError, ValueError):
        raise LoadError(f"tensor {name!r} has a bad entry in the file: {row!r:.200}") from None
    size = elements(shape, dtype.itemsize, f"tensor {name!r}")
    if type(start) is not int or type(end) is not int or end - start != size:
        raise LoadError(f"tensor {name!r} does not fit its place in the file: {row!r:.200}")
    return name, dtype, shape, start, end


def _check_places(places: list[_Place], size: int) -> None:
    at = 0
    for name, _, _, start, end in sorted(places, key=lambda place: place[3:]):
        if start != at:
            relation = "overlaps the entry before it" if start < at else "leaves a gap before it"
            raise LoadError(f"tensor {name!r} at bytes {start} to {end} {relation}")
        at = end
    if at != size:
        raise LoadError(
            f"its tensors end at byte {at} after the header, and the file at byte {size}; is it "
            "complete?"
        )


def _tensor(source: Source, base: int, place: _Place) -> Tensor:
    _, dtype, shape, start, end = place
    made = room(shape, dtype)
    if start != end:
        source.read_into(base + start, _core._whole(made))
    return made
