"""Keys of dicts and elements of sets, as a file may ask for them.

To be a key, an object is hashed and compared. That is code where a class has methods of its own for
it, so such a class must be given to ``load(classes=...)``. And hashing walks through nested tuples,
again for every reference to one: forty tuples, each holding the one before it twice, would take
hours. So keys are measured before they are hashed.
"""

from __future__ import annotations

import enum
import pathlib
from collections.abc import Collection
from types import FunctionType
from typing import Any

from adjoint._tensor.device import device
from adjoint.serialization._errors import LoadError

__all__ = ["check_key"]

_LARGEST = 2_000
# Written in Python, and known to do nothing but to hash and to compare.
_KNOWN = {
    getattr(cls, name)
    for cls in (enum.Enum, pathlib.PurePath, device)
    for name in ("__hash__", "__eq__")
}


def check_key(key: Any, classes: Collection[type] = ()) -> Any:
    """``key``, if hashing it is quick and runs nothing but methods of these classes."""
    if type(key) is str:
        return key
    parts, ahead = 0, [key]
    while ahead:
        part = ahead.pop()
        inner = _hashed_with(part, classes)
        parts += 1 + len(inner)
        if parts > _LARGEST:
            raise LoadError(f"a key in it has more than {_LARGEST} parts")
        ahead.extend(inner)
    return key


def _hashed_with(part: Any, classes: Collection[type]) -> Collection[Any]:
    """What is hashed when ``part`` is."""
    cls = type(part)
    if cls in classes:
        from adjoint._tree_classes import describe  # at its first use: it takes long

        recipe = describe(cls)
        if recipe is not None and recipe.get is not None:
            return recipe.get(part)
        return part if isinstance(part, tuple) else ()
    for method in (cls.__hash__, cls.__eq__):
        if isinstance(method, FunctionType) and method not in _KNOWN:
            raise LoadError(
                f"it has a key of the class {cls.__module__}.{cls.__qualname__}, whose own "
                f"{method.__name__} would be run.\n"
                f"  fix: load(f, classes=[{cls.__name__}]) if the file may do that"
            )
    return part if isinstance(part, tuple | frozenset) else ()
