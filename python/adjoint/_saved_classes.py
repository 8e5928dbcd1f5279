"""Objects of classes in the files of `adjoint.save`: named tuples, dataclasses and one's own.

A file holds the name of the class and the parts of the object. Loading imports nothing and calls
nothing of the class: the class must be there already (imported, or given to ``load(classes=...)``),
and the object is made without its ``__init__``. A class with methods of its own for being rebuilt,
or with a ``__del__``, runs code and must therefore be given. Read next: `_serialization`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from adjoint._tree_classes import Recipe, describe, is_namedtuple

__all__ = ["decode", "encode", "is_object"]


def is_object(obj: Any) -> bool:
    """Whether ``obj`` is a structure of a class of its own."""
    cls = type(obj)
    return is_namedtuple(cls) or (cls.__module__ != "builtins" and describe(cls) is not None)


def encode(obj: Any, encode_part: Callable[[Any, str], Any], where: str) -> dict[str, Any]:
    """The entry of an object; ``encode_part`` makes those of its parts."""
    cls = type(obj)
    row: dict[str, Any] = {"class": f"{cls.__module__}:{cls.__qualname__}"}
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
            others = getattr(metadata, "others", {})
            row["others"] = [
                [name, encode_part(item, f"{where}.{name}")] for name, item in others.items()
            ]
    pairs = zip(names, parts, strict=True)
    row["parts"] = [[name, encode_part(part, f"{where}.{name}")] for name, part in pairs]
    return {"object": row}


def decode(row: Any, decode_part: Callable[[Any], Any], classes: Sequence[type]) -> Any:
    """The object of an entry.

    Raises
    ------
    RuntimeError
        Its class is not there, is no composite, or has other fields than the file.
    """
    try:
        name, pairs = row["class"], [(str(n), part) for n, part in row["parts"]]
        others = [(str(n), part) for n, part in row.get("others", [])]
    except (TypeError, KeyError, ValueError):
        raise RuntimeError("the file has a bad entry for an object") from None
    cls, given = _find(name, classes)
    if is_namedtuple(cls):
        _check_names(name, cls._fields, [n for n, _ in pairs], exact=True)
        return tuple.__new__(cls, [decode_part(part) for _, part in pairs])
    recipe = describe(cls)
    if recipe is None:
        raise RuntimeError(f"the file has an object of {name}, which is no composite class here")
    if not given and (recipe.own_methods or hasattr(cls, "__del__")):
        raise RuntimeError(
            f"the file has an object of {name}, whose own methods would be run to rebuild it.\n"
            f"  fix: load(f, classes=[{cls.__name__}]) if the file may do that"
        )
    parts = [decode_part(part) for _, part in pairs]
    if recipe.own_methods:
        return recipe.unflatten(decode_part(row["metadata"]), parts)
    return _rebuilt(name, recipe, pairs, parts, [(n, decode_part(part)) for n, part in others])


def _rebuilt(
    name: str, recipe: Recipe, pairs: list[Any], parts: list[Any], others: list[tuple[str, Any]]
) -> Any:
    names = tuple(n for n, _ in pairs)
    if recipe.fields is not None:
        _check_names(name, recipe.fields, names, exact=False)
    every = (*names, *(n for n, _ in others))
    return recipe.unflatten(every, [*parts, *(item for _, item in others)])


def _check_names(cls: str, fields: Sequence[str], names: Sequence[str], exact: bool) -> None:
    missing = [f for f in fields if f not in names]
    extra = [n for n in names if n not in fields] if exact else []
    if missing or extra:
        raise RuntimeError(
            f"the file has an object of {cls} with the fields {', '.join(names)}, but the class "
            f"has {', '.join(fields)}"
        )


def _find(name: Any, classes: Sequence[type]) -> tuple[Any, bool]:
    """The class of a name, and whether it was given by the caller."""
    module_name, _, qualname = str(name).partition(":")
    for exact in (True, False):  # a script's classes are in __main__ when it saves them itself
        for cls in classes:
            if cls.__qualname__ == qualname and (not exact or cls.__module__ == module_name):
                return cls, True
    found: Any = sys.modules.get(module_name)
    for part in qualname.split("."):
        # Not getattr: a module or a class may compute attributes, which would run code.
        found = vars(found).get(part) if hasattr(found, "__dict__") else None
    if not isinstance(found, type) or not (is_namedtuple(found) or describe(found)):
        raise RuntimeError(
            f"the file has an object of {name}, and no such composite class is imported.\n"
            f"  fix: import {module_name} first, or load(f, classes=[...]) with the class"
        )
    return found, False
