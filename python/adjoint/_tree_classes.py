"""How objects of classes are taken apart: dataclasses, attrs classes, and one's own.

`describe` decides for a class, once; `_tree` tells optree. Objects are rebuilt without running
``__init__`` or ``__post_init__``: a gradient need not satisfy what a constructor demands. What
somebody declared about a class (`utils._pytree.register_pytree_node`) comes before all of that.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import optree

from adjoint._core import Tensor

__all__ = ["MARK", "KeyEntry", "Recipe", "declared", "describe", "is_namedtuple"]

MARK = "__adjoint_composite__"  # what `adjoint.composite` leaves on a class

Flat = tuple[Iterable[Any], Any, Iterable[Any] | None]


class Recipe(NamedTuple):
    """What optree needs to know about a class."""

    flatten: Callable[[Any], Flat]
    unflatten: Callable[[Any, Iterable[Any]], Any]
    entry: type[optree.PyTreeEntry]
    own_methods: bool = False  # the class rebuilds its objects itself
    fields: tuple[str, ...] | None = None  # those every object has, if that is known
    get: Callable[[Any], tuple[Any, ...]] | None = None  # the values of those
    native: bool = False  # parts are what is in __dict__, or in slots, and nothing else matters


declared: dict[type, Recipe] = {}  # said by a user rather than found out


class KeyEntry(optree.PyTreeEntry):
    """A step that a class names by a key: ``str(key)`` as Python writes it, ``key.get(object)``."""

    __slots__ = ()

    def __call__(self, obj: Any) -> Any:
        return self.entry.get(obj)

    def codify(self, node: str = "") -> str:
        """The step as Python writes it, behind what leads there."""
        return f"{node}{self.entry}"


class _Carried:
    """The names of an object's parts, and attributes that go along without being looked at."""

    __slots__ = ("names", "others")

    def __init__(self, names: tuple[str, ...], others: dict[str, Any]) -> None:
        self.names = names
        self.others = others

    def __eq__(self, other: object) -> bool:
        return self.names == (other.names if isinstance(other, _Carried) else other)

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return repr(self.names)


def is_namedtuple(cls: Any) -> bool:
    """Whether ``cls`` is a named tuple, or derived from one."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def describe(cls: type) -> Recipe | None:
    """How objects of ``cls`` are taken apart; None if they are leaves."""
    if cls in declared:
        return declared[cls]
    if issubclass(cls, Tensor) or callable(getattr(cls, "named_parameters", None)):
        return None  # a module's parameters are not its attributes: functional_call takes them
    if hasattr(cls, "__tree_flatten__") or hasattr(cls, "__tree_unflatten__"):
        return _own_methods(cls)
    if dataclasses.is_dataclass(cls):
        return _by_fields(cls, tuple(f.name for f in dataclasses.fields(cls)))
    attrs = getattr(cls, "__attrs_attrs__", None)
    if attrs is not None:
        return _by_fields(cls, tuple(field.name for field in attrs))
    if getattr(cls, MARK, False):
        return _by_attributes(cls)
    return None


def _own_methods(cls: Any) -> Recipe:
    for name in ("__tree_flatten__", "__tree_unflatten__"):
        if not callable(getattr(cls, name, None)):
            raise TypeError(
                f"{cls.__name__} has only one of __tree_flatten__ and __tree_unflatten__: "
                f"{name} is missing"
            )

    def flatten(value: Any) -> Flat:
        parts = value.__tree_flatten__()
        if not isinstance(parts, tuple) or len(parts) not in (2, 3):
            raise TypeError(
                f"{cls.__name__}.__tree_flatten__ must return (children, metadata) or "
                f"(children, metadata, entries), not {type(parts).__name__}"
            )
        return (*parts, None)[:3]

    named = getattr(cls, "TREE_PATH_ENTRY_TYPE", optree.AutoEntry)
    return Recipe(flatten, cls.__tree_unflatten__, named, own_methods=True)


def _cached_names(cls: type) -> frozenset[str]:
    """Attributes that `functools.cached_property` will compute again: of no use to other leaves."""
    return frozenset(
        name
        for base in cls.__mro__
        for name, item in vars(base).items()
        if isinstance(item, functools.cached_property)
    )


def _getter(cls: type, names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Gets the values of attributes, of objects that have as many in their ``__dict__``.

    AttributeError if some are not there. A default in the class, or a slot, would be found as well,
    while something that is not a field makes up the number.
    """
    get: Callable[[Any], tuple[Any, ...]]
    if len(names) > 1:
        get = attrgetter(*names)
    else:
        get = lambda value: tuple(getattr(value, name) for name in names)  # noqa: E731
    elsewhere = frozenset(n for n in names if any(n in vars(base) for base in cls.__mro__))
    if not elsewhere or cls.__dictoffset__ == 0:
        return get

    def get_own(value: Any) -> tuple[Any, ...]:
        if not vars(value).keys() >= elsewhere:
            raise AttributeError("a field is not in the object's __dict__")
        return get(value)

    return get_own


