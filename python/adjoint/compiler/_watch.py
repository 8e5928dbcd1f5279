"""`Watch`: sees what one run of a function reads of the program around it, and what it changes.

While the watch is on, every instruction of the user's frames that reads or stores a global, a
closure cell, an attribute or an item, or that calls something, is looked at just before it runs,
with the very objects it is about to use (`_instructions` says which, `_operands` gets the objects).
Reads become guards; what a replay would not repeat becomes a refusal.

Note [Objects of the run]. What a run makes itself it may read and change as it likes: only what was
there before counts. Python's collector keeps new objects in a generation of their own, which
the watch empties when it starts and keeps from being emptied until it ends; an object is of the run
if it stands there. Whatever goes wrong with that (a program that calls the collector) errs to the
safe side. Dicts of plain values and arrays are not known to the collector: they are taken to be
of the run unless they were reached from something that was there before.

What is seen: user code, whatever calls it (layers, hooks, `map`, properties, generators,
decorators), and the layers and optimisers of adjoint. What is not: the inside of the standard
library, NumPy, SciPy and the rest of adjoint. Calls into those are judged by name (`_effects`); a
plain object that is handed to them is guarded as a whole; a built-in container is guarded as
a whole where it is first read. Not seen at all: what C code reads of objects that it gets inside of
others, special methods (`__add__`) that are exchanged in a class, and files and clocks that
libraries read without user code asking for it.

Stores into tensors are no business of the watch: the recording sees them. Read next: `_lookups`,
`_guards`.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    TracebackType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

from adjoint import Tensor, _core, _tree
from adjoint.compiler import _effects, _operands
from adjoint.compiler._guards import Guard, Guards
from adjoint.compiler._instructions import place_of, steps, text_of
from adjoint.compiler._libraries import (
    is_import,
    is_library_class,
    is_own,
    is_watched,
    module_call,
)
from adjoint.compiler._lookups import (
    Place,
    cell_place,
    find,
    item_place,
    own_dict,
    own_place,
    raw_attribute,
)
from adjoint.compiler._snapshots import (
    Snapshot,
    TooLarge,
    is_array,
    is_changeable,
    is_lasting,
    is_value,
    same,
)
from adjoint.nn.modules.module import Module

__all__ = ["Refusal", "Watch", "paused"]

_REPEAT = "which a replay would not repeat"
_PENDING = 20_000  # what is not yet known to be of the run is looked through when there is so much
_HOOK_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks")
_TENSOR_TABLES = ("_parameters", "_buffers")
_PLAIN = (list, dict, set, tuple, str, int, float, bool, type(None), complex, bytes, range, slice)


class Refusal(NamedTuple):
    """Why a run cannot be replayed, and the line that says so."""

    reason: str
    where: str


class _Read(NamedTuple):
    """A place that was read: guarded if its holder was there before."""

    owner: Any
    place: Place
    snapshot: Snapshot | None
    code: CodeType | None
    offset: int


class _Whole(NamedTuple):
    """A container that was reached through `owner`: guarded as a whole if that was there before."""

    owner: Any
    snapshot: Snapshot
    name: str
    where: str


class _Change(NamedTuple):
    """Something that changes `owner`, or cannot be compared: refused if that was there before."""

    owner: Any
    reason: Callable[[], str]
    code: CodeType
    offset: int


_NOBODY: Any = object()  # the owner of what is refused whoever was there before


@contextmanager
def paused() -> Iterator[None]:
    """Let what runs inside go unwatched: calls that a replay makes again."""
    outer = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(outer)


class Watch:
    """Watch one run of a function.

    Parameters
    ----------
    function : callable
        What is run.
    arguments : tuple of (args, kwargs), optional
        What it is run with. Lists, dicts, dataclasses, ... in it are known to whoever compares
        arguments: they are not guarded, but they must not be changed. Without it the variables of
        the first frame are taken.

    Examples
    --------
    >>> scale = 2.0
    >>> def f(x):
    ...     return scale * x
    >>> with Watch(f) as watch:
    ...     result = f(3.0)
    >>> watch.refusals
    []
    >>> guards = watch.guards()
    >>> guards.hold()
    True
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
    ) -> None:
        self.refusals: list[Refusal] = []
        self._function = function
        self._guards: list[Guard] = []
        self._tables: dict[int, tuple[CodeType, Callable[..., Any] | None]] = {}
        self._pending: list[_Read | _Whole | _Change] = []
        self._seen: set[tuple[Any, ...]] = set()
        self._covered: dict[int, Any] = {}  # containers that are part of a guard
        self._reached: dict[int, Any] = {}  # containers that were there before
        self._given: dict[int, tuple[Any, frozenset[Any]]] = {}  # structures among the arguments
        self._bound = _bound(function)
        self._importing: FrameType | None = None
        self._started = arguments is not None
        if arguments is not None:
            self._take_arguments(arguments)

    # -- on and off ------------------------------------------------------------------------------

    def __enter__(self) -> Watch:
        if not _operands.KNOWN:
            version = ".".join(map(str, sys.version_info[:2]))
            reason = f"what a function reads cannot be watched in Python {version}"
            self.refusals.append(Refusal(reason, ""))
            return self
        for partial in self._bound:
            if isinstance(partial, functools.partial):
                self._partial_called(partial)
        self._outer = sys.gettrace()
        self._collecting = gc.isenabled()
        gc.disable()
        gc.collect(0)
        sys.settrace(self._frame_entered)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not _operands.KNOWN:
            return
        sys.settrace(self._outer)
        self._settle()
        if self._collecting:
            gc.enable()
        self._drop_changed()
        self._seen.clear()
        self._covered.clear()
        self._reached.clear()
        self._given.clear()
        self._tables.clear()

    def guards(self) -> Guards:
        """Everything that was read and could be another time, ready to be compared."""
        return Guards(self._guards)

    # -- frames ----------------------------------------------------------------------------------

    def _frame_entered(self, frame: FrameType, event: str, arg: Any) -> Any:
        # What a host call runs (an external) is run again by a replay: none of our business.
        if self._importing is not None or _core._is_recording_suspended():
            return None
        code = frame.f_code
        known = self._tables.get(id(code))
        if known is None:
            known = self._tables[id(code)] = (code, self._follower(code))
        if not self._started:
            self._started = True
            self._take_arguments(_variables(frame), but=self._bound)
        follow = known[1]
        if follow is None:
            if code is module_call:
                self._guarded(self._module_called, frame, None)
            elif is_import(code):
                self._importing = frame
                frame.f_trace_lines = False
                return self._import_done
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        self._guarded(self._function_entered, frame, None)
        return follow

    def _import_done(self, frame: FrameType, event: str, arg: Any) -> Any:
        """An import makes a module that was not there; what happens meanwhile is not the user's."""
        if event == "return" and frame is self._importing:
            self._importing = None
        return self._import_done

    def _follower(self, code: CodeType) -> Callable[..., Any] | None:
        """The function that Python calls before each instruction of a frame of this code."""
        if not is_watched(code):
            return None
        own = is_own(code)
        table = {
            offset: (getattr(self, "_" + name), argument)
            for offset, (name, argument) in steps(code).items()
            if not (own and name == "global_read")
        }
        get = table.get

        def follow(frame: FrameType, event: str, arg: Any) -> Any:
            if event == "opcode":
                step = get(frame.f_lasti)
                if step is not None:
                    self._guarded(step[0], frame, step[1])
            return follow

        return follow

    def _guarded(self, step: Callable[..., None], frame: FrameType, argument: Any) -> None:
        """Run one step; a mistake in here must not look like one of the user's program."""
        try:
            step(frame, argument)
        except Exception as error:
            self._refuse(frame, f"this line could not be watched ({error!r})")

    def _function_entered(self, frame: FrameType, _: Any) -> None:
        function = _operands.function_of(frame)
        if type(function) is not FunctionType or ("attr", id(function), "__code__") in self._seen:
            return
        if is_own(function.__code__):
            return
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            value = getattr(function, name)
            if value is not None:
                self._read(Place("attr", function, name, value, function), None, 0)

    def _module_called(self, frame: FrameType, _: Any) -> None:
        """A layer is called: `Module.__call__` reads its hooks and its forward."""
        module = _operands.variable(frame, 0)
        if not isinstance(module, Module):
            return
        own = module.__dict__
        for table in _HOOK_TABLES:
            if table in own:
                self._read(Place("item", own, table, own[table], module), None, 0)
        forward = find(module, "forward")
        if forward is not None:
            self._read(forward, None, 0)

    def _take_arguments(self, arguments: Any, but: tuple[Any, ...] = ()) -> None:
        stack = [*arguments] if isinstance(arguments, tuple | list) else [arguments]
        while stack:
            thing = stack.pop()
            if any(thing is one for one in but) or id(thing) in self._given:
                continue
            if is_array(thing):
                self._given[id(thing)] = (thing, frozenset())
            elif _tree.is_structure(thing):
                parts, entries = _tree.children(thing)
                self._given[id(thing)] = (thing, frozenset(entries))
                stack.extend(parts)

    # -- reads -----------------------------------------------------------------------------------

    def _global_read(self, frame: FrameType, name: str) -> None:
        space = frame.f_globals
        if ("item", id(space), name) in self._seen:
            return
        # The function that is run stands for its globals, which the collector may not know.
        place = item_place(space, name, _operands.function_of(frame))
        if place is None:
            place = Place("free", space, name, None, _operands.function_of(frame))
        self._read(place, frame.f_code, frame.f_lasti)

    def _name_read(self, frame: FrameType, name: str) -> None:
        if name not in frame.f_locals:
            self._global_read(frame, name)

    def _cell_read(self, frame: FrameType, index: int) -> None:
        cell = _operands.variable(frame, index)
        if ("cell", id(cell), None) in self._seen:
            return
        place = cell_place(cell)
        if place is not None:
            self._read(place, frame.f_code, frame.f_lasti)

    def _attribute_read(self, frame: FrameType, name: str) -> None:
        thing = _operands.operand(frame, 0)
        self._attribute_of(thing, name, frame)

    def _attribute_of(self, thing: Any, name: str, frame: FrameType) -> None:
        if type(thing) in _PLAIN:
            return
        given = self._given.get(id(thing))
        if given is not None and self._read_of_argument(thing, given[1], name, frame):
            return
        if name == "__dict__" and not isinstance(thing, type | ModuleType):
            own = own_dict(thing)
            if own is not None:
                self._loaded(thing, own, "the attributes of an object", frame)
            return
        if name in _TENSOR_TABLES and isinstance(thing, Module):
            self._table_read(thing, name, frame)
            return
        place = find(thing, name)
        if place is not None:
            self._read(place, frame.f_code, frame.f_lasti)

    def _table_read(self, module: Module, name: str, frame: FrameType) -> None:
        """The parameters of a layer: each for itself, for `functional_call` exchanges some."""
        table = module.__dict__[name]
        self._covered[id(table)] = table
        self._read(Place("keys", table, None, tuple(table), module), frame.f_code, frame.f_lasti)
        for key, value in table.items():
            self._read(Place("item", table, key, value, module), frame.f_code, frame.f_lasti)

    def _read_of_argument(
        self, thing: Any, fields: frozenset[Any], name: str, frame: FrameType
    ) -> bool:
        """A part of an argument is compared with the argument; its class is guarded like others."""
        own = own_dict(thing)
        if name in fields or is_array(thing):
            return True
        if own is not None and name in own:
            reason = "is read of an argument of which it is no field: a later argument may differ"
            self._refuse(frame, f"`{text_of(frame.f_code, frame.f_lasti) or name}` {reason}")
            return True
        found = raw_attribute(type(thing), name)
        if found is not None and not is_library_class(found[0]):
            self._read(own_place(found, name), frame.f_code, frame.f_lasti)
        return True

    def _item_read(self, frame: FrameType, _: Any) -> None:
        container = _operands.operand(frame, 1)
        cls = type(container)
        if cls is dict:
            if id(container) in self._covered or id(container) in self._given:
                return
            place = item_place(container, _operands.operand(frame, 0), container)
        elif cls is list:
            key = _operands.operand(frame, 0)
            if id(container) in self._covered or id(container) in self._given:
                return
            if type(key) is not int or not -len(container) <= key < len(container):
                self._loaded(container, container, "a list", frame)
                return
            place = Place("item", container, key, container[key], container)
        else:
            if type(container) is _Environment:
                self._refuse(frame, "`os.environ` is read, which is no part of the program")
            return
        if place is not None:
            self._read(place, frame.f_code, frame.f_lasti)

    def _iterated(self, frame: FrameType, _: Any) -> None:
        self._advanced(_operands.operand(frame, 0), frame)

    def _advanced(self, thing: Any, frame: FrameType) -> None:
        cls = type(thing)
        if cls in _PLAIN or not hasattr(cls, "__next__"):
            return
        if isinstance(getattr(cls, "__next__", None), FunctionType):
            return  # its own frame is watched
        self._change(thing, f"an iterator that was there before is used up, {_REPEAT}", frame)

    def _read(self, place: Place, code: CodeType | None, offset: int) -> None:
        """Note a place; later whether its holder was there before, now what stands in it."""
        key = (place.kind, id(place.holder), place.key)
        if key in self._seen:
            return
        self._seen.add(key)
        snapshot = None
        value = place.value
        if place.kind in ("attr", "item", "cell"):
            try:
                snapshot = self._snapshot(value)
            except TooLarge as error:
                self._too_large(place.owner, error, code, offset)
        self._pending.append(_Read(place.owner, place, snapshot, code, offset))
        if len(self._pending) > _PENDING:
            self._settle()

    def _snapshot(self, value: Any) -> Snapshot | None:
        if not (is_value(value) or is_changeable(value)):
            return None
        try:
            snapshot = Snapshot(value)
        except TooLarge:
            if is_lasting(value):
                return None  # the same object is the same value
            raise
        for container in snapshot.containers():
            self._covered[id(container)] = container
        return snapshot

    def _loaded(self, owner: Any, container: Any, name: str, frame: FrameType) -> None:
        """Guard all of a container that is reached in a way no place stands for."""
        key = ("whole", id(container), None)
        if key in self._seen:
            return
        self._seen.add(key)
        try:
            snapshot = self._snapshot(container)
        except TooLarge as error:
            self._too_large(owner, error, frame.f_code, frame.f_lasti)
            return
        if snapshot is not None:
            where = place_of(frame.f_code, frame.f_lasti)
            self._pending.append(_Whole(owner, snapshot, name, where))

    def _too_large(self, owner: Any, error: TooLarge, code: CodeType | None, offset: int) -> None:
        if code is None:
            code = _NO_CODE
        text = text_of(code, offset)
        reason = f"`{text}`" if text else "a container"
        fix = "too much to compare at each call; pass it as an argument, or make it a tuple"
        self._pending.append(_Change(owner, lambda: f"{reason} {error}: {fix}", code, offset))

    # -- stores ----------------------------------------------------------------------------------

    def _refuse(self, frame: FrameType, reason: str) -> None:
        self._pending.append(_Change(_NOBODY, lambda: reason, frame.f_code, frame.f_lasti))

    def _change(self, owner: Any, reason: str, frame: FrameType) -> None:
        """Refuse a change of `owner`, if it turns out that it was there before."""
        code, offset = frame.f_code, frame.f_lasti

        def text() -> str:
            expression = text_of(code, offset)
            return reason.replace("{}", f"`{expression}`" if expression else "an object")

        self._pending.append(_Change(owner, text, code, offset))

    def _global_stored(self, frame: FrameType, name: str) -> None:
        self._change(
            _operands.function_of(frame), f"the global `{name}` is assigned, {_REPEAT}", frame
        )

    def _cell_stored(self, frame: FrameType, index: int) -> None:
        cell = _operands.variable(frame, index)
        self._change(cell, "{} of an enclosing function is assigned, " + _REPEAT, frame)

    def _attribute_stored(self, frame: FrameType, name: str) -> None:
        thing, value = _operands.operand(frame, 0), _operands.operand(frame, 1)
        self._attribute_set(thing, name, value, frame)

    def _attribute_set(self, thing: Any, name: str, value: Any, frame: FrameType) -> None:
        found = raw_attribute(type(thing), name)
        if isinstance(thing, Tensor) and found is not None:
            return
        if found is not None and isinstance(found[1], property) and not is_library_class(found[0]):
            self._read(own_place(found, name), frame.f_code, frame.f_lasti)
            return  # the frame of its setter is watched
        place = None if id(thing) in self._given else find(thing, name)
        if place is not None and place.kind in ("attr", "item") and same(place.value, value):
            self._read(place, frame.f_code, frame.f_lasti)
            return  # a replay need not do what changes nothing
        self._change(thing, "{} is assigned, " + _REPEAT, frame)

    def _attribute_deleted(self, frame: FrameType, name: str) -> None:
        self._change(_operands.operand(frame, 0), "{} is deleted, " + _REPEAT, frame)

    def _item_stored(self, frame: FrameType, _: Any) -> None:
        thing = _operands.operand(frame, 1)
        if not isinstance(thing, Tensor):
            self._change(_base(thing), "{} is assigned or deleted, " + _REPEAT, frame)

    def _changed_in_place(self, frame: FrameType, _: Any) -> None:
        thing = _operands.operand(frame, 1)
        if is_changeable(thing):
            self._change(_base(thing), "{} changes an object, " + _REPEAT, frame)

    # -- calls -----------------------------------------------------------------------------------

    def _called(self, frame: FrameType, given: tuple[int, tuple[str, ...]]) -> None:
        count, names = given
        method = _operands.operand(frame, count + 1)
        callee = _operands.operand(frame, count)
        if method is not None:
            callee, target = method, callee
        else:
            target = None
        if type(callee) is FunctionType and is_watched(callee.__code__):
            return
        arguments = [_operands.operand(frame, depth) for depth in range(count - 1, -1, -1)]
        if "out" in names:
            out = arguments[count - len(names) + names.index("out")]
            for thing in out if type(out) is tuple else (out,):
                if is_array(thing):
                    self._change(_base(thing), "{} changes an object, " + _REPEAT, frame)
        self._call(frame, callee, target, arguments)

    def _called_with_stars(self, frame: FrameType, flags: int) -> None:
        named = flags & 1
        callee = _operands.operand(frame, named + 1)
        arguments = _operands.operand(frame, named)
        values = [*arguments] if type(arguments) is tuple else []
        if named and type(_operands.operand(frame, 0)) is dict:
            values += _operands.operand(frame, 0).values()
        target = None
        if isinstance(callee, MethodType):
            target, callee = callee.__self__, callee.__func__
        self._call(frame, callee, target, values)

    def _call(self, frame: FrameType, callee: Any, target: Any, arguments: list[Any]) -> None:
        if type(callee) is FunctionType and is_watched(callee.__code__):
            return
        reason = _effects.refused(callee, target, len(arguments))
        if reason is not None:
            self._refuse(frame, reason)
            return
        state = _effects.state_of(callee, target)
        if state is not None:
            self._change(state, "{} gives another value at each call", frame)
            return
        standing_for = _attribute_function(callee)
        if standing_for:
            bound = callee.__self__ if isinstance(callee, MethodWrapperType) else target
            values = arguments if bound is None else [bound, *arguments]
            self._attribute_function_called(frame, standing_for, values)
            return
        if isinstance(callee, functools.partial):
            self._partial_called(callee)
            self._call(frame, callee.func, None, [*callee.args, *arguments])
            return
        first = arguments[0] if arguments else None
        changed = _effects.changed_by(callee, target, first)
        if changed is not None and callee is not next and not isinstance(changed, Tensor):
            self._change(_base(changed), "{} changes an object, " + _REPEAT, frame)
        dispatches = _only_dispatches(callee)
        for thing in (target, *arguments):
            self._advanced(thing, frame)
            if not dispatches:
                self._handed_over(thing, frame)

    def _attribute_function_called(self, frame: FrameType, does: str, arguments: list[Any]) -> None:
        """`getattr`, `setattr` and the like: the instruction they stand for."""
        if not arguments:
            return
        thing = arguments[0]
        if does == "vars":
            self._attribute_of(thing, "__dict__", frame)
        elif len(arguments) < 2 or not isinstance(arguments[1], str):
            return
        elif does == "read":
            self._attribute_of(thing, arguments[1], frame)
        elif does == "store" and len(arguments) == 3:
            self._attribute_set(thing, arguments[1], arguments[2], frame)
        else:
            self._change(thing, "{} changes an object, " + _REPEAT, frame)

    def _partial_called(self, partial: functools.partial[Any]) -> None:
        held = (partial.args, partial.keywords)
        key = ("whole", id(partial), None)
        if key not in self._seen:
            self._seen.add(key)
            try:
                snapshot = self._snapshot(held)
            except TooLarge as error:
                self._too_large(partial, error, None, 0)
                return
            if snapshot is not None:
                self._pending.append(_Whole(partial, snapshot, "an argument of a partial", ""))

    def _handed_over(self, thing: Any, frame: FrameType) -> None:
        """A plain object goes to code that is not watched, which may read all of it."""
        cls = type(thing)
        if cls in _PLAIN or isinstance(
            thing,
            Tensor | Module | type | ModuleType | FunctionType | BuiltinFunctionType | MethodType,
        ):
            return
        if id(thing) in self._given or is_library_class(cls):
            return
        own = own_dict(thing)
        if own:
            self._loaded(thing, own, f"the attributes of a {cls.__name__}", frame)

    # -- what was there before -------------------------------------------------------------------

    def _settle(self) -> None:
        """Decide about everything noted so far. Note [Objects of the run]."""
        pending, self._pending = self._pending, []
        owners = {id(one.owner) for one in pending}
        young = owners.intersection(map(id, gc.get_objects(generation=0)))
        dropped = False
        for one in pending:
            if not self._was_there(one.owner, young):
                dropped = True
            elif isinstance(one, _Change):
                refusal = Refusal(one.reason(), place_of(one.code, one.offset))
                if refusal not in self.refusals:
                    self.refusals.append(refusal)
            else:
                self._keep(one)
        if dropped:
            # Objects of the run may be gone now, and their addresses be those of others.
            kept = [guard.place for guard in self._guards]
            self._seen = {(place.kind, id(place.holder), place.key) for place in kept}
            self._covered = dict(self._reached)

    def _was_there(self, thing: Any, young: set[int]) -> bool:
        if thing is _NOBODY or id(thing) in self._reached or id(thing) in self._given:
            return True
        if gc.is_tracked(thing):
            return id(thing) not in young
        return not (isinstance(thing, dict | bytearray) or is_array(thing))

    def _keep(self, one: _Read | _Whole) -> None:
        if one.snapshot is not None:
            for container in one.snapshot.containers():
                self._reached[id(container)] = container
        elif isinstance(one, _Read) and one.place.kind == "keys":
            self._reached[id(one.place.holder)] = one.place.holder
        if isinstance(one, _Whole):
            place = Place("whole", one.snapshot.value, None, one.snapshot.value, one.owner)
            self._guards.append(Guard(place, one.snapshot, one.name, one.where))
        else:
            where = "" if one.code is None else place_of(one.code, one.offset)
            self._guards.append(Guard(one.place, one.snapshot, _name(one), where))

    def _drop_changed(self) -> None:
        """What changed during the run although no one was seen to change it.

        `functional_call` puts other tensors into a module for the time of a call: they are those of
        its arguments, and need no guard.
        """
        kept = []
        for guard in () if self.refusals else self._guards:
            if guard.holds():
                kept.append(guard)
            elif not (guard.place.kind == "item" and isinstance(guard.place.value, Tensor)):
                reason = f"{guard.name} changed during the call, {_REPEAT}"
                self.refusals.append(Refusal(reason, guard.where))
        self._guards = kept


