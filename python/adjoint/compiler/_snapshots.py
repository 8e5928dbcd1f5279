"""What a Python value was, in a form that later values are compared with.

Numbers, texts and the like are compared by type and value; lists, dicts and other built-in
containers part by part; small arrays by content; everything else by identity. Read next: `_guards`.
"""

from __future__ import annotations

import enum
import math
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator
from functools import partial
from itertools import starmap
from operator import is_
from types import EllipsisType, NoneType, NotImplementedType
from typing import Any

import adjoint as ad
from adjoint import Tensor

__all__ = [
    "LARGEST_ARRAY",
    "MOST_PARTS",
    "Snapshot",
    "TooLarge",
    "is_array",
    "is_changeable",
    "is_lasting",
    "is_value",
    "same",
]

MOST_PARTS = 4096  # of a container and what is in it; comparing takes some 20 ns for each
LARGEST_ARRAY = 4096  # bytes

_FIX = "too much to compare at each call; pass it as an argument"
_BY_VALUE = (int, float, complex, str, bytes, bool, NoneType, EllipsisType, NotImplementedType)
_EXACT: frozenset[type] = frozenset((*_BY_VALUE, range, ad.dtype, ad.device))
_CHANGEABLE = (list, dict, set, deque, bytearray)
_CONTAINERS = (tuple, frozenset, *_CHANGEABLE)


class TooLarge(Exception):
    """A container has too many parts, or an array too many bytes, to be compared at each call."""


def is_array(value: object) -> bool:
    """Whether this is a NumPy array; NumPy is not imported for the question."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def is_changeable(value: object) -> bool:
    """Whether this is a built-in container or an array, whose content may change."""
    return isinstance(value, _CHANGEABLE) or is_array(value)


def is_value(value: object) -> bool:
    """Whether this is compared by what it is rather than by which object it is."""
    return type(value) in _EXACT or isinstance(value, tuple | frozenset)


def is_lasting(value: object) -> bool:
    """Whether this is a tuple or frozenset of plain values, which stays what it is."""
    return isinstance(value, tuple | frozenset) and all(
        type(part) in _EXACT or is_lasting(part) for part in value
    )


def same(a: Any, b: Any) -> bool:
    """Whether two numbers, texts, ... are one value of one type; NaN is itself, -0.0 is not 0.0."""
    if a is b:
        return True
    cls = type(a)
    if cls is not type(b) or cls not in _EXACT:
        return False
    if cls is float:
        return _same_float(a, b)
    if cls is complex:
        return _same_float(a.real, b.real) and _same_float(a.imag, b.imag)
    return bool(a == b)


def _same_float(a: float, b: float) -> bool:
    if a != a or b != b:
        return a != a and b != b
    return a == b and math.copysign(1.0, a) == math.copysign(1.0, b)


class Snapshot:
    """A value as it is now. `holds(later)` says whether another value is indistinguishable."""

    __slots__ = ("_flat", "_parts", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self._flat: list[tuple[Any, Any]] = []  # every container in it, and its parts
        self._parts = _freeze(value, self._flat, {}, [MOST_PARTS])

    @property
    def contents(self) -> list[tuple[Any, Any]]:
        """Every container and array in it whose content can change, with its parts."""
        return self._flat

    def containers(self) -> list[Any]:
        """Every container and array in it whose content can change, itself included."""
        return [container for container, _ in self._flat]

    def unchanged(self) -> bool:
        """Whether the object itself is still what it was."""
        return all(starmap(_untouched, self._flat)) or self._parts.holds(self.value)

    def holds(self, value: Any) -> bool:
        """Whether `value` is what the snapshot was taken of, or the like of it."""
        if value is self.value:
            return not self._flat or self.unchanged()
        return bool(self._parts.holds(value))


def _untouched(container: Any, parts: Any) -> bool:
    """Whether a container has the very objects in it that it had; False may be a mistake."""
    if isinstance(container, dict):
        keys, values = parts
        return (
            len(container) == len(keys)
            and all(map(is_, _order(container), keys))
            and all(map(is_, map(partial(dict.__getitem__, container), keys), values))
        )
    if isinstance(parts, _ArrayParts | _Bytes):
        return parts.holds(container)
    return len(container) == len(parts) and all(map(is_, _parts_of(container), parts))


def _order(table: dict[Any, Any]) -> Iterator[Any]:
    """The keys of a dict in order; an `OrderedDict` has an order of its own."""
    cls = OrderedDict if isinstance(table, OrderedDict) else dict
    return cls.__iter__(table)


def _parts_of(container: Any) -> Iterator[Any]:
    """What is in a list, tuple, set or deque, whatever a subclass does when it is iterated over."""
    for cls in (list, tuple, set, frozenset, deque):
        if isinstance(container, cls):
            return cls.__iter__(container)  # type: ignore[arg-type]
    raise TypeError(type(container).__name__)


class _One:
    """One object: a number by value, others by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def holds(self, value: Any) -> bool:
        return value is self.value or same(value, self.value)


