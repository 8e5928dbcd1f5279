"""Kinds of calls: what stands for arguments that are not tensors, and which calls are relatives.

Read next: _compile.py, which counts recordings by kind.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import Any

from adjoint import _tree
from adjoint._core import Tensor

__all__ = ["LIMIT", "OBJECTS", "extras", "key_of", "outline", "relatives", "what_changes"]

# So many recordings of one kind of call, and for so many numbers; afterwards it runs eagerly.
LIMIT = 16
# For so many objects: a method may well be called for each of a hundred.
OBJECTS = 256

_PLAIN = (bool, int, str, bytes, type(None))
_bits = struct.Struct("d").pack


def key_of(leaf: Any) -> Any:
    """What stands for an argument that is not a tensor: its value, or the object itself."""
    kind = type(leaf)
    if kind in _PLAIN:
        return kind, leaf
    if kind is float:
        return kind, _Value(leaf, _bits(leaf))
    if kind is complex:
        return kind, _Value(leaf, (_bits(leaf.real), _bits(leaf.imag)))
    if kind in (slice, range):
        parts = tuple(key_of(part) for part in (leaf.start, leaf.stop, leaf.step))
        return kind, _Value(leaf, parts)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(leaf, numpy.number | numpy.bool_):
        return kind, _Value(leaf, leaf.tobytes())
    return kind, _Same(leaf)


def outline(thing: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """What a function may see of a structure and its `Spec` does not say; and its containers.

    That is the order and the types of keys, attributes besides the parts, and which containers are
    one object.
    """
    facts: list[Any] = []
    containers: dict[int, Any] = {}  # that are not tuples
    stack = [thing]
    for one in stack:  # which grows
        kind = type(one)
        if kind is Tensor or kind in _PLAIN:
            continue
        if kind is tuple:
            stack += one
            continue
        is_dict = isinstance(one, dict)
        if not is_dict and kind is not list and not _tree.is_structure(one):
            continue
        if id(one) in containers:
            facts.append((len(stack), [*containers].index(id(one))))
            continue
        containers[id(one)] = one
        if is_dict:
            if len(one) > 1 or any(type(key) is not str for key in one):
                facts.append(tuple(key if type(key) is str else key_of(key) for key in one))
            stack += one.values()
        elif kind is list:
            stack += one
        else:
            stack += _tree.children(one)[0]
            beside, same = _attributes(one)
            facts += [(name, key_of(value)) for name, value in beside]
            facts += same
    return tuple(facts), list(containers.values())


def extras(thing: Any) -> list[tuple[str, Any]]:
    """Attributes of an object besides those that are its parts."""
    return _attributes(thing)[0]


def _attributes(thing: Any) -> tuple[list[tuple[str, Any]], list[tuple[str, int]]]:
    """Attributes besides the parts; and those that are parts which go by another name.

    A class that takes its objects apart itself may call its parts 0 and 1.
    """
    own = getattr(thing, "__dict__", None)
    if not own:
        return [], []
    parts, entries = _tree.children(thing)
    names = frozenset(map(str, entries))
    beside = [(name, value) for name, value in own.items() if name not in names]
    if not beside:
        return [], []
    places = {id(part): i for i, part in enumerate(parts)}
    same = [(name, places[id(value)]) for name, value in beside if id(value) in places]
    return [(name, value) for name, value in beside if id(value) not in places], same


class _Value:
    """A value that is equal if its token is: 0.0 and -0.0 are two, a NaN is itself."""

    __slots__ = ("token", "value")

    def __init__(self, value: Any, token: Any) -> None:
        self.value, self.token = value, token

    def __hash__(self) -> int:
        return hash(self.token)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Value) and other.token == self.token

    def __repr__(self) -> str:
        return repr(self.value)


class _Same:
    """An object, equal to itself alone."""

    __slots__ = ("object",)

    def __init__(self, thing: Any) -> None:
        self.object = thing

    def __hash__(self) -> int:
        return id(self.object)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.object is self.object

    def __repr__(self) -> str:
        kind = type(self.object).__name__
        return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


def relatives(kind: Any) -> Iterator[tuple[Any, int]]:
    """Families that a kind of call belongs to, and how many kinds each of them may have.

    Calls that differ in numbers alone are one family, those that differ in objects another.
    """
    if len(kind) < 3:
        return  # tensors alone
    spec, mode, keys = kind
    objects = [key is not None and isinstance(key[1], _Same) for key in keys]
    if not all(key is None or same for key, same in zip(keys, objects, strict=True)):
        fixed = (key if same else _type(key) for key, same in zip(keys, objects, strict=True))
        yield (spec, mode, tuple(fixed), "numbers"), LIMIT
    if any(objects):
        yield (spec, mode, tuple(map(_type, keys)), "objects"), OBJECTS


def _type(key: Any) -> Any:
    return key and key[0]


def what_changes(kind: Any, last: Any, limit: int) -> str:
    """Why there are so many relatives."""
    was, now = next((a, b) for a, b in zip(last[2], kind[2], strict=True) if a != b)
    if limit == LIMIT:
        return (
            f"it was recorded for {limit} values of its arguments that are not tensors, the last "
            f"time with {was[1]!r}, and is now called with {now[1]!r}; fix: pass a number that "
            "changes as a tensor"
        )
    return (
        f"it was recorded for {limit} objects among its arguments, the last time {was[1]!r}, and "
        f"is now called with another; fix: pass objects that were there before"
    )
