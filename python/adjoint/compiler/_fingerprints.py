"""What stands for code, values and guards in a file: equal in each process where they are equal."""

from __future__ import annotations

import abc
import functools
import hashlib
import importlib
import os
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import adjoint as ad
from adjoint._core import Tensor

from ._guards import ABSENT, Guards, Kind, Row
from ._namespace_snapshot import CACHES
from ._visible import GENERATED, class_is_library, is_library, is_library_table

__all__ = [
    "NAMED_TUPLES",
    "code_print",
    "content_print",
    "guards_print",
    "kind_print",
    "own_codes",
]

NAMED_TUPLES = "namedtuple_"  # how the module of such code is called
_DEEPEST = 6
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_IN_C = (types.ModuleType, types.BuiltinFunctionType, type(ad.zeros))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def content_print(text: str, tensors: Sequence[Tensor | None]) -> str:
    """The fingerprint of a text and of all bytes of tensors."""
    found = hashlib.sha256(text.encode())
    for t in tensors:
        if t is None:
            found.update(b"none")
            continue
        found.update(f"{t.dtype} {list(t.shape)} {list(t.stride())}".encode())
        there = t.detach().resolve_conj().resolve_neg().contiguous()
        found.update(there.view(-1).view(ad.uint8).numpy().data)
    return found.hexdigest()


@functools.lru_cache(maxsize=4096)
def code_print(code: types.CodeType) -> str:
    """The fingerprint of a code object, with those that are nested in it."""
    constants = [_constant(one) for one in code.co_consts]
    facts = (
        code.co_code,
        code.co_names,
        code.co_varnames,
        code.co_freevars,
        code.co_qualname,
        code.co_argcount,
        code.co_kwonlyargcount,
        code.co_flags,
        constants,
    )
    return _digest(repr(facts))


def _constant(one: Any) -> Any:
    if isinstance(one, types.CodeType):
        return code_print(one)
    if isinstance(one, tuple | frozenset):
        parts = [_constant(part) for part in one]
        return type(one).__name__, parts if isinstance(one, tuple) else sorted(map(repr, parts))
    return type(one).__name__, repr(one)


def guards_print(guards: Guards) -> list[list[str]]:
    """What is guarded, by name, and the fingerprint of each."""
    rows = []
    for kind in Kind:
        for row in guards.rows(kind):
            if (kind is Kind.NAMES and not _told(row)) or _is_named_tuples(row.holder):
                continue
            extra = _names_print(row.extra) if isinstance(row.extra, frozenset) else None
            text = repr((kind.name, row.path, row.all, extra, _value(_content(row), _DEEPEST)))
            rows.append([row.path, _digest(text)])
    return sorted(rows)


def _is_named_tuples(holder: Any) -> bool:
    """Whether this belongs to the code that `namedtuple` has made for a class.

    It runs when a first object is made, in this process or in an earlier call: there may be none.
    """
    space = holder if isinstance(holder, dict) else getattr(holder, "__globals__", None)
    name = space.get("__name__") if isinstance(space, dict) else None
    return isinstance(name, str) and name.startswith(NAMED_TUPLES)


@functools.lru_cache(maxsize=64)
def _names_print(names: frozenset[str]) -> str:
    return _digest(repr(sorted(names)))  # one set for many rows


def _told(row: Row) -> dict[str, Any]:
    """The names of a row, not in the order in which they came to matter.

    What a library has of its own is taken to stay what it is, and may be there by now or not: it
    imports modules when they are asked for. What somebody has put there is told.
    """
    names = dict(sorted(row.value.items()))
    if not is_library_table(row.holder):
        return names
    return {name: value for name, value in names.items() if not _is_library(value)}


def _is_library(value: Any) -> bool:
    if isinstance(value, types.FunctionType):
        return is_library(value.__code__.co_filename)
    if isinstance(value, type):
        return class_is_library(value)
    return value is ABSENT or isinstance(value, _IN_C)


