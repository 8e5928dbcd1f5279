"""`Visits`: what an object leads to, by its kind. No object is asked through its own methods.

Read next: `_walk`.
"""

from __future__ import annotations

import abc
import functools
import gc
import operator
import re
import types
import weakref
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType, FunctionType
from typing import Any

import optree

import adjoint as ad
from adjoint import Tensor

from ._contents import (
    CONTAINERS,
    content,
    content_rows,
    is_array,
    parts,
    parts_of_error,
    parts_of_partial,
)
from ._guards import ABSENT, Kind, Place
from ._names import ASKING
from ._namespaces import FIELDS, Namespaces
from ._pure import GENERIC, LOCKS, TYPES, is_vouched, methods_of, why_not
from ._refusals import Unguardable
from ._visible import is_foreign, is_library, slots, solid_base

__all__ = ["LARGEST_ARRAY", "MOST_PARTS", "Visits"]

LARGEST_ARRAY = 4096  # bytes, compared at each call
MOST_PARTS = 4096  # of a container

_BYTES = (bytearray, memoryview, *(one for one in TYPES if one.__name__ == "array"))
# Objects of these stay what they are, and hold others.
_VIEWS: tuple[type, ...] = (
    *(type({}.keys()), type({}.values()), type({}.items()), types.MappingProxyType, slice),
    *(operator.itemgetter, types.GenericAlias, types.UnionType),
)
_SCALARS = (int, float, complex, str, bytes, BaseException)
# Objects of these have nothing in them that could change.
_CONSTANT = frozenset(
    (
        *(types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType, object),
        *(types.WrapperDescriptorType, types.MethodDescriptorType, re.Pattern, type(ad.strided)),
        *(types.ClassMethodDescriptorType, re.Match, type(ad.contiguous_format)),
        type(vars(abc.ABC)["_abc_impl"]),  # for which there is a token
        next(t for t in TYPES if t.__name__ == "_tuplegetter"),
        optree.PyTreeSpec,
    )
)
_ERROR_SIZE: int = BaseException.__basicsize__
_FACTORY: Any = vars(defaultdict)["default_factory"].__get__
_BY_ADDRESS = frozenset(("id", "hash"))  # then it is for these very tensors


