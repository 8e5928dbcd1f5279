"""Where code and classes come from, and whether the state of an object can be seen.

The names in the standard library, NumPy, SciPy and adjoint are taken to stay what they are. Read
next: `_walk`.
"""

from __future__ import annotations

import dis
import functools
import os
import re
import sys
import sysconfig
import types
from types import CodeType, MemberDescriptorType
from typing import Any

from adjoint import _core
from adjoint._homes import home

from ._pure import PYTHON, TYPES, WHOLE, is_known, methods_of

__all__ = [
    "FOLLOWED",
    "GENERATED",
    "IN_PYTHON",
    "OWN",
    "OWNED",
    "READS_ALL",
    "TRUSTED",
    "assigned",
    "class_is_library",
    "is_adjoints",
    "is_foreign",
    "is_library",
    "is_library_table",
    "is_logger",
    "is_own",
    "may_be_called",
    "module_is_library",
    "reads_stepper",
    "slots",
    "solid_base",
    "steps_by_itself",
    "trust",
]

# How code is treated: adjoint's own; known; known, but it reads everything; the rest.
OWN, TRUSTED, READS_ALL, FOLLOWED = "own", "trusted", "reads all", "followed"
GENERATED = "<string>"  # where methods of a dataclass say that they come from
OWNED = ("adjoint", "optree")  # whose code is treated as adjoint's

_LIBRARIES = sys.stdlib_module_names | frozenset(
    ("adjoint", "numpy", "scipy", "optree", "torch", "typing_extensions")
)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_STANDARD = tuple({sysconfig.get_path("stdlib") + os.sep, os.path.dirname(os.__file__) + os.sep})
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\](\w+)")
IN_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_STORE = dis.opmap["STORE_GLOBAL"]


@functools.cache
def is_library(filename: str) -> bool:
    """Whether a file belongs to a library whose names are taken to stay what they are."""
    if filename.startswith("<"):
        return filename.startswith(("<frozen", "<__array_function__"))
    filename = os.path.abspath(filename)
    if filename.startswith(_PACKAGE):
        return True
    installed = _INSTALLED.match(filename)
    if installed:
        return installed[1] in _LIBRARIES
    return filename.startswith(_STANDARD)


@functools.cache
def is_own(filename: str) -> bool:
    """Whether a file is one of adjoint's."""
    return os.path.abspath(filename).startswith(_PACKAGE)


def trust(code: CodeType, module: object) -> str:
    """How code of a module is treated."""
    filename = code.co_filename
    if is_own(filename) or (filename == GENERATED and _is_owned(module)):
        return OWN
    if isinstance(module, str) and is_library(filename):
        if module.partition(".")[0] in OWNED:
            return OWN
        name = module.replace("numpy.core.", "numpy._core.").removesuffix("_impl")
        if is_known(PYTHON.get(name, ()), code.co_qualname):
            return TRUSTED
        if name in WHOLE:
            return READS_ALL
    return FOLLOWED


def _is_owned(module: object) -> bool:
    return isinstance(module, str) and module.partition(".")[0] in OWNED


def module_is_library(module: Any) -> bool:
    """Whether the names in a module are taken to stay what they are."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return is_library(file)
    return module.__name__.partition(".")[0] in _LIBRARIES


@functools.lru_cache(maxsize=1024)
def class_is_library(cls: Any) -> bool:
    """Whether a class can be found in such a module; one that is made at run time cannot."""
    if not cls.__flags__ & IN_PYTHON:
        return True
    module = sys.modules.get(home(cls))
    if not isinstance(module, types.ModuleType) or not module_is_library(module):
        return False
    found: Any = module
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls


@functools.lru_cache(maxsize=1024)
def solid_base(cls: Any) -> type | None:
    """The first class in C that objects of a class are built on; None if only `object` is."""
    one: type
    for one in cls.__mro__:
        if one is object:
            return None
        if one is _core._CompiledCall:
            continue  # it has nothing that its subclass does not have in Python
        if one in TYPES or not one.__flags__ & IN_PYTHON or _has_fields(one):
            return one
    return None


def _has_fields(cls: type) -> bool:
    """Whether objects have more in them than ``__dict__`` and ``__slots__``.

    The size of a class written in Python is that of its base, and a pointer for each slot.
    """
    base = cls.__base__
    own = sum(isinstance(value, MemberDescriptorType) for value in vars(cls).values())
    own += ("__weakref__" in vars(cls)) + ("__dict__" in vars(cls))
    return base is not None and cls.__basicsize__ - base.__basicsize__ > 8 * own


@functools.lru_cache(maxsize=1024)
def slots(cls: Any) -> tuple[tuple[str, MemberDescriptorType], ...]:
    """The ``__slots__`` of a class and of those it inherits from."""
    return tuple(
        (name, member)
        for one in cls.__mro__
        if one.__flags__ & IN_PYTHON
        for name, member in vars(one).items()
        if type(member) is MemberDescriptorType
    )


def may_be_called(cls: type) -> bool:
    """Whether calling a class of a library does nothing that cannot be seen."""
    base = solid_base(cls)
    return base is None or methods_of(base) is not None


# -- what is treated in a way of its own -----------------------------------------------------------


def is_adjoints(cls: Any) -> bool:
    """Whether a class is one of adjoint's, or made from one."""
    return any(home(one).partition(".")[0] == "adjoint" for one in cls.__mro__)


def is_foreign(cls: type) -> bool:
    """Whether objects of a class of adjoint are called again in each replay, or are the core's."""
    if home(cls).partition(".")[0] != "adjoint":
        return False
    return home(cls).startswith("adjoint.external") or not cls.__flags__ & IN_PYTHON


def steps_by_itself(thing: Any) -> bool:
    """Whether this is an optimiser or a scheduler: what it does a replay repeats."""
    optim = sys.modules.get("adjoint.optim")
    if optim is None or not is_adjoints(type(thing)):
        return False
    return isinstance(thing, optim.Optimizer | optim.lr_scheduler.LRScheduler)


def reads_stepper(table: dict[str, Any], asked: frozenset[str]) -> bool:
    """Whether code of an optimiser runs now, rather than in each replay."""
    module = table.get("__name__", "")
    return module.startswith("adjoint.optim.") and "_is_recording" not in asked


@functools.cache
def assigned(module: str) -> frozenset[str]:
    """Globals of a module that its functions assign to: settings of the process."""
    found: set[str] = set()
    # Asking a part that loads late for its attributes may load it, and add to the module.
    for function in tuple(vars(sys.modules[module]).values()) if module in sys.modules else ():
        code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
        if isinstance(code, CodeType) and _STORE in code.co_code[::2]:
            found.update(op.argval for op in dis.get_instructions(code) if op.opcode == _STORE)
    return frozenset(found)


def is_logger(thing: Any) -> bool:
    """Whether this is a logger, which keeps a cache of the levels that are on."""
    logging = sys.modules.get("logging")
    return logging is not None and isinstance(thing, logging.Logger)


def is_library_table(table: dict[str, Any]) -> bool:
    """Whether a dict is that of the globals of a library."""
    module = sys.modules.get(table.get("__name__", ""))
    return module is not None and vars(module) is table and module_is_library(module)
