"""`Steps`: what the watch does at each kind of instruction that reads or stores something.

A step gets the frame that is about to run the instruction, with its operands still on the stack,
and notes in `Findings` what is read or changed. Calls are in `_calls`; `_instructions` says which
step belongs to which instruction. Read next: `_lookups`, how attributes are found.
"""

from __future__ import annotations

import functools
import gc
import os
from types import FrameType, FunctionType, ModuleType
from typing import Any

from adjoint import Tensor, _tree
from adjoint.compiler._findings import REPEAT, Findings
from adjoint.compiler._guards import Where
from adjoint.compiler._libraries import is_library_class, is_own
from adjoint.compiler._lookups import (
    Place,
    cell_place,
    find,
    item_place,
    own_dict,
    own_place,
    raw_attribute,
    super_place,
)
from adjoint.compiler._operands import function_of, is_made, operand, variable
from adjoint.compiler._snapshots import is_array, is_changeable, same
from adjoint.nn.modules.module import Module

__all__ = ["PLAIN", "Steps", "owner_of_memory", "where"]

PLAIN = frozenset(
    (list, dict, set, tuple, str, int, float, bool, type(None), complex, bytes, range, slice)
)
_HOOK_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
_TENSOR_TABLES = ("_parameters", "_buffers")
_Environment = type(os.environ)
_ENVIRONMENT = "`os.environ` is no part of the program"
# Classes of the standard library that keep in attributes what their users put into them.
_HOLDERS = frozenset(("collections", "weakref", "configparser", "queue"))


def where(frame: FrameType) -> Where:
    """The instruction a frame is about to run."""
    return Where(frame.f_code, frame.f_lasti)


def owner_of_memory(thing: Any) -> Any:
    """The array that owns the memory of an array; other things as they are."""
    while is_array(thing) and is_array(thing.base):
        thing = thing.base
    return thing


def _is_computed_once(thing: Any, name: str) -> bool:
    """Whether reading an attribute computes it, and stores it in the object."""
    found = raw_attribute(type(thing), name)
    if found is None or not isinstance(found[1], functools.cached_property):
        return False
    return name not in (own_dict(thing) or ())