def _by_fields(cls: type, fields: tuple[str, ...]) -> Recipe:
    """Fields are the parts; tensors that a method put beside them are parts as well."""
    get_all, cached = _getter(cls, fields), _cached_names(cls)

    def flatten(value: Any) -> Flat:
        held = getattr(value, "__dict__", None)
        if held is None or len(held) == len(fields):
            try:
                return get_all(value), fields, fields
            except AttributeError:  # a field without a value
                pass
        names = [name for name in fields if hasattr(value, name)]
        others = {k: v for k, v in (held or {}).items() if k not in fields and k not in cached}
        names += [name for name, item in others.items() if isinstance(item, Tensor)]
        others = {k: v for k, v in others.items() if k not in names}
        all_names = tuple(names)
        parts = [getattr(value, name) for name in names]
        return parts, (_Carried(all_names, others) if others else all_names), all_names

    native = _is_plain(cls) or cls.__dictoffset__ == 0
    return Recipe(flatten, _rebuilder(cls), optree.GetAttrEntry, False, fields, get_all, native)


def _by_attributes(cls: type) -> Recipe:
    """Every attribute of the object is a part, in alphabetical order."""
    cached = _cached_names(cls)
    slots = [name for base in cls.__mro__ for name in _slots_of(base)]

    def flatten(value: Any) -> Flat:
        found = set(getattr(value, "__dict__", ())) - cached
        found.update(name for name in slots if hasattr(value, name))
        names = tuple(sorted(found))
        return [getattr(value, name) for name in names], names, names

    native = _is_plain(cls) and not slots and not cached
    return Recipe(flatten, _rebuilder(cls), optree.GetAttrEntry, native=native)


def _slots_of(base: type) -> list[str]:
    slots = vars(base).get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    hidden = base.__name__.lstrip("_")  # a private slot is kept under its mangled name
    return [
        f"_{hidden}{name}" if name.startswith("__") and not name.endswith("__") else name
        for name in names
        if name not in ("__dict__", "__weakref__")
    ]


def _is_plain(cls: type) -> bool:
    """Whether attributes are in ``__dict__``: a slot or a property would want to be asked."""
    return cls.__dictoffset__ != 0 and not any(
        hasattr(item, "__set__") and not name.startswith("__")
        for base in cls.__mro__
        for name, item in vars(base).items()
    )


def _rebuilder(cls: type) -> Callable[[Any, Iterable[Any]], Any]:
    """Makes an object from its parts, also a frozen one or one with slots."""
    new, put = object.__new__, object.__setattr__
    plain = _is_plain(cls)

    def unflatten(carried: tuple[str, ...] | _Carried, children: Iterable[Any]) -> Any:
        value: Any = new(cls)
        names = carried if isinstance(carried, tuple) else carried.names
        if plain:
            value.__dict__.update(zip(names, children, strict=True))
            if not isinstance(carried, tuple):
                value.__dict__.update(carried.others)
            return value
        for name, child in zip(names, children, strict=True):
            put(value, name, child)
        if not isinstance(carried, tuple):
            for name, other in carried.others.items():
                put(value, name, other)
        return value

    return unflatten
