"""`Space`: a namespace as it was when it was found; and what differs in a class since.

Read next: `_notes`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from ._contents import CONTAINERS
from ._guards import ABSENT, Kind, Row, same

__all__ = ["CACHES", "Space", "class_row", "difference", "is_special", "unknown"]


class Space:
    """A namespace (of an object, a class, a module): what stood there, and which names matter."""

    __slots__ = (
        *("adjoints", "before", "holder", "innocent", "kind", "now", "path", "watched", "whole"),
    )

    def __init__(
        self,
        now: Any,
        path: str,
        kind: str,
        holder: Any,
        adjoints: bool = False,
        before: dict[str, Any] | None = None,
        innocent: frozenset[str] = frozenset(),
    ) -> None:
        self.now, self.path, self.kind, self.holder = now, path, kind, holder
        self.adjoints = adjoints  # names in adjoint's own code count
        self.before: dict[str, Any] = dict(now) if before is None else before
        self.watched: dict[str, Any] = {}
        self.innocent = innocent  # names of what leads nowhere
        # C code compares and shows these: no name says which attributes it reads.
        self.whole = isinstance(holder, types.SimpleNamespace)


def is_special(value: Any) -> bool:
    """Whether a class attribute is what Python looks for by itself, rather than a note."""
    if value is None or callable(value) or hasattr(type(value), "__get__"):
        return True
    return isinstance(value, CONTAINERS)


# What Python itself puts into classes, when it is asked for something.
CACHES = frozenset(("__slotnames__", "__annotations_cache__", "_abc_impl"))


def difference(
    cls: type, order: tuple[type, ...], spaces: list[Space], names: frozenset[str], whole: bool
) -> str | None:
    """What differs in a class, the slow way: another attribute of it may have changed."""
    if cls.__mro__ != order:
        return f"what the class {cls.__name__} inherits from"
    for space in spaces:
        for name in space.before.keys() | space.now.keys():
            before, now = space.before.get(name, ABSENT), space.now.get(name, ABSENT)
            if before is now or name in CACHES or (before is ABSENT and _is_empty(name, now)):
                continue
            special = name[:2] == "__" and (is_special(before) or is_special(now))
            if not (whole or special or name in names or name in space.watched):
                continue
            if not same(before, now):
                return f"`{space.path}.{name}`"
    return None


def _is_empty(name: str, value: Any) -> bool:
    return name == "__annotations__" and value == {}  # Python makes it when it is asked for


def unknown() -> str:
    return "something"


def class_row(cls: type, differs: Callable[[], str | None]) -> Row:
    """That nothing differs in a class; what does is asked if it was touched at all."""
    alike = functools.partial(_is_none, differs)
    return Row(Kind.CLASS, cls, alike, differs, False, f"the class {cls.__name__}")


def _is_none(question: Callable[[], object]) -> bool:
    return question() is None