class Steps:
    """The steps of one watch.

    Parameters
    ----------
    findings : Findings
        Where they note what they see.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._given: dict[int, tuple[Any, frozenset[Any]]] = {}  # structures among the arguments

    def take_arguments(self, arguments: Any, but: tuple[Any, ...] = ()) -> None:
        """Structures among the arguments are compared with them: not guarded, but not changed.

        Sets and arrays are taken for the same argument if they are the same object: they are
        guarded.
        """
        stack = [*arguments]
        while stack:
            thing = stack.pop()
            if any(thing is one for one in but) or id(thing) in self._given:
                continue
            if not isinstance(thing, Tensor) and _tree.is_structure(thing):
                parts, entries = _tree.children(thing)
                self._given[id(thing)] = (thing, frozenset(entries))
                self.findings.was_there(thing)
                self.findings.cover(thing)
                stack.extend(parts)
            elif is_changeable(thing):
                self.findings.was_there(thing)
                self.findings.whole(thing, thing, None)
            elif isinstance(thing, Tensor):
                self._given[id(thing)] = (thing, frozenset())

    def is_argument(self, thing: Any) -> bool:
        """Whether something is a structure among the arguments."""
        return id(thing) in self._given

    # -- frames ----------------------------------------------------------------------------------

    def function_entered(self, frame: FrameType) -> None:
        """A function of the user's is called: it is its code and its defaults."""
        function = function_of(frame)
        if type(function) is not FunctionType or self.findings.has("attr", function, "__code__"):
            return
        if is_own(function.__code__):
            return
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value is not None:
                self.findings.read(Place("attr", function, name, value, function), None)

    def module_called(self, frame: FrameType) -> None:
        """A layer is called: `Module.__call__` reads its hooks and its forward."""
        module = variable(frame, 0)
        if not isinstance(module, Module):
            return
        own = module.__dict__
        for table in _HOOK_TABLES:
            if table in own:
                self.findings.read(Place("item", own, table, own[table], module), None)
        forward = find(module, "forward")
        if forward is not None:
            self.findings.read(forward, None)

    # -- reads -----------------------------------------------------------------------------------

    def global_read(self, frame: FrameType, name: str) -> None:
        """A global, or a built-in name that could become one."""
        space = frame.f_globals
        if self.findings.has("item", space, name) or self.findings.has("free", space, name):
            return
        if not gc.is_tracked(space):
            self.findings.was_there(space)
        self._read(item_place(space, name, space) or Place("free", space, name, None, space), frame)

    def name_read(self, frame: FrameType, name: str) -> None:
        """A name in the body of a class, or in code that is executed from a string."""
        if frame.f_locals is frame.f_globals or name not in frame.f_locals:
            self.global_read(frame, name)

    def cell_read(self, frame: FrameType, index: int) -> None:
        """A variable of an enclosing function."""
        cell = variable(frame, index)
        if not self.findings.has("cell", cell, None):
            self._read(cell_place(cell), frame)

    def attribute_read(self, frame: FrameType, name: str) -> None:
        """An attribute or a method."""
        self.attribute_of(operand(frame, 0), name, frame)

    def attribute_of(self, thing: Any, name: str, frame: FrameType) -> None:
        """An attribute of something."""
        cls = type(thing)
        if cls in PLAIN or is_made(thing) or self.findings.has("attr", thing, name):
            return
        given = self._given.get(id(thing))
        if given is not None:
            self._attribute_of_argument(thing, given[1], name, frame)
            return
        if name == "__dict__" and not isinstance(thing, type | ModuleType):
            own = own_dict(thing)
            if own is not None:
                self.findings.whole(own, thing, where(frame))
            return
        if _is_computed_once(thing, name):
            self.findings.change(thing, "{} is computed and kept, " + REPEAT, where(frame))
        if name in _TENSOR_TABLES and isinstance(thing, Module):
            self._table_read(thing, name, frame)
            return
        if cls is super:
            self._read(super_place(thing.__thisclass__, thing.__self_class__, name), frame)
        else:
            self._read(find(thing, name), frame)

    def super_read(self, frame: FrameType, name: str) -> None:
        """``super().name`` where that is one instruction."""
        thing, cls, function = operand(frame, 0), operand(frame, 1), operand(frame, 2)
        if function is super:
            below = thing if isinstance(thing, type) and issubclass(thing, cls) else type(thing)
            self._read(super_place(cls, below, name), frame)

    def _table_read(self, module: Module, name: str, frame: FrameType) -> None:
        """The parameters of a layer: each for itself, for `functional_call` exchanges some."""
        table = module.__dict__[name]
        self.findings.cover(table)
        self.findings.read(Place("keys", table, None, tuple(table), module), where(frame))
        for key, value in table.items():
            self.findings.read(Place("item", table, key, value, module), where(frame))

    def _attribute_of_argument(
        self, thing: Any, fields: frozenset[Any], name: str, frame: FrameType
    ) -> None:
        """A part of an argument is compared with the argument; its class is guarded like others."""
        own = own_dict(thing)
        if name in fields:
            return
        new = isinstance(thing, Tensor) and raw_attribute(type(thing), name) is None
        if new or (own is not None and name in own):
            reason = "{} is read of an argument of which it is no field: the next may have another"
            self.findings.refuse(reason, where(frame))
            return
        found = raw_attribute(type(thing), name)
        if found is not None and not is_library_class(found[0]):
            self.findings.read(own_place(found, name), where(frame))

    def item_read(self, frame: FrameType, _: Any) -> None:
        """``container[key]``: most containers are guarded as a whole where they are reached."""
        container, key = operand(frame, 1), operand(frame, 0)
        cls = type(container)
        if cls is _Environment:
            self.findings.refuse(_ENVIRONMENT, where(frame))
        if cls not in (dict, list) or self.findings.covers(container):
            return
        if cls is list and (type(key) is not int or not -len(container) <= key < len(container)):
            self.findings.whole(container, container, where(frame))
            return
        if cls is dict:
            self._read(item_place(container, key, container), frame)
        else:
            self._read(Place("item", container, key, container[key], container), frame)

    def slice_read(self, frame: FrameType, _: Any) -> None:
        """``container[start:stop]``."""
        container = operand(frame, 2)
        if type(container) is list and not self.findings.covers(container):
            self.findings.whole(container, container, where(frame))

    def resulted(self, frame: FrameType, _: Any) -> None:
        """A call has returned a container that others hold as well, perhaps from before."""
        result = operand(frame, 0)
        if not is_changeable(result):
            return
        if self.findings.covers(result):
            return
        if isinstance(result, dict) and "__builtins__" in result:
            return  # globals(), of which items are read
        self.findings.whole(result, result, where(frame))

    def _read(self, place: Place | None, frame: FrameType) -> None:
        if place is None:
            return
        self.findings.read(place, where(frame))
        # The methods of the standard library are not watched: what such an object holds counts.
        cls = type(place.value)
        if cls not in PLAIN and cls.__module__.partition(".")[0] in _HOLDERS:
            own = None if is_changeable(place.value) else own_dict(place.value)
            if own:
                self.findings.whole(own, place.owner, where(frame))

    def class_matched(self, frame: FrameType, count: int) -> None:
        """``case Class(a, b=...)``: the attributes are read without an instruction for each."""
        thing, cls, names = operand(frame, 2), operand(frame, 1), operand(frame, 0)
        first = getattr(cls, "__match_args__", ())[:count]
        for name in (*first, *names):
            self.attribute_of(thing, name, frame)

    def iterated(self, frame: FrameType, _: Any) -> None:
        """A loop starts, or something else that asks for all values."""
        thing = operand(frame, 0)
        if type(thing) is _Environment:
            self.findings.refuse(_ENVIRONMENT, where(frame))
        self.advanced(thing, frame)

    def advanced(self, thing: Any, frame: FrameType) -> None:
        """Something may take the next values of an iterator."""
        cls = type(thing)
        if cls in PLAIN or not hasattr(cls, "__next__"):
            return
        if not isinstance(getattr(cls, "__next__", None), FunctionType):  # whose frame is watched
            reason = f"an iterator that was there before is used up, {REPEAT}"
            self.findings.change(thing, reason, where(frame))

    # -- stores ----------------------------------------------------------------------------------

    def global_stored(self, frame: FrameType, name: str) -> None:
        """A global is assigned or deleted."""
        self.findings.change(
            frame.f_globals, f"the global `{name}` is assigned, {REPEAT}", where(frame)
        )

    def name_stored(self, frame: FrameType, name: str) -> None:
        """A name is assigned in the body of a class, which is new, or in executed code."""
        if frame.f_locals is frame.f_globals:
            self.global_stored(frame, name)

    def cell_stored(self, frame: FrameType, index: int) -> None:
        """A variable of an enclosing function is assigned or deleted."""
        reason = "{} of an enclosing function is assigned, " + REPEAT
        self.findings.change(variable(frame, index), reason, where(frame))

    def attribute_stored(self, frame: FrameType, name: str) -> None:
        """An attribute is assigned."""
        self.attribute_set(operand(frame, 0), name, operand(frame, 1), frame)

    def attribute_set(self, thing: Any, name: str, value: Any, frame: FrameType) -> None:
        """An attribute of something is assigned."""
        if is_made(thing):
            return
        found = raw_attribute(type(thing), name)
        if isinstance(thing, Tensor) and found is not None:
            return
        if found is not None and isinstance(found[1], property) and not is_library_class(found[0]):
            self.findings.read(own_place(found, name), where(frame))
            return  # the frame of its setter is watched
        place = None if id(thing) in self._given else find(thing, name)
        if place is not None and place.kind in ("attr", "item") and same(place.value, value):
            self.findings.read(place, where(frame))
            return  # a replay need not do what changes nothing
        self.findings.change(thing, "{} is assigned, " + REPEAT, where(frame))

    def attribute_deleted(self, frame: FrameType, name: str) -> None:
        """An attribute is deleted."""
        self.findings.change(operand(frame, 0), "{} is deleted, " + REPEAT, where(frame))

    def item_stored(self, frame: FrameType, _: Any) -> None:
        """An item is assigned or deleted."""
        thing = operand(frame, 1)
        if not isinstance(thing, Tensor):
            self.changed(thing, "{} is assigned, " + REPEAT, frame)

    def slice_stored(self, frame: FrameType, _: Any) -> None:
        """``container[start:stop] = value``."""
        thing = operand(frame, 2)
        if not isinstance(thing, Tensor):
            self.changed(thing, "{} is assigned, " + REPEAT, frame)

    def changed_in_place(self, frame: FrameType, _: Any) -> None:
        """``thing += other``."""
        thing = operand(frame, 1)
        if is_changeable(thing):
            self.changed(thing, "{} changes an object, " + REPEAT, frame)

    def changed(self, thing: Any, reason: str, frame: FrameType) -> None:
        """Something is changed, or the memory that it is a view of."""
        self.findings.change(owner_of_memory(thing), reason, where(frame))
