"""`Walk`: what one call of a function depends on, and what it has changed.

No instruction is followed. The interpreter tells which code objects start, and which C functions
they call (src/bindings/walk.cpp). A code object can ask for nothing but the names in its bytecode
(`_names`), so when one starts, everything that these names lead to from what is known already is
*reached*, and noted as it is then. After the call the notes are compared once: a difference is an
effect, which refuses the call. Otherwise they are the guards.

The roots are the function, its arguments and the globals of the code that ran. From there it goes
on to cells and defaults of functions that ran, to attributes that any code that ran has a name for
(that they are absent counts too), to all that is in containers, and to classes. An object whose
state cannot be seen, and a C function that is not known to be pure (`_pure`), refuse the call.

Nothing is walked from the variables of frames: what the call has made itself cannot be state, and
what it got from elsewhere is reached by the names that led there. No object is asked through its
own methods. Read next: `_guards`.
"""

from __future__ import annotations

import abc
import ctypes
import enum
import functools
import gc
import operator
import re
import sys
import threading
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import Tensor, _core, _tree
from adjoint._recording import placeholder_pass

from ._guards import ABSENT, Guards, Kind, Place, Row, changed, is_value, same
from ._kinds import extras
from ._names import ASKING, COMPUTED, Names, line_of, names_of, place_of, words
from ._pure import GENERIC, HARMLESS, LOCKS, OWN_STATE, TYPES, is_vouched, methods_of, why_not
from ._tensor_class import table_of_tensor
from ._visible import (
    FOLLOWED,
    IN_PYTHON,
    OWN,
    READS_ALL,
    class_is_library,
    is_library,
    may_be_called,
    module_is_library,
    slots,
    solid_base,
    trust,
)

__all__ = ["Refusal", "Stopped", "Walk", "guard"]

LARGEST_ARRAY = 4096  # bytes, compared at each call
MOST_OBJECTS = 20_000
MOST_PARTS = 4096  # of a container

_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
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
    )
)
_BY_ADDRESS = frozenset(("id", "hash"))  # then it is for these very tensors
# What Python can read of a tensor besides its numbers, and `fits` does not compare.
_STATE = words(
    "is_leaf grad_fn _base _is_view storage_offset retains_grad is_inference data_ptr "
    "untyped_storage output_nr _backward_hooks _version"
)
# What functions and classes have besides attributes in a dict.
_FIELDS = words(
    "__name__ __qualname__ __doc__ __module__ __annotations__ __defaults__ __kwdefaults__ __code__ "
    "__type_params__ __closure__ __globals__"
)
# Methods that tell which object a tensor is.
_TELLING = frozenset(("__hash__", "__repr__"))
# Names by which the core finds functions in classes.
_OF_THE_CORE = words(
    "forward backward setup_context vjp jvp vmap __torch_function__ __torch_dispatch__"
)


# What a logger's cache is made of: whether a level is on.
_OF_LEVELS = words("level parent disabled manager _disable")

_ERROR_SIZE: int = BaseException.__basicsize__
_FACTORY: Any = vars(defaultdict)["default_factory"].__get__


class How(enum.IntEnum):
    """What is done with code: the order of `How` in src/bindings/walk.cpp."""

    IGNORED = 0
    FOLLOWED = 1
    MUTING = 2
    ASK_AGAIN = 3


class Refusal(NamedTuple):
    """Why a call cannot be replayed, and where: ``model.py:12   print(x)``."""

    reason: str
    where: str


class Stopped(BaseException):
    """A backward pass that runs for its recording alone must not go on."""


class _Refused(Exception):
    """Something cannot be guarded: the reason, and what it was reached by."""

    def __init__(self, reason: str, path: str) -> None:
        super().__init__(reason)
        self.reason, self.path = reason, path


class _Space:
    """A namespace (of an object, a class, a module): what stood there, and which names matter."""

    __slots__ = (
        *("adjoints", "before", "holder", "innocent", "kind", "now", "path", "watched", "whole"),
    )

    def __init__(
        self,
        now: Any,
        path: str,
        kind: str,
        holder: Any,
        adjoints: bool = False,
        before: dict[str, Any] | None = None,
        innocent: frozenset[str] = frozenset(),
    ) -> None:
        self.now, self.path, self.kind, self.holder = now, path, kind, holder
        self.adjoints = adjoints  # names in adjoint's own code count
        self.before: dict[str, Any] = dict(now) if before is None else before
        self.watched: dict[str, Any] = {}
        self.innocent = innocent  # names of what leads nowhere
        # C code compares and shows these: no name says which attributes it reads.
        self.whole = isinstance(holder, types.SimpleNamespace)


class _Cancelled(BaseException):
    pass


def _deliver_cancelled() -> None:
    """Let an asynchronous exception arrive, so that none that was cancelled is waited for.

    CPython 3.11 goes on to look for one that anybody cancelled (by PyThreadState_SetAsyncExc with
    NULL, as libraries for time limits do) until another arrives; a profiled function would wait
    for it for ever.
    """
    if sys.version_info >= (3, 12):
        return
    try:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(
            ctypes.c_ulong(threading.get_ident()), ctypes.py_object(_Cancelled)
        )
        while True:
            pass
    except _Cancelled:
        pass


_thread = threading.local()  # its `walk` is the one that is on


