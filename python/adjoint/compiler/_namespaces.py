"""`Namespaces`: which names matter, and what they stand for in objects, classes and modules.

Read next: `_visits`, which says what else an object leads to.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from adjoint import Tensor, _core

from ._guards import ABSENT, Guards, Kind, is_value
from ._names import COMPUTED, words
from ._namespace_snapshot import Space, is_special
from ._notes import Notes
from ._pure import HARMLESS, TYPES, is_vouched
from ._refusals import Unguardable
from ._tensor_class import table_of_tensor
from ._visible import (
    IN_PYTHON,
    class_is_library,
    is_adjoints,
    is_logger,
    may_be_called,
    module_is_library,
    steps_by_itself,
)

__all__ = ["FIELDS", "Namespaces"]

# Methods that tell which object a tensor is.
_TELLING = frozenset(("__hash__", "__repr__"))
# What functions and classes have besides attributes in a dict.
FIELDS = words(
    "__name__ __qualname__ __doc__ __module__ __annotations__ __defaults__ __kwdefaults__ __code__ "
    "__type_params__ __closure__ __globals__"
)
# What a logger's cache is made of: whether a level is on.
_OF_LEVELS = words("level parent disabled manager _disable")
MOST_OBJECTS = 20_000


class Namespaces(Notes):
    """Follow names from what is reached already."""

    def __init__(self) -> None:
        super().__init__()
        self._reached: dict[int, Any] = {}  # by address; kept alive
        self._todo: list[tuple[Any, str]] = []
        self._modules: list[tuple[Any, str]] = []
        self._fielded: list[tuple[Any, str]] = []  # functions and classes, which have fields
        self._stepping: list[tuple[Any, str]] = []  # what optimisers change in each replay

    def _reach(self, value: Any, path: str) -> None:
        if id(value) not in self._reached and not is_value(type(value)):
            self._todo.append((value, path))

    def _go_on(self) -> None:
        while self._todo:
            value, path = self._todo.pop()
            if id(value) not in self._reached:
                self._reached[id(value)] = value
                if len(self._reached) > MOST_OBJECTS:
                    raise Unguardable(f"it reaches more than {MOST_OBJECTS} objects", path)
                self._visit(value, path)

    def _visit(self, value: Any, path: str) -> None:
        raise NotImplementedError

    # -- names -------------------------------------------------------------------------------------

    def _add_names(self, names: frozenset[str], adjoints: bool) -> None:
        """Names matter from now on."""
        new = names - self._all_names
        others = frozenset() if adjoints else names - self._names
        self._all_names |= new
        self._names |= others
        if not _TELLING.isdisjoint(others):
            self._pin()
        if not COMPUTED.isdisjoint(others):
            self._read_all()
        fields = others & FIELDS
        for one, path in self._fielded if fields else ():
            self._reach_fields(one, path, fields)
        if not self._whole and (new or others):
            for space in self._spaces:
                self._watch(space, (new if space.adjoints else others) & space.before.keys())
        for module, path in self._modules:
            # What adjoint asks of its own modules is not the function's business.
            asked = others if module.__name__.partition(".")[0] == "adjoint" else new
            if asked:
                self._reach_names(module, path, asked)

    def _reach_fields(self, thing: Any, path: str, fields: Iterable[str]) -> None:
        """What is asked of a function or a class that stands in no dict."""
        for name in _in_order(fields):
            if name == "__globals__" and hasattr(thing, name):
                raise Unguardable(f"`{path}.__globals__`, of a module, is looked into", name)
            if hasattr(thing, name):
                self._ask(functools.partial(getattr, thing, name), f"`{path}.{name}`")
                self._reach(getattr(thing, name), f"{path}.{name}")

    def _read_all(self, modules: bool = True) -> None:
        """Attributes are asked for by computed names: from now on all of them matter."""
        if self._whole:
            return
        self._whole = True
        for space in self._spaces:
            self._watch(space, space.before)
        for module, path in self._modules if modules else ():
            self._reach_names(module, path, self._all_names)

    def _pin(self) -> None:
        """The recording is for these very tensors."""
        self._pinned |= not _core._is_recording()
        self.asks_for_addresses = True
        for tensor in self._argument_tensors:
            _core._ask_address(tensor)

    def _watch(self, space: Space, names: Iterable[str]) -> None:
        """Names matter from now on that did not before."""
        if space.kind in ("globals", "argument"):
            return  # chains say which; who compares arguments knows
        if space.kind == "library":
            self._reach_state(space, names)
            return
        for name in _in_order(names):
            if name not in space.watched and name not in space.innocent:
                space.watched[name] = value = space.before[name]
                if name == "state" and steps_by_itself(space.holder):
                    self._stepping.append((value, f"{space.path}.{name}"))
                elif name == "_cache" and is_logger(space.holder):
                    self._add_names(_OF_LEVELS, False)
                else:
                    self._reach(value, f"{space.path}.{name}")

    def _reach_state(self, space: Space, names: Iterable[str]) -> None:
        """Reach objects in a class of a library, whose code and numbers are taken to stay."""
        for name in _in_order(names):
            value = space.before[name]
            if not hasattr(type(value), "__get__") and not isinstance(value, type):
                self._reach(value, f"{space.path}.{name}")

    # -- objects and classes -----------------------------------------------------------------------

    def _instance_dict(self, value: Any, path: str) -> None:
        table = _core._dict_of(value)
        if table is None or id(table) in self._of_dict:
            return
        # adjoint asks its own objects for attributes, not the user's; and what an optimiser reads
        # is read again in each replay.
        adjoints = is_adjoints(type(value)) and not steps_by_itself(value)
        space = Space(table, path, "instance", value, adjoints)
        self._of_dict[id(table)] = space
        self._spaces.append(space)
        names = self._all_names if adjoints else self._names
        whole = self._whole or space.whole
        self._watch(space, space.before if whole else names & space.before.keys())

    def _attributes(self, value: Any, path: str) -> None:
        if type(value) not in TYPES:
            self._class(type(value), path)
        self._instance_dict(value, path)

    def _slot(self, value: Any, name: str, member: Any, path: str) -> None:
        try:
            held = member.__get__(value)
        except AttributeError:
            held = ABSENT
        self._note(Kind.PLACE, value, held, member, f"`{path}.{name}`")
        self._reach(held, f"{path}.{name}")

    def _class(self, cls: type, path: str) -> None:
        self._reached[id(cls)] = cls
        if cls in TYPES or is_vouched(cls) or cls in self._classes:
            return
        if class_is_library(cls):
            if not may_be_called(cls):
                raise Unguardable(
                    f"`{path}` is the type {cls.__name__}, which is not known to be free of state "
                    "and effects; fix: vouch for it (adjoint.compiler.pure)",
                    path,
                )
            self._library_class(cls)
            return
        self._note_class(cls)
        self._fielded.append((cls, path))
        self._reach_fields(cls, path, FIELDS & self._names)
        if type(cls) is not type:
            self._class(type(cls), path)
        for one in cls.__mro__:
            if not class_is_library(one):
                self._class_dict(one)
            elif one is not object:
                self._class(one, path)

    def _library_class(self, cls: type) -> None:
        """What a class of a library has in it is known, but may be replaced."""
        if cls.__flags__ & IN_PYTHON:
            self._note_class(cls)
            for one in cls.__mro__:
                if id(one) not in self._of_dict:
                    space = Space(vars(one), one.__name__, "library", one)
                    self._of_dict[id(one)] = space
                    self._spaces.append(space)
                    self._watch(space, self._names & space.before.keys())

    def _class_dict(self, cls: type) -> None:
        if id(cls) in self._of_dict:
            return
        space = self._of_dict[id(cls)] = Space(vars(cls), cls.__name__, "class", cls)
        self._spaces.append(space)
        names = space.before.keys() & self._all_names
        special = {n for n, value in space.before.items() if n[:2] == "__" and is_special(value)}
        self._watch(space, space.before if self._whole else names | special)
        self._class(cls, cls.__name__)

    def _tensor_class(self) -> None:
        """Programs add methods to `Tensor`, and replace those it has."""
        found = table_of_tensor()
        space = Space(vars(Tensor), "Tensor", "class", Tensor, False, found.table, found.innocent)
        self._of_dict[id(Tensor)] = space
        self._spaces.append(space)
        self._note_class(Tensor)
        if len(found.innocent) < len(found.table):
            self._watch(space, found.table)

    # -- modules -----------------------------------------------------------------------------------

    def _module(self, module: Any, path: str) -> None:
        """A module that is more than the start of a dotted name: any name may be asked of it."""
        self._reached[id(module)] = module
        self._modules.append((module, path))
        self._reach_names(module, path, self._all_names if self._whole else self._names)

    def _reach_names(self, module: Any, path: str, names: Iterable[str]) -> None:
        library = module_is_library(module)
        if self._whole and library and module.__name__.partition(".")[0] not in HARMLESS:
            if module.__name__.partition(".")[0] != "adjoint":
                reason = f"attributes are asked for by computed names, and `{path}` is a module"
                raise Unguardable(reason, path)
        elif self._whole and not library:
            names = [name for name in vars(module) if name[:2] != "__"]
        if "__dict__" in self._names and not library:
            raise Unguardable(f"`{path}.__dict__`, of a module, is looked into", "__dict__")
        for name in (*_in_order(names), "__getattr__"):
            held = vars(module).get(name, ABSENT)
            if not library or name in self._names:
                self._watch_module(module, name, path)
            if held is not ABSENT:
                self._reach(held, f"{path}.{name}")

    def _watch_module(self, module: Any, name: str, path: str) -> None:
        space = self._space_of(vars(module), path)
        space.watched.setdefault(name, space.before.get(name, ABSENT))

    def guards(self) -> Guards:
        """The same, with what optimisers have changed, as it is now: a replay repeats it."""
        for state, path in self._stepping:
            self._reach(state, path)
        self._go_on()
        return super().guards()


def _in_order(names: Iterable[str]) -> Iterable[str]:
    """Names of a set in an order that is the same in each process: see `_loaded`."""
    return sorted(names) if isinstance(names, set | frozenset) else names