def _content(row: Row) -> Any:
    """What a row compares with."""
    if row.kind in (Kind.CLASS, Kind.TENSOR):
        return row.holder
    if row.kind is Kind.NAMES:
        return _told(row)
    if row.kind is not Kind.ASK:
        return row.value
    if row.holder is abc.get_cache_token:  # a count of what this process has registered
        return None
    if isinstance(row.value, functools.partial):
        return row.value.args[1:]
    held = dict(zip(row.value.__code__.co_freevars, row.value.__closure__ or (), strict=True))
    return held["answer"].cell_contents


def kind_print(kind: Any) -> str:
    """The fingerprint of a kind of call."""
    return _digest(repr(_of_kind(kind)))


def _of_kind(part: Any) -> Any:
    if isinstance(part, tuple):
        return [_of_kind(one) for one in part]
    if isinstance(part, type):
        return part.__module__, part.__qualname__
    if hasattr(part, "object"):  # of which a second process has another
        return "object", type(part.object).__module__, type(part.object).__qualname__
    return type(part).__name__, repr(part)


def _value(value: Any, depth: int) -> Any:
    """What stands for a value, as far as a second process can compare it."""
    kind = type(value)
    if value is None or kind in (bool, int, str, bytes, float, complex, range, slice):
        return kind.__name__, repr(value)
    if value is ABSENT or depth == 0:
        return "absent" if value is ABSENT else kind.__qualname__
    if kind in (list, tuple, frozenset, set):
        parts = [_value(part, depth - 1) for part in value]
        return kind.__name__, sorted(map(repr, parts)) if kind in (set, frozenset) else parts
    if isinstance(value, dict):
        return "dict", [(repr(key), _value(part, depth - 1)) for key, part in value.items()]
    if isinstance(value, types.CodeType):
        return "code", code_print(value)
    if isinstance(value, types.FunctionType):
        inside = (value.__defaults__, value.__kwdefaults__)
        return "function", code_print(value.__code__), _value(inside, depth - 1)
    if isinstance(value, types.ModuleType):
        return "module", value.__name__
    if isinstance(value, type):
        # Without what Python itself puts there, when it is asked for something.
        own = [
            (name, _value(part, 1))
            for name, part in sorted(vars(value).items())
            if name not in CACHES and not (type(part) is dict and not part)
        ]
        return "class", value.__module__, value.__qualname__, own if depth > 1 else None
    if isinstance(value, Tensor):
        return "tensor", str(value.dtype), list(value.shape), value.requires_grad
    if isinstance(value, ad.dtype | ad.device):
        return kind.__name__, str(value)
    return "object", kind.__module__, kind.__qualname__


@functools.cache
def own_codes(module: str) -> dict[str, tuple[types.CodeType, dict[str, Any]]]:
    """The code of one of adjoint's modules, by fingerprint, with the globals that it runs in."""
    loaded = sys.modules.get(module) or _loaded(module)
    if loaded is None:
        return {}
    found = {}
    for code in _codes_in(vars(loaded), loaded.__file__ or "", 3):
        found[code_print(code)] = code, vars(loaded)
    return found


def _loaded(module: str) -> types.ModuleType | None:
    """A part of adjoint that is imported when it is first asked for, if it is one.

    Its name may come from a file: it is one of ours, or nothing is imported.
    """
    parts = module.split(".")
    good = parts[0] == "adjoint" and "__main__" not in parts and all(map(str.isidentifier, parts))
    if not good or not os.path.isfile(os.path.join(_HERE, *parts[1:]) + ".py"):
        return None
    return importlib.import_module(module)


def _codes_in(table: Any, file: str, depth: int) -> Iterator[types.CodeType]:
    for thing in list(table.values()):
        inner = getattr(thing, "__wrapped__", getattr(thing, "__func__", thing))
        inner = getattr(inner, "fget", inner)
        held = vars(thing).values() if isinstance(thing, types.FunctionType) else ()
        for one in (thing, inner, *held):
            code = getattr(one, "__code__", None)
            if isinstance(code, types.CodeType) and code.co_filename in (file, GENERATED):
                yield from _nested(code)
        if isinstance(thing, type) and depth and _is_from(thing, table.get("__name__")):
            yield from _codes_in(vars(thing), file, depth - 1)


def _is_from(cls: type, module: str | None) -> bool:
    """Whether a class is one of a module, which may say that it is its package's."""
    return module is None or cls.__module__ in (module, module.partition(".")[0])


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _nested(one)