class Visits(Namespaces):
    """Reach what is in objects."""

    def __init__(self) -> None:
        super().__init__()
        self._codes: dict[CodeType, str] = {}  # that have started, and how they are treated
        # Functions and bound methods that matter if their code starts.
        self._waiting: dict[CodeType, list[tuple[Any, str]]] = {}

    def _visit(self, value: Any, path: str) -> None:
        kind = type(value)
        visit = _VISITS.get(kind)
        if visit is not None:
            visit(self, value, path)
        elif issubclass(kind, Tensor):
            self._tensor(value, path)
        elif issubclass(kind, type):
            self._class(value, path)
        elif issubclass(kind, types.ModuleType):
            self._module(value, path)
        elif issubclass(kind, functools.partial):
            self._partial(value, path)
        elif issubclass(kind, weakref.ref):
            self._reference(value, path)
        elif is_array(value):
            self._bytes(value, path)
            self._attributes(value, path)
        elif kind.__name__ == "_ArrayFunctionDispatcher":
            self._dispatcher(value, path)
        elif kind.__name__ == "ufunc" and methods_of(kind):
            pass
        elif not is_foreign(kind):
            self._object(value, path)

    # -- what can be called ------------------------------------------------------------------------

    def _function(self, function: FunctionType, path: str) -> None:
        if not is_vouched(function):
            if not is_library(function.__code__.co_filename) or function.__dict__:
                self._instance_dict(function, path)
                self._fielded.append((function, path))
                self._reach_fields(function, path, FIELDS & self._names)
            if function.__code__ in self._codes:
                self._expand(function, path)
            else:
                self._waiting.setdefault(function.__code__, []).append((function, path))

    def _expand(self, function: Any, path: str) -> None:
        """What a function that runs brings along."""
        if type(function) is types.MethodType:
            self._reach(function, path)
            return
        if is_library(function.__code__.co_filename) and function.__closure__ is None:
            return
        for place, name in (
            (Place.CODE, "__code__"),
            (Place.DEFAULTS, "__defaults__"),
            (Place.KEYWORD_DEFAULTS, "__kwdefaults__"),
        ):
            held = getattr(function, name)
            there = ABSENT if held is None else held
            self._note(Kind.PLACE, function, there, place, f"`{name}` of {function.__name__}")
        if function.__kwdefaults__:  # a dict, which may be changed in place
            self._reach(function.__kwdefaults__, f"{function.__name__}.__kwdefaults__")
        for name, held in _defaults(function):
            self._reach(held, name)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._cell(cell, name)

    def _cell(self, cell: Any, name: str) -> None:
        if id(cell) not in self._reached:
            self._reached[id(cell)] = cell
            try:
                held = cell.cell_contents
            except ValueError:
                held = ABSENT
            self._note(Kind.PLACE, cell, held, Place.CELL, f"`{name}` of an enclosing function")
            self._reach(held, name)

    def _cell_itself(self, value: Any, path: str) -> None:
        del self._reached[id(value)]
        self._cell(value, path)

    def _method(self, value: Any, path: str) -> None:
        self._reach(value.__func__, path)
        self._reach(value.__self__, path)

    def _builtin(self, value: Any, path: str) -> None:
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType | type):
            if value.__name__ in ASKING and value.__module__ == "builtins":
                self._read_all()
        else:
            self._reach(owner, path)  # a bound method: its object has the state
        if type(value) is types.BuiltinFunctionType:
            self._judge(value, path)

    def _judge(self, function: Any, path: str) -> None:
        """Refuse a C function that is not known to be pure."""
        if function.__name__ in _BY_ADDRESS and function.__module__ == "builtins":
            self._pin()
        why = why_not(function)
        if why:
            raise Unguardable(why, path or function.__name__)

    def _dispatcher(self, value: Any, path: str) -> None:
        """A function of NumPy: in C, or in Python, which is judged when it starts."""
        if not isinstance(getattr(value, "_implementation", None), FunctionType):
            self._judge(value, path)

    def _property(self, value: Any, path: str) -> None:
        for one in (value.fget, value.fset, value.fdel):
            self._reach(one, path)

    def _wrapped(self, value: Any, path: str) -> None:
        self._reach(value.__func__, path)

    def _partial(self, value: Any, path: str) -> None:
        parts = functools.partial(parts_of_partial, value)
        self._ask(parts, f"the parts of `{path}`")
        for part in parts():
            self._reach(part, path)
        self._attributes(value, path)

    def _getter(self, value: Any, path: str) -> None:
        """An attrgetter or methodcaller: it asks for names that are in no code."""
        texts = [one for one in value.__reduce__()[1] if isinstance(one, str)]
        self._add_names(frozenset(name for text in texts for name in text.split(".")), False)
        for one in gc.get_referents(value):
            self._reach(one, path)

    # -- what holds others, or memory --------------------------------------------------------------

    def _view(self, value: Any, path: str) -> None:
        for one in gc.get_referents(value):
            self._reach(one, path)

    def _generic(self, value: Any, path: str) -> None:
        """A type parameter or an alias: bounds and the like stay; attributes may be given to it."""
        self._view(value, path)
        self._instance_dict(value, path)

    def _container(self, value: Any, path: str) -> None:
        size = len(parts(value))
        if size > MOST_PARTS and not isinstance(value, tuple | frozenset):
            raise Unguardable(
                f"`{path}` has {size} parts, too many to compare at each call; fix: make it a "
                "tensor or a tuple, or pass it as an argument",
                path,
            )
        for row in content_rows(value, path):
            self._rows.append(row)
        for part in parts(value):
            self._reach(part, f"{path}[...]")
        if isinstance(value, defaultdict):
            factory = functools.partial(_FACTORY, value)
            self._ask(factory, f"`{path}.default_factory`")
            self._reach(factory(), path)

    def _bytes(self, value: Any, path: str) -> None:
        if is_array(value) and value.dtype.hasobject:
            raise Unguardable(f"`{path}` is an array of Python objects", path)
        size = value.nbytes if is_array(value) else memoryview(value).nbytes
        if size > LARGEST_ARRAY:
            raise Unguardable(
                f"`{path}` has {size} bytes, too many to compare at each call; fix: make it a "
                "tensor, or pass it as an argument",
                path,
            )
        self._ask(functools.partial(content, value), f"the content of `{path}`")
        self._memory.append(self._rows[-1])

    def _error(self, value: Any, path: str) -> None:
        """An exception that is kept: what it says; those that say more than others refuse."""
        kind: Any = type(value)
        base = solid_base(kind)
        if base is not None and base.__basicsize__ > _ERROR_SIZE:
            self._refuse_hidden(value, path)
        parts = functools.partial(parts_of_error, value)
        self._ask(parts, f"`{path}`")
        for part in parts()[:3]:
            self._reach(part, path)

    def _reference(self, value: Any, path: str) -> None:
        target = weakref.ref.__call__(value)
        if target is None:
            return  # forever
        if not isinstance(target, type):
            reason = f"`{path}` is a weak reference, and a recording would keep its object alive"
            raise Unguardable(reason, path)
        self._reach(target, path)

    def _lock(self, value: Any, path: str) -> None:
        self._ask(functools.partial(repr, value), f"`{path}`")  # who holds it, and how often

    def _variable(self, value: Any, path: str) -> None:
        self._ask(functools.partial(value.get, ABSENT), f"`{path}`")
        self._reach(value.get(ABSENT), path)

    # -- tensors and other objects -----------------------------------------------------------------

    def _tensor(self, value: Tensor, path: str) -> None:
        self._tensors.append(value)
        has_attributes = value.__dict__ if hasattr(value, "__dict__") else None
        own = True if has_attributes else None
        self._note(Kind.TENSOR, value, None, own, f"the tensor `{path}`")
        if has_attributes:
            self._instance_dict(value, path)
        if type(value) is not Tensor:
            self._class(type(value), path)

    def _object(self, value: Any, path: str) -> None:
        kind: Any = type(value)
        base = solid_base(kind)
        if issubclass(kind, CONTAINERS):
            self._container(value, path)
        elif (
            base is not None
            and not issubclass(base, _SCALARS)
            and base is not types.SimpleNamespace
            and not is_vouched(kind)
        ):
            self._refuse_hidden(value, path)
        elif issubclass(kind, BaseException):
            self._error(value, path)
        if kind not in TYPES:
            self._attributes(value, path)
            for name, member in slots(kind):
                self._slot(value, name, member, path)
        elif kind is types.SimpleNamespace:
            self._instance_dict(value, path)

    def _refuse_hidden(self, value: Any, path: str) -> None:
        kind = type(value).__name__
        raise Unguardable(f"`{path}` is of the type {kind}, whose state cannot be seen", path)


_VISITS: dict[type, Callable[[Visits, Any, str], None]] = {
    FunctionType: Visits._function,
    types.MethodType: Visits._method,
    types.BuiltinFunctionType: Visits._builtin,
    types.MethodWrapperType: Visits._builtin,
    property: Visits._property,
    staticmethod: Visits._wrapped,
    classmethod: Visits._wrapped,
    operator.attrgetter: Visits._getter,
    operator.methodcaller: Visits._getter,
    ContextVar: Visits._variable,
    **dict.fromkeys(LOCKS, Visits._lock),
    types.CellType: Visits._cell_itself,
    type(ad.zeros): Visits._judge,
    **dict.fromkeys(_VIEWS, Visits._view),
    **dict.fromkeys(GENERIC, Visits._generic),
    **dict.fromkeys(_BYTES, Visits._bytes),
    **dict.fromkeys(CONTAINERS, Visits._container),
    **dict.fromkeys(_CONSTANT, lambda visits, value, path: None),
}


def _defaults(function: FunctionType) -> list[tuple[str, Any]]:
    """The parameters of a function that have default values, and these."""
    given = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    found = [*zip(names[len(names) - len(given) :], given, strict=True)]
    return [*found, *(function.__kwdefaults__ or {}).items()]