class Walk:
    """Find out what one call depends on.

    Parameters
    ----------
    function : callable
        What is called.
    arguments : tuple of (args, kwargs)
        What it is called with. Lists, dicts, dataclasses, ... in it are known to whoever compares
        arguments: they are not guarded, but they must not be changed.

    Attributes
    ----------
    refusals : list of Refusal
        Why the call cannot be replayed: empty if it can.

    Examples
    --------
    >>> scale = 2.0
    >>> def f(x):
    ...     return scale * x
    >>> with Walk(f, ((3.0,), {})) as walk:
    ...     result = f(3.0)
    >>> walk.refusals, walk.guards().hold()
    ([], True)
    """

    def __init__(
        self, function: Callable[..., Any], arguments: tuple[tuple[Any, ...], dict[str, Any]]
    ) -> None:
        self.refusals: list[Refusal] = []
        self._callee, self._arguments = function, arguments
        # Attributes that code which ran has names for: all code, or all but adjoint's.
        self._all_names, self._names = set(_OF_THE_CORE), set[str]()
        self._whole = False  # attributes are asked for by names that are computed
        self._pinned = False  # addresses of tensors are asked for before the recording starts
        self._codes: dict[CodeType, str] = {}  # that have started, and how they are treated
        self._nested: set[CodeType] = set()
        self._reached: dict[int, Any] = {}  # by address; kept alive
        self._todo: list[tuple[Any, str]] = []
        self._spaces: list[_Space] = []
        self._of_dict: dict[int, _Space] = {}
        self._rows: list[Row] = []
        self._given: list[Row] = []  # of arguments, which others compare
        self._memory: list[Row] = []  # of buffers, with which tensors may share memory
        self._modules: list[tuple[Any, str]] = []
        self._classes: dict[type, tuple[type, ...]] = {}  # and what they inherit from
        self._untouched: dict[type, Guards] = {}  # which hold until something happens to a class
        self._fielded: list[tuple[Any, str]] = []  # functions and classes, which have fields
        self._stepping: list[tuple[Any, str]] = []  # what optimisers change in each replay
        self._tensors: list[Tensor] = []
        self._argument_tensors: list[Tensor] = []
        # Functions and bound methods that matter if their code starts.
        self._waiting: dict[CodeType, list[tuple[Any, str]]] = {}
        self._starting: CodeType | None = getattr(function, "__code__", None)
        self._frame: FrameType | None = None  # of that code
        self._collecting: tuple[int, int, int] | None = None  # how the collector was set
        self._is_settled = False  # what follows is the backward pass on placeholders
        self._later: Walk | None = None  # what code reads that runs in the backward pass

    # -- on and off --------------------------------------------------------------------------------

    def __enter__(self) -> Walk:
        self._guarded(self._begin)
        _deliver_cancelled()
        _core._walk_start(self._started, self._called)
        self._outer = getattr(_thread, "walk", None)
        _thread.walk = self
        self._collecting = gc.get_threshold()
        gc.set_threshold(0)  # collections call functions of other libraries
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not _core._walk_stop():
            self._refuse("a profile function was set, and what followed was not seen", "")
        _thread.walk = self._outer
        try:
            self.settle()
        finally:
            self._collect_again()

    def settle(self) -> None:
        """Look for effects: `refusals` is complete until now."""
        before = _core._walk_pause(True)
        if not self.refusals:
            self._guarded(self._look_for_effects)
        if self.refusals and self._is_settled:
            self._take_back()
        self._is_settled = not self.refusals
        _core._walk_anew()
        _core._walk_pause(before)

    def knows(self, thing: Any) -> bool:
        """Whether an object was there before the call, as far as the call could reach it."""
        return self._reached.get(id(thing), ABSENT) is thing or any(
            row.holder is thing for row in self._given
        )

    def _guarded(self, step: Callable[..., Any], *args: Any) -> None:
        try:
            step(*args)
        except _Refused as refused:
            self._refuse(refused.reason, self._place(refused.path))
        except Exception as error:  # a mistake must not look like one of the user's program
            self._refuse(f"what it depends on could not be found out ({error!r})", "")

    def _refuse(self, reason: str, where: str) -> None:
        self.refusals.append(Refusal(reason, where))
        self._todo.clear()
        self._collect_again()  # the function may ask for it

    def _collect_again(self) -> None:
        if self._collecting is not None:
            gc.set_threshold(*self._collecting)
            self._collecting = None

    def _place(self, path: str) -> str:
        """The line that has the last name of a path, as far as one can tell."""
        if self._frame is not None and is_library(self._frame.f_code.co_filename):
            return _user_line(self._frame)
        ran = [code for code, how in self._codes.items() if how is FOLLOWED]
        ran = [code for code in ran if not is_library(code.co_filename)]
        if self._starting is not None and not is_library(self._starting.co_filename):
            ran.insert(0, self._starting)
        for name in reversed(re.findall(r"\w+", path)):
            for code in ran:
                line = line_of(code, (name,))
                if line is not None:
                    return place_of(code, line)
        return place_of(ran[0], None) if ran else ""

    def _begin(self) -> None:
        self._tensor_class()
        args, kwargs = self._arguments
        names = _parameters(self._callee, len(args))
        for name, thing in [*zip(names, args, strict=True), *kwargs.items()]:
            self._take(thing, name)
        self._reach(self._callee, getattr(self._callee, "__name__", "function"))
        self._go_on()

    # -- what the interpreter tells ----------------------------------------------------------------

    def _started(self, code: CodeType, frame: FrameType) -> int:
        """A code object is about to run for the first time."""
        if self.refusals:
            return How.IGNORED
        filename, caller = code.co_filename, frame.f_back
        by = self._codes.get(caller.f_code, OWN) if caller is not None else OWN
        if filename.startswith("<frozen importlib"):
            if code.co_name == "_gcd_import" and by is FOLLOWED:
                self._refuse("a module is imported by a computed name", _user_line(frame))
            return How.MUTING
        if code.co_name == "_showwarnmsg" and filename.endswith("warnings.py"):
            return How.MUTING  # of an op: it warns in C
        if is_vouched(code):
            self._guarded(self._read_all, False)
            return How.MUTING
        how = trust(code, frame.f_globals.get("__name__"))
        if by is OWN and how is not OWN and is_library(filename):
            return How.ASK_AGAIN  # adjoint calls a library for its own purposes
        if placeholder_pass.get() and how is FOLLOWED:
            self._enter_later(code, frame)
        if code in self._codes:
            return How.FOLLOWED if how is FOLLOWED else How.IGNORED
        self._codes[code], self._starting = how, code
        if how is OWN and code.co_name in OWN_STATE and by is not OWN:
            reason = f"`adjoint.{code.co_name}()` reads or sets a state of the process"
            self._refuse(reason, _user_line(frame))
        else:
            self._frame = frame
            self._guarded(self._enter, code, frame, how)
            self._frame = None
        return How.FOLLOWED if how is FOLLOWED else How.IGNORED

    def _enter_later(self, code: CodeType, frame: FrameType) -> None:
        """Code runs that eager execution would run in the backward pass, and not now."""
        if self._later is None:
            self._later = Walk(_core._frame_function(frame), ((), {}))
        later = self._later
        later._codes[code], later._starting = FOLLOWED, code
        for name, value in list(frame.f_locals.items()):
            later._guarded(self._hand_over, value, name, later)
        later._guarded(later._enter, code, frame, FOLLOWED)
        self.refusals += later.refusals

    def _hand_over(self, value: Any, path: str, later: Walk, depth: int = 3) -> None:
        """Let a walk know of objects that this one has reached, and code gets by its arguments."""
        if isinstance(value, Tensor) or is_value(type(value)):
            return
        if self._reached.get(id(value), ABSENT) is value:
            later._reach(value, path)
            later._go_on()
        elif depth:
            inside = _parts(value) if isinstance(value, _CONTAINERS) else ()
            for part in (*inside, *(_core._dict_of(value) or {}).values()):
                self._hand_over(part, path, later, depth - 1)

    def _called(self, function: Any, frame: FrameType) -> None:
        """Code that is followed calls a C function."""
        if not self.refusals:
            self._starting = frame.f_code
            if function is globals and names_of(frame.f_code).plain_globals:
                return
            try:
                self._judge(function, "")
            except _Refused as refused:
                self._refuse(refused.reason, _user_line(frame))
                if placeholder_pass.get():  # which eager execution would not have made
                    raise Stopped from None

    def _judge(self, function: Any, path: str) -> None:
        """Refuse a C function that is not known to be pure."""
        if function.__name__ in _BY_ADDRESS and function.__module__ == "builtins":
            self._pin()
        why = why_not(function)
        if why:
            raise _Refused(why, path or function.__name__)

    def _pin(self) -> None:
        """The recording is for these very tensors."""
        self._pinned |= not _core._is_recording()
        for tensor in self._argument_tensors:
            _core._ask_address(tensor)

    def _enter(self, code: CodeType, frame: FrameType, how: str) -> None:
        """Reach what the names of a code object lead to."""
        if how is OWN and f"{__package__}." in frame.f_globals.get("__name__", ""):
            return
        found = names_of(code)
        if code.co_name == "__instancecheck__" and how is not OWN:
            self._ask(abc.get_cache_token, "what is registered with abstract classes")
        adjoints = how is OWN and not _reads_stepper(frame.f_globals, found)
        self._add_names(found.attributes, adjoints)
        if how is READS_ALL or (found.computed and not adjoints):
            self._read_all()
        if how is FOLLOWED:
            self._find_function(code, frame)
        self._nested.update(one for one in code.co_consts if type(one) is CodeType)
        for one, path in self._waiting.pop(code, ()):
            self._expand(one, path)
        if how is FOLLOWED:
            self._follow_globals(frame, found)
            self._follow_imports(found.imports)
        elif how is OWN:
            self._reach_hooks(frame.f_globals, found)
        self._go_on()

    def _find_function(self, code: CodeType, frame: FrameType) -> None:
        """Reach a function that C code has found by a name of its own."""
        if code in self._waiting or code in self._nested or "<module>" in code.co_name:
            return
        function = _core._frame_function(frame)
        if type(function) is FunctionType and function.__code__ is code:
            self._reach(function, code.co_name)
            self._go_on()

    def _reach_hooks(self, table: dict[str, Any], found: Names) -> None:
        """Reach adjoint's own tables of hooks, which are global."""
        if table.get("__name__", "").startswith(("adjoint.nn.modules", "adjoint.optim")):
            for chain in found.chains:
                held = table.get(chain.name)
                if type(held) in (dict, OrderedDict, list):
                    self._reach(held, chain.name)

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
        fields = others & _FIELDS
        for one, path in self._fielded if fields else ():
            self._reach_fields(one, path, fields)
        if not self._whole and (new or others):
            for space in self._spaces:
                self._watch(space, (new if space.adjoints else others) & space.before.keys())
        if new:
            for module, path in self._modules:
                self._reach_names(module, path, new)

    def _reach_fields(self, thing: Any, path: str, fields: Iterable[str]) -> None:
        """What is asked of a function or a class that stands in no dict."""
        for name in fields:
            if name == "__globals__" and hasattr(thing, name):
                raise _Refused(f"`{path}.__globals__`, of a module, is looked into", name)
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

    # -- globals and modules -----------------------------------------------------------------------

    def _follow_globals(self, frame: FrameType, found: Names) -> None:
        space = self._space_of(frame.f_globals, "")
        for name, attributes, called in found.chains:
            value = space.watched.setdefault(name, space.before.get(name, ABSENT))
            if value is ABSENT:
                others = self._space_of(frame.f_builtins, "builtins")
                value = others.watched.setdefault(name, others.before.get(name, ABSENT))
            path = name
            for attribute in attributes:
                if type(value) is not types.ModuleType:
                    called = False
                    break
                held = vars(value).get(attribute, ABSENT)
                self._watch_module(value, attribute, path)
                if held is ABSENT:  # a module may have `__getattr__`
                    self._watch_module(value, "__getattr__", path)
                    held = vars(value).get("__getattr__", ABSENT)
                    called = False
                value, path = held, f"{path}.{attribute}"
            if not (called and self._waits(value, path)) and value is not ABSENT:
                self._reach(value, path)

    def _waits(self, value: Any, path: str) -> bool:
        """Whether something that is only called need not be looked at before that happens."""
        if type(value) is types.BuiltinFunctionType:
            if value.__name__ in ASKING and value.__name__ != path:
                self._read_all()
            owner = value.__self__
            if owner is None or isinstance(owner, types.ModuleType):
                return True  # we are told when it is called
            return not isinstance(owner, type) and methods_of(type(owner)) is None
        if type(value) is types.MethodType and type(value.__func__) is FunctionType:
            code = value.__func__.__code__
            if code not in self._codes:
                self._waiting.setdefault(code, []).append((value, path))
                return True
        return False

    def _space_of(self, table: dict[str, Any], path: str) -> _Space:
        """The notes on a dict of globals."""
        space = self._of_dict.get(id(table))
        if space is None:
            space = self._of_dict[id(table)] = _Space(table, path, "globals", table)
            self._spaces.append(space)
        return space

    def _watch_module(self, module: Any, name: str, path: str) -> None:
        space = self._space_of(vars(module), path)
        space.watched.setdefault(name, space.before.get(name, ABSENT))

    def _follow_imports(self, imports: Iterable[str]) -> None:
        for name in imports:
            if name in sys.modules:
                loaded = self._space_of(sys.modules, "sys.modules")
                for one in {name.partition(".")[0], name}:
                    loaded.watched[one] = loaded.before.get(one, ABSENT)
                    self._module(sys.modules[one], one)
            elif name:
                raise _Refused(f"the module `{name}` is imported in the call", name)

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
                raise _Refused(reason, path)
        elif self._whole and not library:
            names = [name for name in vars(module) if name[:2] != "__"]
        if "__dict__" in self._names and not library:
            raise _Refused(f"`{path}.__dict__`, of a module, is looked into", "__dict__")
        for name in (*names, "__getattr__"):
            held = vars(module).get(name, ABSENT)
            if not library or name in self._names:
                self._watch_module(module, name, path)
            if held is not ABSENT:
                self._reach(held, f"{path}.{name}")

    # -- the walk ----------------------------------------------------------------------------------

    def _reach(self, value: Any, path: str) -> None:
        if id(value) not in self._reached and not is_value(type(value)):
            self._todo.append((value, path))

    def _go_on(self) -> None:
        while self._todo:
            value, path = self._todo.pop()
            if id(value) not in self._reached:
                self._reached[id(value)] = value
                if len(self._reached) > MOST_OBJECTS:
                    raise _Refused(f"it reaches more than {MOST_OBJECTS} objects", path)
                self._visit(value, path)

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
        elif _is_array(value):
            self._bytes(value, path)
            self._attributes(value, path)
        elif kind.__name__ == "_ArrayFunctionDispatcher":
            self._dispatcher(value, path)
        elif kind.__name__ == "ufunc" and methods_of(kind):
            pass
        elif not _is_foreign(kind):
            self._object(value, path)

    def _function(self, function: FunctionType, path: str) -> None:
        if not is_vouched(function):
            if not is_library(function.__code__.co_filename) or function.__dict__:
                self._instance_dict(function, path)
                self._fielded.append((function, path))
                self._reach_fields(function, path, _FIELDS & self._names)
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

    def _error(self, value: Any, path: str) -> None:
        """An exception that is kept: what it says; those that say more than others refuse."""
        kind: Any = type(value)
        base = solid_base(kind)
        if base is not None and base.__basicsize__ > _ERROR_SIZE:
            self._refuse_hidden(value, path)
        parts = functools.partial(_parts_of_error, value)
        self._ask(parts, f"`{path}`")
        for part in parts()[:3]:
            self._reach(part, path)

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
        parts = functools.partial(_parts_of_partial, value)
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

    def _view(self, value: Any, path: str) -> None:
        for one in gc.get_referents(value):
            self._reach(one, path)

    def _generic(self, value: Any, path: str) -> None:
        """A type parameter or an alias: bounds and the like stay; attributes may be given to it."""
        self._view(value, path)
        self._instance_dict(value, path)

    def _reference(self, value: Any, path: str) -> None:
        target = weakref.ref.__call__(value)
        if target is None:
            return  # for ever
        if not isinstance(target, type):
            reason = f"`{path}` is a weak reference, and a recording would keep its object alive"
            raise _Refused(reason, path)
        self._reach(target, path)

    def _lock(self, value: Any, path: str) -> None:
        self._ask(functools.partial(repr, value), f"`{path}`")  # who holds it, and how often

    def _variable(self, value: Any, path: str) -> None:
        self._ask(functools.partial(value.get, ABSENT), f"`{path}`")
        self._reach(value.get(ABSENT), path)

    def _compiled(self, value: Any, path: str) -> None:
        self._reach(value.function, path)

    def _bytes(self, value: Any, path: str) -> None:
        if _is_array(value) and value.dtype.hasobject:
            raise _Refused(f"`{path}` is an array of Python objects", path)
        size = value.nbytes if _is_array(value) else memoryview(value).nbytes
        if size > LARGEST_ARRAY:
            raise _Refused(
                f"`{path}` has {size} bytes, too many to compare at each call; fix: make it a "
                "tensor, or pass it as an argument",
                path,
            )
        self._ask(functools.partial(_content, value), f"the content of `{path}`")
        self._memory.append(self._rows[-1])

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
        if issubclass(kind, _CONTAINERS):
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
        raise _Refused(f"`{path}` is of the type {kind}, whose state cannot be seen", path)

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

    def _container(self, value: Any, path: str) -> None:
        size = len(_parts(value))
        if size > MOST_PARTS and not isinstance(value, tuple | frozenset):
            raise _Refused(
                f"`{path}` has {size} parts, too many to compare at each call; fix: make it a "
                "tensor or a tuple, or pass it as an argument",
                path,
            )
        for row in _content_rows(value, path):
            self._rows.append(row)
        for part in _parts(value):
            self._reach(part, f"{path}[...]")
        if isinstance(value, defaultdict):
            factory = functools.partial(_FACTORY, value)
            self._ask(factory, f"`{path}.default_factory`")
            self._reach(factory(), path)

    def _instance_dict(self, value: Any, path: str) -> None:
        table = _core._dict_of(value)
        if table is None or id(table) in self._of_dict:
            return
        # adjoint asks its own objects for attributes, not the user's; and what an optimiser reads
        # is read again in each replay.
        adjoints = _is_adjoints(type(value)) and not _steps_by_itself(value)
        space = _Space(table, path, "instance", value, adjoints)
        self._of_dict[id(table)] = space
        self._spaces.append(space)
        names = self._all_names if adjoints else self._names
        whole = self._whole or space.whole
        self._watch(space, space.before if whole else names & space.before.keys())

    def _watch(self, space: _Space, names: Iterable[str]) -> None:
        """Names matter from now on that did not before."""
        if space.kind in ("globals", "argument"):
            return  # chains say which; who compares arguments knows
        if space.kind == "library":
            self._reach_state(space, names)
            return
        for name in names:
            if name not in space.watched and name not in space.innocent:
                space.watched[name] = value = space.before[name]
                if name == "state" and _steps_by_itself(space.holder):
                    self._stepping.append((value, f"{space.path}.{name}"))
                elif name == "_cache" and _is_logger(space.holder):
                    self._add_names(_OF_LEVELS, False)
                else:
                    self._reach(value, f"{space.path}.{name}")

    def _reach_state(self, space: _Space, names: Iterable[str]) -> None:
        """Reach objects in a class of a library, whose code and numbers are taken to stay."""
        for name in names:
            value = space.before[name]
            if not hasattr(type(value), "__get__") and not isinstance(value, type):
                self._reach(value, f"{space.path}.{name}")

    def _class(self, cls: type, path: str) -> None:
        self._reached[id(cls)] = cls
        if cls in TYPES or is_vouched(cls) or cls in self._classes:
            return
        if class_is_library(cls):
            if not may_be_called(cls):
                raise _Refused(
                    f"`{path}` is the type {cls.__name__}, which is not known to be free of state "
                    "and effects; fix: vouch for it (adjoint.compiler.pure)",
                    path,
                )
            self._library_class(cls)
            return
        self._note_class(cls)
        self._fielded.append((cls, path))
        self._reach_fields(cls, path, _FIELDS & self._names)
        if type(cls) is not type:
            self._class(type(cls), path)
        for one in cls.__mro__:
            if not class_is_library(one):
                self._class_dict(one)
            elif one is not object:
                self._class(one, path)

    def _note_class(self, cls: type) -> None:
        self._classes[cls] = cls.__mro__
        self._untouched[cls] = Guards([_class_row(cls, _unknown)])

    def _library_class(self, cls: type) -> None:
        """What a class of a library has in it is known, but may be replaced."""
        if cls.__flags__ & IN_PYTHON:
            self._note_class(cls)
            for one in cls.__mro__:
                if id(one) not in self._of_dict:
                    space = _Space(vars(one), one.__name__, "library", one)
                    self._of_dict[id(one)] = space
                    self._spaces.append(space)
                    self._watch(space, self._names & space.before.keys())

    def _class_dict(self, cls: type) -> None:
        if id(cls) in self._of_dict:
            return
        space = self._of_dict[id(cls)] = _Space(vars(cls), cls.__name__, "class", cls)
        self._spaces.append(space)
        names = space.before.keys() & self._all_names
        special = {n for n, value in space.before.items() if n[:2] == "__" and _is_special(value)}
        self._watch(space, space.before if self._whole else names | special)
        self._class(cls, cls.__name__)

    def _tensor_class(self) -> None:
        """Programs add methods to `Tensor`, and replace those it has."""
        found = table_of_tensor()
        space = _Space(vars(Tensor), "Tensor", "class", Tensor, False, found.table, found.innocent)
        self._of_dict[id(Tensor)] = space
        self._spaces.append(space)
        self._note_class(Tensor)
        if len(found.innocent) < len(found.table):
            self._watch(space, found.table)

    # -- arguments ---------------------------------------------------------------------------------

    def _take(self, thing: Any, path: str) -> None:
        """Who compares arguments knows what is in them; but they must not be changed."""
        if isinstance(thing, Tensor):
            self._argument_tensors.append(thing)
            if getattr(thing, "__dict__", None):
                self._instance_dict(thing, path)
            if type(thing) is not Tensor:
                self._class(type(thing), path)
        elif _tree.is_structure(thing):
            if isinstance(thing, dict | list | deque):
                self._given += _content_rows(thing, path)
            elif not isinstance(thing, tuple):
                self._class(type(thing), path)
                table = _core._dict_of(thing)
                if table is not None:
                    self._spaces.append(_Space(table, path, "argument", thing))
                for name, value in extras(thing):
                    self._reach(value, f"{path}.{name}")
            for part in _tree.children(thing)[0]:
                self._take(part, path)
        else:
            self._reach(thing, path)

    # -- afterwards --------------------------------------------------------------------------------

    def _note(self, kind: Kind, holder: Any, value: Any, extra: Any, path: str) -> None:
        self._rows.append(Row(kind, holder, value, extra, False, path))

    def _ask(self, question: Callable[[], Any], path: str) -> None:
        """Note the answer to a question."""
        answer = question()

        def holds() -> bool:
            now = question()
            return now is answer or (type(now) is type(answer) and _equal(now, answer))

        self._note(Kind.ASK, question, holds, None, path)

    def _look_for_effects(self) -> None:
        for space in self._spaces:
            if space.kind in ("class", "library") or _steps_by_itself(space.holder):
                continue
            if space.kind in ("instance", "argument"):
                name = changed(space.before, space.now)
            else:
                now = {n: space.now.get(n, ABSENT) for n in space.watched}
                if isinstance(space.holder, dict) and _is_library_table(space.holder):
                    space.watched = now  # lazy imports
                name = changed(space.watched, now)
            if name is not None:
                whole = f"{space.path}.{name}" if space.path else name
                raise _Refused(f"`{whole}` is changed, which a replay would not repeat", whole)
        for cls, differs in self._class_checks():
            what = None if self._untouched[cls].hold() else differs()
            if what is not None:
                raise _Refused(f"{what} is changed, which a replay would not repeat", what)
        for rows in (self._rows, self._given):
            row = Guards(rows).broken()
            if row is not None:
                path = row.path if row.path[:4] == "the " else f"{row.path}"
                raise _Refused(f"{path} is changed, which a replay would not repeat", path)

    def _take_back(self) -> None:
        """Undo what the pass on placeholders has changed, as far as it can be seen."""
        for space in self._spaces:
            was = space.before if space.kind in ("instance", "argument") else space.watched
            for name in was.keys() | (space.now.keys() if was is space.before else ()):
                before, now = was.get(name, ABSENT), space.now.get(name, ABSENT)
                if before is not now and isinstance(space.now, dict):
                    space.now.pop(name, None)
                    if before is not ABSENT:
                        space.now[name] = before
                elif before is not now:
                    _set_attribute(space.holder, name, before)
        for row in (*self._rows, *self._given):
            if Guards([row]).broken() is not None:
                _restore(row)

    def guards(self) -> Guards:
        """Everything that the call depended on and could be another time, ready to be compared."""
        for state, path in self._stepping:  # as it is now: its changes are repeated
            self._reach(state, path)
        self._go_on()
        rows, everywhere = list(self._rows), frozenset(self._all_names)
        users = frozenset(self._names)
        for space in self._spaces:
            whole = (self._whole or space.whole) and space.kind == "instance"
            if space.kind == "instance":
                absent = everywhere if space.adjoints else users
                rows += _object_rows(space.holder, space.now, space.path)
            else:
                absent = None
            if space.kind in ("instance", "globals"):
                row = Row(Kind.NAMES, space.now, space.watched, absent, whole, space.path)
                rows.append(row)
        for cls, differs in self._class_checks():
            rows.append(_class_row(cls, differs))
        return self._with_tensors(rows, users)

    def _class_checks(self) -> Iterator[tuple[type, Callable[[], str | None]]]:
        """Each class, and a function that says what differs in it."""
        names = frozenset(self._all_names)
        shapes = {id(s.holder): s for s in self._spaces if s.kind in ("class", "library")}
        for cls, order in self._classes.items():
            spaces = [shapes[id(one)] for one in order if id(one) in shapes]
            yield cls, functools.partial(_difference, cls, order, spaces, names, self._whole)

    def _with_tensors(self, rows: list[Row], users: frozenset[str]) -> Guards:
        state = sorted(_STATE & self._names)
        found = list(self._tensors)
        for tensor in self._argument_tensors:
            own = getattr(tensor, "__dict__", None) or {}
            if self._pinned or not users.isdisjoint(own) or (own and "__dict__" in users):
                found.append(tensor)
        if state:
            for tensor in self._tensors:
                was = _texture(tensor, state)
                rows.append(
                    Row(
                        Kind.ASK,
                        tensor,
                        functools.partial(_has_texture, tensor, state, was),
                        None,
                        False,
                        "what is asked of a tensor",
                    )
                )
        textures = [_texture(tensor, state) for tensor in self._argument_tensors]
        check = functools.partial(_have_textures, state, textures) if state else None
        later = None if self._later is None else self._later.guards()
        steps = [space.holder for space in self._spaces if _steps_by_itself(space.holder)]
        return Guards(rows, users, found, check, steps, later, Guards(self._memory))


