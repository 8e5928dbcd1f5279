"""Objects of classes in files: named tuples, dataclasses, enums and one's own.

A file holds the name of the class and the parts of the object. Loading imports nothing and calls
nothing of the class: the class must be there already (imported, or given to ``load(classes=...)``),
and the object is made without its ``__init__``. A class that runs code nonetheless (methods of its
own for being rebuilt, a ``__del__``, a property for what the file sets) must therefore be given.
Read next: `_encode`, `_decode`.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Collection, Sequence
from types import MemberDescriptorType
from typing import Any

from adjoint._homes import home
from adjoint._tree_classes import Recipe, describe, is_namedtuple
from adjoint.serialization._errors import LoadError

__all__ = [
    "decode",
    "decode_enum",
    "encode",
    "imported_class",
    "is_object",
    "name_of",
    "runs_code",
]

# A dataclass that is also one of these holds more than its fields.
_VALUES = (dict, list, set, frozenset, str, bytes, bytearray, int, float, complex)


def is_object(obj: Any) -> bool:
    """Whether ``obj`` is a structure of a class of its own, and nothing beside its parts."""
    cls = type(obj)
    if is_namedtuple(cls):
        return not getattr(obj, "__dict__", None)
    recipe = describe(cls)
    if recipe is None or cls.__module__ == "builtins":
        return False
    return recipe.own_methods or not issubclass(cls, (*_VALUES, tuple))


def name_of(cls: type) -> str:
    """How a file names a class."""
    return f"{home(cls)}:{cls.__qualname__}"


def encode(obj: Any, encode_part: Callable[[Any, str], Any], where: str) -> dict[str, Any]:
    """The entry of an object; ``encode_part`` makes those of its parts."""
    cls = type(obj)
    row: dict[str, Any] = {"class": name_of(cls)}
    if is_namedtuple(cls):
        names, parts = cls._fields, tuple(obj)
    else:
        recipe = describe(cls)
        assert recipe is not None
        found, metadata, entries = recipe.flatten(obj)
        parts = tuple(found)
        if recipe.own_methods:
            row["metadata"] = encode_part(metadata, f"the metadata of {where}")
            names = tuple(map(str, range(len(parts)) if entries is None else entries))
        else:
            names = tuple(entries or ())
            absent = [name for name in recipe.fields or () if name not in names]
            if absent:
                row["absent"] = absent
            others = getattr(metadata, "others", {})
            row["others"] = [
                [name, encode_part(item, f"{where}.{name}")] for name, item in others.items()
            ]
    pairs = zip(names, parts, strict=True)
    row["parts"] = [[name, encode_part(part, f"{where}.{name}")] for name, part in pairs]
    return {"object": row}


def decode(row: Any, decode_part: Callable[[Any], Any], classes: Collection[type]) -> Any:
    """The object of an entry.

    Raises
    ------
    LoadError
        Its class is not there, is not a composite, or has other fields than the file.
    """
    try:
        name, pairs = row["class"], [(str(n), part) for n, part in row["parts"]]
        others = [(str(n), part) for n, part in row.get("others", [])]
        absent = list(row.get("absent", []))
    except (TypeError, KeyError, ValueError):
        raise LoadError("it has a bad entry for an object") from None
    cls, given = _find(name, classes, lambda c: is_namedtuple(c) or describe(c) is not None)
    recipe = None if is_namedtuple(cls) else describe(cls)
    if recipe is None and not is_namedtuple(cls):
        raise LoadError(f"it has an object of {name}, which is not a composite class here")
    names = [n for n, _ in pairs]
    every = [*names, *(n for n, _ in others)]
    if any(n.startswith("__") and n.endswith("__") for n in every):
        raise LoadError(f"it would set {', '.join(every)} of an object of {name}")
    if not given and runs_code(cls, recipe, every):
        raise LoadError(
            f"it has an object of {name}, whose own methods would be run to rebuild it.\n"
            f"  fix: load(f, classes=[{cls.__name__}]) if the file may do that"
        )
    if recipe is None:
        _check_names(name, cls._fields, names, exact=True)
        return tuple.__new__(cls, [decode_part(part) for _, part in pairs])
    if recipe.own_methods:
        parts = [decode_part(part) for _, part in pairs]
        return recipe.unflatten(decode_part(row["metadata"]), parts)
    if recipe.fields is not None:
        _check_names(name, [f for f in recipe.fields if f not in absent], names, exact=False)
    return recipe.unflatten(tuple(every), [decode_part(part) for _, part in (*pairs, *others)])


def runs_code(cls: type, recipe: Recipe | None, names: list[str]) -> bool:
    """Whether making an object with these attributes, or dropping it, calls its methods."""
    if hasattr(cls, "__del__"):
        return True
    return recipe is not None and (recipe.own_methods or any(_is_computed(cls, n) for n in names))


def _is_computed(cls: type, name: str) -> bool:
    """Whether setting an attribute calls a property, or something like one."""
    for base in cls.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            return hasattr(type(found), "__set__") and type(found) is not MemberDescriptorType
    return False


def decode_enum(row: Any, classes: Collection[type]) -> Any:
    """The member of an enum, by its name: nothing of the class is called."""
    name, member = row["class"], row["member"]
    cls, _ = _find(name, classes, lambda c: issubclass(c, enum.Enum))
    members = vars(cls).get("_member_map_", {})
    if member not in members:
        raise LoadError(f"it has the member {member!r} of {name}, which that enum does not have")
    return members[member]


def _check_names(cls: str, fields: Sequence[str], names: Sequence[str], exact: bool) -> None:
    missing = [f for f in fields if f not in names]
    extra = [n for n in names if n not in fields] if exact else []
    if missing or extra:
        raise LoadError(
            f"it has an object of {cls} with the fields {', '.join(names)}, but the class "
            f"has {', '.join(fields)}"
        )


def _find(
    name: Any, classes: Collection[type], fits: Callable[[type], bool]
) -> tuple[type[Any], bool]:
    """The class of a name, and whether it was given by the caller."""
    module_name, _, qualname = str(name).partition(":")
    for exact in (True, False):  # a script's classes are in __main__ when it saves them itself
        for cls in classes:
            if cls.__qualname__ == qualname and (not exact or home(cls) == module_name):
                return cls, True
    found = imported_class(module_name, qualname)
    if found is None or not fits(found):
        fix = "load(f, classes=[...]) with the class"
        if "<locals>" not in qualname:
            fix = f"import {module_name} first, or {fix}"
        raise LoadError(
            f"it has an object of {name}, and no such composite class or enum is imported.\n"
            f"  fix: {fix}"
        )
    return found, False


def imported_class(module: str, qualname: str) -> type[Any] | None:
    """The class of this name in a module that is imported; None if there is none."""
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        # Not getattr: a module or a class may compute attributes, which would run code.
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    return found if isinstance(found, type) else None
