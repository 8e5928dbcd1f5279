"""Calls that a replay would not repeat, or whose result is another one at each call.

The names themselves are in `_effect_names`; here is how a callee is found among them. Read next:
`_watch`, which asks for every call that user code makes.
"""

from __future__ import annotations

import io
import logging
import os
import pathlib
import random
import sys
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import Any

import adjoint as ad
from adjoint.compiler._effect_names import (
    ARRAY_MUTATORS,
    BY_MODULE,
    CLOCK_METHODS,
    FILE_METHODS,
    FIRST_CHANGED,
    MUTATORS,
    ONCE,
    OTHER,
    OWN_STATE,
    PATH_METHODS,
)

__all__ = ["changed_by", "refused", "state_of"]

# What has a name and a module to be judged by; other callables are judged by what they call.
_NAMED = (BuiltinFunctionType, FunctionType, MethodType, type)
_DESCRIPTORS = (MethodDescriptorType, WrapperDescriptorType)
_own_state: dict[int, str] = {}  # by the address of a function of adjoint


def _has_name(callee: Any) -> bool:
    if isinstance(callee, (*_NAMED, *_DESCRIPTORS)):
        return True
    return type(callee).__name__ == "cython_function_or_method"  # NumPy's


def refused(callee: Any, target: Any, count: int) -> str | None:
    """Why a call cannot be part of a recording, or None.

    Parameters
    ----------
    callee : object
        What is called.
    target : object
        The object whose method it is; None if it is a function.
    count : int
        How many arguments are given.
    """
    if not _has_name(callee):
        return None
    if not _own_state:
        own = {name: getattr(ad, name, None) for name in OWN_STATE}
        _own_state.update({id(one): name for name, one in own.items() if one is not None})
    if id(callee) in _own_state:
        return f"`adjoint.{_own_state[id(callee)]}()` {ONCE}"
    name = callee.__name__
    if target is None and isinstance(callee, BuiltinFunctionType | MethodType):
        target = callee.__self__
    return _by_target(target, name) or _by_class(callee, count) or _by_name(callee, name)


def _by_target(target: Any, name: str) -> str | None:
    if target is None or type(target) is dict:
        return None
    if target is os.environ or target is getattr(os, "environb", None):
        return f"`os.environ.{name}()` reads or changes the environment"
    if isinstance(target, type):
        if name in CLOCK_METHODS and target.__module__ == "datetime":
            return f"`{target.__name__}.{name}()` {OTHER}"
        return None
    if isinstance(target, io.IOBase | io.TextIOBase):
        memory = isinstance(target, io.StringIO | io.BytesIO)
        return None if memory or name not in FILE_METHODS else f"`{name}()` of a file {ONCE}"
    if any(target is one for one in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)):
        return f"`{name}()` of a file {ONCE}"
    if isinstance(target, pathlib.Path):
        return f"`{name}()` of a path {ONCE}" if name in PATH_METHODS else None
    if isinstance(target, logging.Logger | logging.Handler):
        return (
            None
            if name in ("isEnabledFor", "getEffectiveLevel")
            else f"`{name}()` of a logger {ONCE}"
        )
    return None


def _by_class(callee: Any, count: int) -> str | None:
    """Generators that are made without a seed."""
    if count or isinstance(callee, FunctionType | MethodType):
        return None
    numpy_random = sys.modules.get("numpy.random")
    unseeded = [random.Random, random.SystemRandom]
    if numpy_random is not None:
        names = (
            "default_rng",
            "RandomState",
            "SeedSequence",
            "PCG64",
            "MT19937",
            "Philox",
            "SFC64",
        )
        unseeded += [getattr(numpy_random, name) for name in names]
    if any(callee is one for one in unseeded):
        return f"`{callee.__name__}()` without a seed {OTHER}"
    return None


def _by_name(callee: Any, name: str) -> str | None:
    module = getattr(callee, "__module__", None)
    if isinstance(callee, _DESCRIPTORS) or not isinstance(module, str):
        return None
    table = BY_MODULE.get(module) or BY_MODULE.get(module.partition(".")[0] + ".*")
    if not table:
        return None
    if isinstance(callee, type) and (module == "builtins" or issubclass(callee, BaseException)):
        return None
    why = table.get(name, table.get("*", ""))
    if not why:
        return None
    shown = name if module in ("builtins", "io", "_io") else f"{module.lstrip('_')}.{name}"
    return f"`{shown}()` {why}"


def state_of(callee: Any, target: Any) -> Any:
    """The generator of random numbers that a call advances; None if it is no such call."""
    if target is None and isinstance(callee, BuiltinFunctionType | MethodType):
        target = callee.__self__
    if target is None or isinstance(target, type):
        return None
    if isinstance(target, random.Random):
        return target
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return None
    kinds = (numpy_random.Generator, numpy_random.RandomState, numpy_random.BitGenerator)
    return target if isinstance(target, kinds) else None


def changed_by(callee: Any, target: Any, first: Any) -> Any:
    """The object that a built-in method or function changes; None if it changes nothing.

    Parameters
    ----------
    callee : object
        What is called.
    target : object
        The object whose method it is; None if it is a function.
    first : object
        The first argument.
    """
    if not _has_name(callee):
        return None
    name = callee.__name__
    if isinstance(callee, BuiltinFunctionType):
        target = callee.__self__ if target is None else target
        module = callee.__module__
        if (module, name) in FIRST_CHANGED or (module, "*") in FIRST_CHANGED:
            return first
    elif isinstance(callee, FunctionType):
        return first if (callee.__module__, name) in FIRST_CHANGED else None
    elif not isinstance(callee, _DESCRIPTORS):
        return None
    if target is None:
        target = first
    for cls, names in MUTATORS.items():
        if isinstance(target, cls) and name in names:
            return target
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(target, numpy.ndarray) and name in ARRAY_MUTATORS:
        return target
    return None