def _name(one: _Read) -> str:
    """What people call a place: ``the global `scale` ``."""
    kind, holder, key, _, owner = one.place
    text = "" if one.code is None else text_of(one.code, one.offset)
    if kind in ("item", "free") and isinstance(holder, dict) and "__name__" in holder:
        return f"the global `{key}`"
    if kind == "cell":
        return f"`{text or 'a variable'}` of an enclosing function"
    if text:
        return f"`{text}`"
    kind_of = owner.__name__ if isinstance(owner, type | FunctionType) else type(owner).__name__
    return f"`{key}` of {kind_of}"


def _bound(function: Any) -> tuple[Any, ...]:
    """What a callable brings along: it is no argument although its frame gets it as one."""
    held: list[Any] = [function]
    if isinstance(function, MethodType):
        held.append(function.__self__)
    if isinstance(function, functools.partial):
        held += [*_bound(function.func), *function.args, *function.keywords.values()]
    wrapped = getattr(function, "__wrapped__", None)
    return (*held, *_bound(wrapped)) if wrapped is not None else tuple(held)


def _variables(frame: FrameType) -> tuple[Any, ...]:
    """The arguments of a frame that was just entered."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    values = frame.f_locals
    return tuple(values[name] for name in code.co_varnames[:count] if name in values)


def _base(thing: Any) -> Any:
    """The array that owns the memory of an array; other things as they are."""
    while is_array(thing) and is_array(thing.base):
        thing = thing.base
    return thing


def _attribute_function(callee: Any) -> str:
    """What a function does with an attribute: "read", "store", "delete", "vars" or nothing."""
    if isinstance(callee, BuiltinFunctionType) and callee.__module__ == "builtins":
        return _ATTRIBUTE_FUNCTIONS.get(callee.__name__, "")
    if isinstance(callee, WrapperDescriptorType | MethodWrapperType):
        return _ATTRIBUTE_FUNCTIONS.get(callee.__name__, "")
    return ""


def _only_dispatches(callee: Any) -> bool:
    """Whether a callee reads its arguments through their own methods only."""
    if isinstance(callee, type):
        return callee.__module__ == "builtins" or not is_library_class(callee)
    return isinstance(callee, BuiltinFunctionType) and callee.__module__ == "builtins"


_NO_CODE = (lambda: None).__code__
_ATTRIBUTE_FUNCTIONS = {
    "getattr": "read",
    "hasattr": "read",
    "setattr": "store",
    "delattr": "delete",
    "vars": "vars",
    "__getattribute__": "read",
    "__setattr__": "store",
    "__delattr__": "delete",
}
_Environment = type(sys.modules["os"].environ)
