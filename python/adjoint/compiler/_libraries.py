"""Which code is watched, and which modules are taken not to change.

The standard library, NumPy and the like are neither watched nor guarded: what they read is
theirs, and what they do is judged by name where user code calls them (`_effects`). Of adjoint
itself the layers and optimisers are watched, since what they read (`self.p`, `group["lr"]`) is the
user's to change. Read next: `_watch`.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from types import CodeType, ModuleType

from adjoint.nn.modules.module import Module

__all__ = ["is_import", "is_library", "is_library_class", "is_own", "is_watched", "module_call"]

_LIBRARIES = sys.stdlib_module_names | {"adjoint", "numpy", "scipy", "optree", "torch"}
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_WATCHED_PARTS = (
    os.path.join(_PACKAGE, "nn", "modules") + os.sep,
    os.path.join(_PACKAGE, "optim") + os.sep,
)
_STANDARD = tuple({sysconfig.get_path("stdlib") + os.sep, os.path.dirname(os.__file__) + os.sep})
_INSTALLED = re.compile(r".*[/\\](?:site|dist)-packages[/\\](\w+)")

# Attribute access and calls of modules are looked up by the watch itself, without a frame.
module_call: CodeType = Module.__call__.__code__
_PLUMBING = frozenset(
    (
        module_call,
        Module.__getattr__.__code__,
        Module.__setattr__.__code__,
        Module.__delattr__.__code__,
        Module._forget.__code__,
    )
)
_watched: dict[str, bool] = {}  # by file
_users: dict[str, bool] = {}


def is_watched(code: CodeType) -> bool:
    """Whether a frame of this code is followed instruction by instruction."""
    name = code.co_filename
    watched = _watched.get(name)
    if watched is None:
        watched = _watched[name] = _is_users(name) or name.startswith(_WATCHED_PARTS)
    if name == "<string>" and code.co_names == ("_tuple_new",):
        return False  # how `collections.namedtuple` makes its objects
    return watched and not (name.startswith(_PACKAGE) and code in _PLUMBING)


def is_own(code: CodeType) -> bool:
    """Whether this is code of adjoint, whose globals stay what they are."""
    return code.co_filename.startswith(_PACKAGE)


def is_import(code: CodeType) -> bool:
    """Whether this is the function through which Python imports modules."""
    return code.co_filename.startswith("<frozen importlib")


def _is_users(name: str) -> bool:
    known = _users.get(name)
    if known is None:
        known = _users[name] = _decide(name)
    return known


def _decide(name: str) -> bool:
    if name.startswith("<"):
        return not name.startswith(("<frozen", "<__array_function__"))
    name = os.path.abspath(name)
    if name.startswith(_PACKAGE):
        return False
    installed = _INSTALLED.match(name)
    if installed:
        return installed[1] not in _LIBRARIES
    return not name.startswith(_STANDARD)


def is_library(module: ModuleType) -> bool:
    """Whether the names in a module are taken to stay what they are."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        return not _is_users(file)
    return module.__name__.partition(".")[0] in _LIBRARIES


def is_library_class(cls: type) -> bool:
    """Whether a class is of such a module."""
    module = sys.modules.get(cls.__module__)
    return isinstance(module, ModuleType) and is_library(module)