_VISITS: dict[type, Callable[[Walk, Any, str], None]] = {
    FunctionType: Walk._function,
    types.MethodType: Walk._method,
    types.BuiltinFunctionType: Walk._builtin,
    types.MethodWrapperType: Walk._builtin,
    property: Walk._property,
    staticmethod: Walk._wrapped,
    classmethod: Walk._wrapped,
    operator.attrgetter: Walk._getter,
    operator.methodcaller: Walk._getter,
    ContextVar: Walk._variable,
    **dict.fromkeys(LOCKS, Walk._lock),
    types.CellType: Walk._cell_itself,
    type(ad.zeros): Walk._judge,
    **dict.fromkeys(_VIEWS, Walk._view),
    **dict.fromkeys(GENERIC, Walk._generic),
    **dict.fromkeys(_BYTES, Walk._bytes),
    **dict.fromkeys(_CONTAINERS, Walk._container),
    **dict.fromkeys(_CONSTANT, lambda walk, value, path: None),
}


# -- content ---------------------------------------------------------------------------------------


def _parts(value: Any) -> tuple[Any, ...]:
    """What is in a container, whatever a subclass says about it."""
    if isinstance(value, dict):
        return (*dict.keys(value), *dict.values(value))
    base = next(cls for cls in _CONTAINERS if isinstance(value, cls))
    return tuple(base.__iter__(value))