class _Many:
    """The parts of a container, in order."""

    __slots__ = ("cls", "parts")

    def __init__(self, cls: type, parts: list[Any]) -> None:
        self.cls, self.parts = cls, parts

    def holds(self, value: Any) -> bool:
        if type(value) is not self.cls:
            return False
        parts = [*_parts_of(value)]
        return len(parts) == len(self.parts) and all(
            one.holds(part) for one, part in zip(self.parts, parts, strict=True)
        )


class _Table:
    """The keys and values of a dict, in order."""

    __slots__ = ("cls", "keys", "values")

    def __init__(self, cls: type, keys: _Many, values: _Many) -> None:
        self.cls: Any = cls
        self.keys, self.values = keys, values

    def holds(self, value: Any) -> bool:
        return (
            type(value) is self.cls
            and self.keys.holds([*_order(value)])
            and self.values.holds([dict.__getitem__(value, key) for key in _order(value)])
        )


class _Elements:
    """The elements of a set, whose order means nothing."""

    __slots__ = ("cls", "elements")

    def __init__(self, cls: type, elements: dict[Any, Any]) -> None:
        self.cls: Any = cls
        self.elements = elements

    def holds(self, value: Any) -> bool:
        if type(value) is not self.cls or len(value) != len(self.elements):
            return False
        missing = object()
        return all(
            _One(self.elements.get(element, missing)).holds(element) for element in _parts_of(value)
        )


class _Bytes:
    """The content of a bytearray."""

    __slots__ = ("cls", "data")

    def __init__(self, value: bytearray) -> None:
        self.cls, self.data = type(value), bytes(value)

    def holds(self, value: Any) -> bool:
        return type(value) is self.cls and bool(value == self.data)


class _ArrayParts:
    """The content of a NumPy array."""

    __slots__ = ("data", "kind")

    def __init__(self, array: Any) -> None:
        self.kind = (type(array), array.dtype, array.shape)
        self.data = array.tobytes()

    def holds(self, value: Any) -> bool:
        return (
            is_array(value)
            and (type(value), value.dtype, value.shape) == self.kind
            and value.tobytes() == self.data
        )


def _freeze(value: Any, flat: list[tuple[Any, Any]], above: dict[int, Any], left: list[int]) -> Any:
    left[0] -= 1
    if left[0] < 0:
        raise TooLarge(f"has more than {MOST_PARTS} parts: {_FIX}, or make it a tuple")
    cls = type(value)
    if cls in _EXACT or isinstance(value, Tensor | enum.Enum):
        return _One(value)
    if is_array(value):
        return _freeze_array(value, flat)
    if not isinstance(value, _CONTAINERS) or id(value) in above:
        return _One(value)  # a container that contains itself is that object
    above[id(value)] = value
    try:
        return _freeze_container(value, flat, above, left)
    finally:
        del above[id(value)]


def _freeze_array(value: Any, flat: list[tuple[Any, Any]]) -> Any:
    if value.nbytes > LARGEST_ARRAY:
        raise TooLarge(f"is an array of {value.nbytes} bytes: {_FIX}, or make it a tensor")
    if value.dtype.hasobject:
        raise TooLarge(f"is an array of Python objects: {_FIX}")
    parts = _ArrayParts(value)
    flat.append((value, parts))
    return parts


def _freeze_container(
    value: Any, flat: list[tuple[Any, Any]], above: dict[int, Any], left: list[int]
) -> Any:
    cls = type(value)
    if isinstance(value, bytearray):
        parts: Any = _Bytes(value)
        flat.append((value, parts))
        return parts
    if len(value) > left[0]:
        raise TooLarge(f"has more than {MOST_PARTS} parts: {_FIX}, or make it a tuple")
    if isinstance(value, dict):
        keys = [*_order(value)]
        values = [dict.__getitem__(value, key) for key in keys]
        flat.append((value, (tuple(keys), tuple(values))))
        return _Table(
            cls,
            _Many(list, [_One(key) for key in keys]),
            _Many(list, [_freeze(part, flat, above, left) for part in values]),
        )
    parts = tuple(_parts_of(value))
    if not isinstance(value, tuple | frozenset):
        flat.append((value, parts))
    if isinstance(value, set | frozenset):
        left[0] -= len(parts)
        return _Elements(cls, {part: part for part in parts})
    return _Many(cls, [_freeze(part, flat, above, left) for part in parts])
