"""Kinds of calls: what stands for arguments that are no tensors, and which calls are relatives.

Read next: _compile.py, which counts recordings by kind.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from adjoint import _tree
from adjoint._core import Tensor

__all__ = ["LIMIT", "OBJECTS", "key_of", "orders", "relatives", "what_changes"]

# So many recordings of one kind of call, and for so many numbers; afterwards it runs eagerly.
LIMIT = 16
# For so many objects: a method may well be called for each of a hundred.
OBJECTS = 256

_PLAIN = (bool, int, str, bytes, type(None))


def key_of(leaf: Any) -> Any:
    """What stands for an argument that is no tensor: its value, or the object itself."""
    kind = type(leaf)
    if kind in _PLAIN:
        return kind, leaf
    if kind is float:
        return kind, _Value(leaf, leaf.hex())
    if kind is complex:
        return kind, _Value(leaf, (leaf.real.hex(), leaf.imag.hex()))
    if kind in (slice, range):
        parts = tuple(key_of(part) for part in (leaf.start, leaf.stop, leaf.step))
        return kind, _Value(leaf, parts)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(leaf, numpy.number | numpy.bool_):
        return kind, _Value(leaf, leaf.tobytes())
    return kind, _Same(leaf)


def orders(thing: Any) -> tuple[Any, ...]:
    """In which order the keys of each dict in a structure stand: functions may see it.

    Structures are compared without it.
    """
    found: list[Any] = []
    stack = [thing]
    for one in stack:  # which grows
        kind = type(one)
        if kind is Tensor or kind in _PLAIN:
            continue
        if kind is tuple or kind is list:
            stack += one
        elif isinstance(one, dict):
            if len(one) > 1:
                found.append(tuple(one))
            stack += one.values()
        elif _tree.is_structure(one):
            stack += _tree.children(one)[0]
    return tuple(found)


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
            f"it was recorded for {limit} values of its arguments that are no tensors, the last "
            f"time with {was[1]!r}, and is now called with {now[1]!r}; fix: pass a number that "
            "changes as a tensor"
        )
    return (
        f"it was recorded for {limit} objects among its arguments, the last time {was[1]!r}, and "
        f"is now called with another; fix: pass objects that were there before"
    )