def _content_rows(value: Any, path: str) -> list[Row]:
    """What says that a container has the same in it; nothing for one that cannot change."""
    name = f"the content of `{path}`"
    if isinstance(value, list):
        return [Row(Kind.LIST, value, _parts(value), None, False, name)]
    if isinstance(value, dict):
        rows = [Row(Kind.DICT, value, _parts(value), None, False, name)]
        if (
            isinstance(value, OrderedDict) and dict.__len__(value) > 1
        ):  # which keeps its order apart
            order = tuple(OrderedDict.__iter__(value))
            rows.append(Row(Kind.ORDER, value, order, OrderedDict, False, name))
        return rows
    if isinstance(value, set | deque):
        base = set if isinstance(value, set) else deque
        return [Row(Kind.ORDER, value, _parts(value), base, False, name)]
    return []


def _set_attribute(thing: Any, name: str, value: Any) -> None:
    if value is ABSENT:
        delattr(thing, name)
    else:
        setattr(thing, name, value)


def _restore(row: Row) -> None:
    """Make a container, or a cell, what it was."""
    holder, value = row.holder, row.value
    if row.kind is Kind.LIST:
        list.__setitem__(holder, slice(None), value)
    elif row.kind is Kind.DICT:
        half = len(value) // 2
        dict.clear(holder)
        dict.update(holder, zip(value[:half], value[half:], strict=True))
    elif row.kind is Kind.ORDER and row.extra in (set, deque):
        row.extra.clear(holder)
        (set.update if row.extra is set else deque.extend)(holder, value)
    elif row.kind is Kind.PLACE and row.extra is Place.CELL and value is not ABSENT:
        holder.cell_contents = value
    elif row.kind is Kind.PLACE and isinstance(row.extra, types.MemberDescriptorType):
        _set_attribute(holder, row.extra.__name__, value)


