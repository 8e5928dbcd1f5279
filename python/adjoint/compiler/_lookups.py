"""Where an attribute is found: the places that decide what ``thing.name`` gives.

`find` follows Python's own rules without running anything of the user's, and answers with a
`Place`: something that can be asked again later, cheaply, whether it still holds what it held. Read
next: `_guards`, which does the asking.
"""

from __future__ import annotations

import enum
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

from adjoint import Tensor
from adjoint.compiler._libraries import is_library, is_library_class
from adjoint.nn.modules.module import Module

__all__ = [
    "ABSENT",
    "Place",
    "cell_place",
    "find",
    "item_place",
    "own_dict",
    "own_place",
    "raw_attribute",
    "super_place",
]

_SKIPPED = (
    str,
    int,
    float,
    complex,
    bytes,
    tuple,
    frozenset,
    enum.Enum,
    BuiltinFunctionType,
    super,
)


class _Absent:
    def __repr__(self) -> str:
        return "absent"


ABSENT: Any = _Absent()  # what a name has that is not there


class Place(NamedTuple):
    """One thing that was read: where, and what it was."""

    # attr, method, item, keys, cell, own (of a class), absent, free (built-in), whole, context;
    # told: what the function `key` says of the holder, to be compared by ==
    kind: str
    holder: Any
    key: Any
    value: Any
    owner: Any  # the object people know: a module rather than the dict of its names


def item_place(container: Any, key: Any, owner: Any) -> Place | None:
    """Where ``container[key]`` is found, for dicts; None if it is not there."""
    value = dict.get(container, key, ABSENT)
    return None if value is ABSENT else Place("item", container, key, value, owner)


def own_place(found: tuple[type, Any], name: str) -> Place:
    """Where a class itself has `name`, as `raw_attribute` found it."""
    return Place("own", found[0], name, found[1], found[0])


def cell_place(cell: Any) -> Place | None:
    """Where a variable of an enclosing function is found; None while it has no value."""
    try:
        return Place("cell", cell, None, cell.cell_contents, cell)
    except ValueError:
        return None


def raw_attribute(cls: type, name: str) -> tuple[type, Any] | None:
    """The class among the bases of `cls` that has `name`, and what it has there."""
    for base in cls.__mro__:
        own = base.__dict__
        if name in own:
            return base, own[name]
    return None


def own_dict(thing: Any) -> dict[str, Any] | None:
    """The attributes of an object itself, if it keeps them in a dict."""
    get: Any = type(thing).__getattribute__
    if type(get) is not WrapperDescriptorType:
        get = object.__getattribute__  # the class has its own, written in Python
    try:
        own = get(thing, "__dict__")
    except AttributeError:
        return None
    return own if isinstance(own, dict) else None


def find(thing: Any, name: str) -> Place | None:
    """The place that decides what ``thing.name`` is; None where that cannot change or be known."""
    if isinstance(thing, ModuleType):
        return None if is_library(thing) else item_place(thing.__dict__, name, thing)
    if isinstance(thing, type):
        return _find_in_class(thing, name)
    if isinstance(thing, Tensor):
        own = own_dict(thing)
        return Place("attr", thing, name, own[name], thing) if own and name in own else None
    if isinstance(thing, _SKIPPED):
        return None
    return _find_in_object(thing, name)


def super_place(cls: type, below: type, name: str) -> Place | None:
    """Where ``super(cls, thing).name`` is found, `below` being the class of the thing."""
    bases = below.__mro__
    for base in bases[bases.index(cls) + 1 :]:
        if name in base.__dict__:
            raw = base.__dict__[name]
            return None if is_library_class(base) else own_place((base, raw), name)
    return None


def _find_in_class(cls: type, name: str) -> Place | None:
    if isinstance(cls, enum.EnumMeta) or is_library_class(cls):
        return None
    above = raw_attribute(type(cls), name)
    if above is not None and _is_data(above[1]):
        return None
    found = raw_attribute(cls, name)
    if found is None:
        return None
    base, raw = found
    if hasattr(type(raw), "__get__"):
        return None if is_library_class(base) else own_place((base, raw), name)
    return Place("attr", cls, name, raw, cls)


def _find_in_object(thing: Any, name: str) -> Place | None:
    cls = type(thing)
    if type(cls.__getattribute__) is not WrapperDescriptorType:
        return None  # written in Python: its own frame is watched
    found = raw_attribute(cls, name)
    if found is not None and _is_data(found[1]):
        return _find_by_descriptor(thing, name, *found)
    own = own_dict(thing)
    if own is not None and name in own:
        return Place("attr", thing, name, own[name], thing)
    if found is not None:
        return _find_on_class(thing, name, *found)
    if isinstance(thing, Module):
        return _find_in_tables(thing, name)
    if hasattr(cls, "__getattr__"):
        return None
    return Place("absent", thing, name, ABSENT, thing)


def _find_by_descriptor(thing: Any, name: str, base: type, raw: Any) -> Place | None:
    if isinstance(raw, MemberDescriptorType):  # __slots__
        try:
            return Place("attr", thing, name, raw.__get__(thing), thing)
        except AttributeError:
            return Place("absent", thing, name, ABSENT, thing)
    if isinstance(raw, GetSetDescriptorType) or is_library_class(base):
        return None
    return own_place((base, raw), name)


def _find_on_class(thing: Any, name: str, base: type, raw: Any) -> Place | None:
    if not hasattr(type(raw), "__get__"):
        return Place("attr", thing, name, raw, thing)
    if isinstance(raw, FunctionType) and (isinstance(thing, Module) or not is_library_class(base)):
        return Place("method", thing, name, raw, thing)
    return None if is_library_class(base) else own_place((base, raw), name)


def _find_in_tables(module: Module, name: str) -> Place | None:
    own = module.__dict__
    for table in ("_parameters", "_modules", "_buffers"):
        entries = own.get(table)
        if isinstance(entries, dict) and name in entries:
            return Place("item", entries, name, entries[name], module)
    return Place("absent", module, name, ABSENT, module)


def _is_data(raw: Any) -> bool:
    cls = type(raw)
    return hasattr(cls, "__set__") or hasattr(cls, "__delete__")
