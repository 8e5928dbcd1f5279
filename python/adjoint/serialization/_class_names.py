"""Classes that pickles name: those that the caller allows, and those that are data by themselves.

A class that is given may do what it likes with its objects. A class that is only imported is used
if making its objects runs nothing of it: members of enums are looked up, named tuples are made as
tuples, and dataclasses without methods for it get their attributes. Nothing is imported.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from adjoint._tree_classes import describe, is_namedtuple
from adjoint.serialization._classes import imported_class, runs_code
from adjoint.serialization._errors import LoadError, shown
from adjoint.serialization._keys import check_key
from adjoint.serialization._pickle_machine import Machine, Name, Wrapped, arguments_of
from adjoint.serialization._value_names import attributes_of

__all__ = ["class_name", "given_name"]


def given_name(module: str, name: str, what: Any) -> Wrapped:
    """A class or a function that the caller allows: it is called as the pickle says."""

    def build(m: Machine, *arguments: Any) -> Any:
        return _watched(m, what(*arguments))

    def new(m: Machine, *arguments: Any) -> Any:
        return _watched(m, what.__new__(what, *arguments))

    made = new if isinstance(what, type) else None
    return Wrapped(f"{module}.{name}", what, build if callable(what) else None, made)


def _watched(m: Machine, obj: Any) -> Any:
    """An object of a class that was given gets its state as the class wants it."""
    if type(obj) not in m.classes:
        return obj

    def set_state(state: Any) -> None:
        state = arguments_of(state) or state
        if hasattr(obj, "__setstate__"):
            obj.__setstate__(state)
            return
        held, slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
        if held:
            obj.__dict__.update(held)
        for name, value in (slots or {}).items():
            setattr(obj, name, value)

    return m.made(obj, set_state)


def class_name(module: str, name: str) -> Name | None:
    """An imported class whose objects are data; None if there is no such class."""
    cls = imported_class(module, name)
    if cls is None:
        return None
    whole = f"{module}.{name}"
    if issubclass(cls, enum.Enum):
        return Name(whole, lambda m, *values: _member(cls, values))
    if is_namedtuple(cls):
        return Name(whole, None, lambda m, *parts: _named_tuple(cls, parts))
    recipe = describe(cls)
    if recipe is None or recipe.own_methods or not _is_plain(cls):
        return None
    return Name(whole, None, lambda m, *arguments: _object(m, cls, arguments))


def _is_plain(cls: Any) -> bool:
    """Whether an object is made, and gets its state, without methods of the class."""
    own = getattr(cls, "__setstate__", None)
    return bool(
        cls.__new__ is object.__new__
        and cls.__reduce_ex__ is object.__reduce_ex__
        and cls.__reduce__ is object.__reduce__
        and (own is None or own is _of_dataclasses)
    )


# What a frozen dataclass with slots has: it sets the fields, and nothing else.
_of_dataclasses = getattr(dataclasses, "_dataclass_setstate", object())


def _member(cls: type[enum.Enum], values: tuple[Any, ...]) -> Any:
    """The member of an enum, by its value: nothing of the class is called."""
    if len(values) == 1 and values[0].__hash__ is not None:
        value = check_key(values[0])
        for member in cls.__members__.values():
            if type(member._value_) is type(value) and member._value_ == value:
                return member
        own = getattr(cls._missing_, "__func__", None)
        usual = own is enum.Flag._missing_.__func__  # type: ignore[attr-defined]
        if usual and type(cls) is enum.EnumMeta and type(value) is int:
            return cls(value)  # several flags at once
    raise LoadError(f"it has the member {shown(values)} of {cls.__name__}, which has no such one")


def _named_tuple(cls: Any, parts: tuple[Any, ...]) -> Any:
    if len(parts) != len(cls._fields):
        raise LoadError(
            f"it has a {cls.__name__} of {len(parts)} parts, but the class has "
            f"{', '.join(cls._fields)}"
        )
    if hasattr(cls, "__del__"):
        raise LoadError(_ran(cls))
    return tuple.__new__(cls, parts)


def _object(m: Machine, cls: type, arguments: tuple[Any, ...]) -> Any:
    if arguments or hasattr(cls, "__del__"):
        raise LoadError(_ran(cls))
    made: Any = object.__new__(cls)

    def set_state(state: Any) -> None:
        for name, value in _state_of(cls, arguments_of(state) or state).items():
            object.__setattr__(made, name, value)

    return m.made(made, set_state)


def _state_of(cls: Any, state: Any) -> dict[str, Any]:
    """The attributes in the state of an object, if setting them calls nothing."""
    if isinstance(state, list) and hasattr(cls, "__dataclass_fields__"):  # of one with slots
        names = [field.name for field in dataclasses.fields(cls)]
        if len(names) != len(state):
            raise LoadError(f"it has a {cls.__name__} of {len(state)} parts, of {len(names)}")
        state = dict(zip(names, state, strict=True))
    elif isinstance(state, tuple) and len(state) == 2:
        both = [attributes_of({} if part is None else part, cls.__name__) for part in state]
        state = both[0] | both[1]
    held = attributes_of(state, cls.__name__)
    if runs_code(cls, describe(cls), list(held)):
        raise LoadError(_ran(cls))
    return held


def _ran(cls: type) -> str:
    return (
        f"it has an object of {cls.__module__}:{cls.__qualname__}, whose own methods would be run "
        f"to rebuild it.\n  fix: load(f, classes=[{cls.__name__}]) if the file may do that"
    )