def _parts_of_error(value: BaseException) -> tuple[Any, ...]:
    stays = value.__traceback__, value.__suppress_context__
    return value.args, value.__cause__, value.__context__, *stays


def _parts_of_partial(value: functools.partial[Any]) -> tuple[Any, ...]:
    return value.func, value.args, value.keywords


def _object_rows(thing: Any, table: dict[str, Any], path: str) -> list[Row]:
    """An object is of its class, and its attributes are in that dict."""
    rows = [Row(Kind.PLACE, thing, table, Place.DICT, False, f"`{path}.__dict__`")]
    if type(thing) is not FunctionType:
        rows.append(
            Row(Kind.PLACE, thing, type(thing), Place.TYPE, False, f"the class of `{path}`")
        )
    return rows


def _content(value: Any) -> list[Any]:
    if _is_array(value):
        plain = sys.modules["numpy"].ndarray.view(value, sys.modules["numpy"].ndarray)
        return [plain.shape, plain.strides, plain.dtype, plain.flags.num, plain.tobytes()]
    view = memoryview(value)
    return [view.format, view.shape, view.readonly, view.tobytes()]


def _equal(a: Any, b: Any) -> bool:
    """Whether two answers are the same: lists of plain data, tuples of objects, values."""
    if type(a) is list:
        return bool(a == b)
    if type(a) is tuple:
        return len(a) == len(b) and all(map(operator.is_, a, b))
    return same(a, b)


# -- classes ---------------------------------------------------------------------------------------


def _is_special(value: Any) -> bool:
    """Whether a class attribute is what Python looks for by itself, rather than a note."""
    return value is None or type(value) in _VISITS or hasattr(type(value), "__get__")


# What Python itself puts into classes, when it is asked for something.
_CACHES = frozenset(("__slotnames__", "__annotations_cache__", "_abc_impl"))


def _difference(
    cls: type, order: tuple[type, ...], spaces: list[_Space], names: frozenset[str], whole: bool
) -> str | None:
    """What differs in a class, the slow way: another attribute of it may have changed."""
    if cls.__mro__ != order:
        return f"what the class {cls.__name__} inherits from"
    for space in spaces:
        for name in space.before.keys() | space.now.keys():
            before, now = space.before.get(name, ABSENT), space.now.get(name, ABSENT)
            if before is now or name in _CACHES or (before is ABSENT and _is_empty(name, now)):
                continue
            special = name[:2] == "__" and (_is_special(before) or _is_special(now))
            if not (whole or special or name in names or name in space.watched):
                continue
            if not same(before, now):
                return f"`{space.path}.{name}`"
    return None


def _is_empty(name: str, value: Any) -> bool:
    return name == "__annotations__" and value == {}  # Python makes it when it is asked for


def _unknown() -> str:
    return "something"


def _class_row(cls: type, differs: Callable[[], str | None]) -> Row:
    """That nothing differs in a class; what does is asked if it was touched at all."""
    alike = functools.partial(_is_none, differs)
    return Row(Kind.CLASS, cls, alike, differs, False, f"the class {cls.__name__}")


def _is_none(question: Callable[[], object]) -> bool:
    return question() is None


def _is_adjoints(cls: Any) -> bool:
    return any(one.__module__.partition(".")[0] == "adjoint" for one in cls.__mro__)


def _is_foreign(cls: type) -> bool:
    """Whether objects of a class of adjoint are called again in each replay, or are the core's."""
    if cls.__module__.partition(".")[0] != "adjoint":
        return False
    return cls.__module__.startswith("adjoint.external") or not cls.__flags__ & (1 << 9)


def _steps_by_itself(thing: Any) -> bool:
    """Whether this is an optimiser or a scheduler: what it does a replay repeats."""
    optim = sys.modules.get("adjoint.optim")
    if optim is None or not _is_adjoints(type(thing)):
        return False
    return isinstance(thing, optim.Optimizer | optim.lr_scheduler.LRScheduler)


def _is_logger(thing: Any) -> bool:
    logging = sys.modules.get("logging")
    return logging is not None and isinstance(thing, logging.Logger)


def _reads_stepper(table: dict[str, Any], found: Names) -> bool:
    """Whether code of an optimiser runs now, rather than in each replay."""
    module = table.get("__name__", "")
    return module.startswith("adjoint.optim.") and "_is_recording" not in found.attributes


def _is_library_table(table: dict[str, Any]) -> bool:
    module = sys.modules.get(table.get("__name__", ""))
    return module is not None and vars(module) is table and module_is_library(module)


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


# -- tensors ---------------------------------------------------------------------------------------


def _texture(tensor: Tensor, names: Iterable[str]) -> list[Any]:
    """What Python can read of a tensor besides its numbers."""
    told: list[Any] = []
    for name in names:
        value = getattr(tensor, name, None)
        if callable(value) and not isinstance(value, Tensor) and name != "grad_fn":
            value = value()
        if name == "grad_fn":
            value = value is None
        elif name == "_backward_hooks":
            value = value and list(value.values())
        told.append(id(value) if isinstance(value, Tensor) else value)
    return told


def _has_texture(tensor: Tensor, names: Iterable[str], was: list[Any]) -> bool:
    return _texture(tensor, names) == was


def _have_textures(names: Iterable[str], were: list[Any], tensors: list[Tensor]) -> bool:
    return [_texture(tensor, names) for tensor in tensors] == were


def _parameters(function: Any, count: int) -> list[str]:
    """What a function calls its arguments."""
    bound = type(function) is types.MethodType
    code = getattr(function.__func__ if bound else function, "__code__", None)
    names = list(code.co_varnames[bound : code.co_argcount]) if code is not None else []
    return names[:count] + [f"argument {k}" for k in range(len(names), count)]


def _defaults(function: FunctionType) -> list[tuple[str, Any]]:
    """The parameters of a function that have default values, and these."""
    given = function.__defaults__ or ()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    found = [*zip(names[len(names) - len(given) :], given, strict=True)]
    return [*found, *(function.__kwdefaults__ or {}).items()]


# -- frames ----------------------------------------------------------------------------------------


def _user_line(frame: FrameType) -> str:
    """The line of the user's code that leads to a frame."""
    at: FrameType | None = frame
    while at is not None and is_library(at.f_code.co_filename):
        at = at.f_back
    return "" if at is None else place_of(at.f_code, at.f_lineno)


def guard(thing: Any, question: Callable[[Any], Any]) -> None:
    """Guard the answer to a question about something, which no single place stands for.

    Parameters
    ----------
    thing : object
        What is asked about.
    question : callable
        Gets it, and gives what is compared by ``==``; its name is what people are told.
    """
    walk: Walk | None = getattr(_thread, "walk", None)
    if walk is not None:
        name = question.__name__.strip("_").replace("_", " ")
        walk._ask(lambda: [question(thing)], name)
