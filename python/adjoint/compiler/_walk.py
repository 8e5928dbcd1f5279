"""`Walk`: what one call of a function depends on, and what it has changed.

No instruction is followed. The interpreter tells which code objects start, and which C functions
they call (src/bindings/program/walk.cpp). A code object can ask for nothing but the names in its
bytecode (`_names`), so when one starts, everything that these names lead to from what is known
already is *reached*, and noted as it is then. After the call the notes are compared once: a
difference is an effect, which refuses the call. Otherwise they are the guards.

The roots are the function, its arguments and the globals of the code that ran. From there it goes
on to cells and defaults of functions that ran, to attributes that any code that ran has a name for
(that they are absent counts too), to all that is in containers, and to classes. An object whose
state cannot be seen, and a C function that is not known to be pure (`_pure`), refuse the call.

Nothing is walked from the variables of frames: what the call has made itself cannot be state, and
what it got from elsewhere is reached by the names that led there. No object is asked through its
own methods.

The subjects are layers: `Notes` compares what was found, `Namespaces` follows names, `Visits` the
content of objects, and `Walk`, here, what runs. Read next: `_visits`.
"""

from __future__ import annotations

import abc
import ctypes
import enum
import gc
import re
import sys
import threading
import types
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from adjoint import Tensor, _core, _tree
from adjoint._recording import placeholder_pass

from ._call_kinds import extras
from ._contents import CONTAINERS, content_rows, parts
from ._guards import ABSENT, is_value
from ._names import ASKING, Names, line_of, names_of, place_of
from ._namespace_snapshot import Space
from ._pure import OWN_STATE, is_vouched, methods_of
from ._refusals import Refusal, Stopped, Unguardable, user_line
from ._visible import FOLLOWED, OWN, READS_ALL, assigned, is_library, reads_stepper, trust
from ._visits import Visits

__all__ = ["Walk", "current_walk", "guard"]


class How(enum.IntEnum):
    """What is done with code: the order of `How` in src/bindings/program/walk.cpp."""

    IGNORED = 0
    FOLLOWED = 1
    MUTING = 2
    ASK_AGAIN = 3


class _Cancelled(BaseException):
    pass


def _deliver_cancelled() -> None:
    """Let an asynchronous exception arrive, so that none that was cancelled is waited for.

    CPython 3.11 goes on to look for one that anybody cancelled (by PyThreadState_SetAsyncExc with
    NULL, as libraries for time limits do) until another arrives; a profiled function would wait
    for it forever.
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


class Walk(Visits):
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
        super().__init__()
        self.refusals: list[Refusal] = []
        self._callee, self._arguments = function, arguments
        self._nested: set[CodeType] = set()
        self._copies: set[CodeType] = set()  # of parts of code that has run
        self._starting: CodeType | None = getattr(function, "__code__", None)
        self._frame: FrameType | None = None  # of that code
        self._begun_in: FrameType | None = None
        self._collecting: tuple[int, int, int] | None = None  # how the collector was set
        self._later: Walk | None = None
        self._code_modules: dict[CodeType, str] = {}  # of code that has started
        self.is_over = False  # the call that it watched
        self.may_run_again = False  # that call, with loops recorded as they are
        self._is_settled = False  # what follows is the backward pass on placeholders
        self._is_quiet = False  # and nothing has run since

    # -- on and off --------------------------------------------------------------------------------

    def __enter__(self) -> Walk:
        self._guarded(self._begin)
        _deliver_cancelled()
        if current_walk() is not None:
            raise RuntimeError("a function is being recorded already")
        self._begun_in = sys._getframe(1)
        try:  # an exception of a signal may come behind each call of C
            _core._walk_start(self._started, self._called)
            _thread.walk = self
            self._collecting = gc.get_threshold()
            gc.set_threshold(0)  # collections call functions of other libraries
        except BaseException:
            self._abandon()
            raise
        return self

    def _abandon(self) -> None:
        """End the watch whose call is over."""
        _core._walk_stop()
        _thread.walk = self._begun_in = None
        self._collect_again()

    def _is_left(self) -> bool:
        """Whether what began it has gone: the exception of a signal came where it was to end."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame is not self._begun_in:
            frame = frame.f_back
        return frame is None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.is_over = True
        if not _core._walk_stop():
            self._refuse("a profile function was set, and what followed was not seen", "")
        _thread.walk = self._begun_in = None
        try:
            self.settle()
        finally:
            self._collect_again()

    def settle(self) -> None:
        """Look for effects: `refusals` is complete until now."""
        if self._is_settled and self._is_quiet:
            return
        before = _core._walk_pause(True)
        if not self.refusals:
            self._guarded(self._look_for_effects)
        if self.refusals and self._is_settled:
            self._take_back()
        self._is_settled, self._is_quiet = not self.refusals, True
        _core._walk_anew()
        _core._walk_pause(before)

    def has_effects(self) -> bool:
        """Whether the call has been refused, or has changed something, until now."""
        before = _core._walk_pause(True)
        if not self.refusals:
            self._guarded(self._look_for_effects)
        _core._walk_pause(before)
        return bool(self.refusals)

    def makes(self, code: CodeType) -> None:
        """Take functions of this code as made by the call: what is in them it had already."""
        self._nested.add(code)

    def takes_for(self, copy: CodeType, code: CodeType) -> None:
        """Code that is a part of other code, which has run, tells nothing new when it starts."""
        self._codes[copy] = self._codes.get(code, FOLLOWED)
        self._copies.add(copy)

    def of_variables(self, function: Any, values: list[Any]) -> Walk:
        """What code that has run reaches by these values besides, as it is now.

        Its `has_effects` tells later whether that has been changed.
        """
        found = Walk(function, (tuple(values), {}))
        found._all_names, found._names = set(self._all_names), set(self._names)
        found._whole, found._codes = self._whole, dict(self._codes)
        found._guarded(found._begin)
        found._is_quiet = False
        return found

    def names(self) -> set[str]:
        """The names of attributes that code which has run asks for, but for adjoint's own."""
        return self._names

    def tensors(self) -> list[Tensor]:
        """The tensors that were reached."""
        return [*self._tensors, *self._argument_tensors]

    def ran(self) -> list[tuple[CodeType, str, str]]:
        """The code that has run, how it is treated, and its module."""
        ran = [(code, how) for code, how in self._codes.items() if code not in self._copies]
        return [(code, how, self._code_modules.get(code, "")) for code, how in ran]

    def knows(self, thing: Any) -> bool:
        """Whether an object was there before the call, as far as the call could reach it."""
        return self._reached.get(id(thing), ABSENT) is thing or any(
            row.holder is thing for row in self._given
        )

    def _guarded(self, step: Callable[..., Any], *args: Any) -> None:
        try:
            step(*args)
        except Unguardable as refused:
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
            return user_line(self._frame)
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

    def _take(self, thing: Any, path: str) -> None:
        """Who compares arguments knows what is in them; but they must not be changed."""
        if isinstance(thing, Tensor):
            self._argument_tensors.append(thing)
            if _core._dict_of(thing):
                self._instance_dict(thing, path)
            if type(thing) is not Tensor:
                self._class(type(thing), path)
        elif _tree.is_structure(thing):
            if isinstance(thing, dict | list | deque):
                self._given += content_rows(thing, path)
            elif not isinstance(thing, tuple):
                self._class(type(thing), path)
                table = _core._dict_of(thing)
                if table is not None:
                    self._spaces.append(Space(table, path, "argument", thing))
                for name, value in extras(thing):
                    self._reach(value, f"{path}.{name}")
            for part in _tree.children(thing)[0]:
                self._take(part, path)
        else:
            self._reach(thing, path)

    # -- what the interpreter tells ----------------------------------------------------------------

    def _started(self, code: CodeType, frame: FrameType) -> int:
        """A code object is about to run for the first time."""
        self._is_quiet = False
        if self.refusals:
            return How.IGNORED
        filename, caller = code.co_filename, frame.f_back
        by = self._codes.get(caller.f_code, OWN) if caller is not None else OWN
        if filename.startswith("<frozen importlib"):
            if code.co_name == "_gcd_import" and by is FOLLOWED:
                self._refuse("a module is imported by a computed name", user_line(frame))
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
        self._code_modules[code] = frame.f_globals.get("__name__", "")
        state = OWN_STATE & {code.co_name, code.co_qualname.partition(".")[0]}
        if how is OWN and state and by is not OWN:
            reason = f"`adjoint.{min(state)}()` reads or sets a state of the process"
            self._refuse(reason, user_line(frame))
        else:
            self._frame = frame
            self._guarded(self._enter, code, frame, how)
            self._frame = None
        return How.FOLLOWED if how is FOLLOWED else How.IGNORED

    def _called(self, function: Any, frame: FrameType) -> None:
        """Code that is followed calls a C function."""
        self._is_quiet = False
        if not self.refusals:
            self._starting = frame.f_code
            if function is globals and names_of(frame.f_code).plain_globals:
                return
            try:
                self._judge(function, "")
            except Unguardable as refused:
                self._refuse(refused.reason, user_line(frame))
                if placeholder_pass.get():  # which eager execution would not have made
                    raise Stopped from None

    def _enter(self, code: CodeType, frame: FrameType, how: str) -> None:
        """Reach what the names of a code object lead to."""
        if how is OWN and f"{__package__}." in frame.f_globals.get("__name__", ""):
            return
        found = names_of(code)
        if code.co_name == "__instancecheck__" and how is not OWN:
            self._ask(abc.get_cache_token, "what is registered with abstract classes")
        adjoints = how is OWN and not reads_stepper(frame.f_globals, found.attributes)
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
            self._follow_own_globals(frame.f_globals, found)
        self._go_on()

    def _find_function(self, code: CodeType, frame: FrameType) -> None:
        """Reach a function that C code has found by a name of its own."""
        if code in self._waiting or code in self._nested or "<module>" in code.co_name:
            return
        function = _core._frame_function(frame)
        if type(function) is FunctionType and function.__code__ is code:
            self._reach(function, code.co_name)
            self._go_on()

    def _follow_own_globals(self, table: dict[str, Any], found: Names) -> None:
        """Note globals of adjoint that it assigns to itself, and reach its tables of hooks."""
        module = table.get("__name__", "")
        for chain in found.chains:
            if chain.name in assigned(module):
                space = self._space_of(table, module)
                space.watched.setdefault(chain.name, space.before.get(chain.name, ABSENT))
        if f"{module}.".startswith(("adjoint.nn.modules.", "adjoint.optim.")):
            for chain in found.chains:
                held = table.get(chain.name)
                if type(held) in (dict, OrderedDict, list):
                    self._reach(held, chain.name)

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
            inside = parts(value) if isinstance(value, CONTAINERS) else ()
            for part in (*inside, *(_core._dict_of(value) or {}).values()):
                self._hand_over(part, path, later, depth - 1)

    # -- globals -----------------------------------------------------------------------------------

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

    def _follow_imports(self, imports: Iterable[str]) -> None:
        for name in imports:
            if name in sys.modules:
                loaded = self._space_of(sys.modules, "sys.modules")
                for one in {name.partition(".")[0], name}:
                    loaded.watched[one] = loaded.before.get(one, ABSENT)
                    self._module(sys.modules[one], one)
            elif name:
                raise Unguardable(f"the module `{name}` is imported in the call", name)


def _parameters(function: Any, count: int) -> list[str]:
    """What a function calls its arguments."""
    bound = type(function) is types.MethodType
    code = getattr(function.__func__ if bound else function, "__code__", None)
    names = list(code.co_varnames[bound : code.co_argcount]) if code is not None else []
    return names[:count] + [f"argument {k}" for k in range(len(names), count)]


def current_walk() -> Walk | None:
    """The walk that is on in this thread."""
    walk: Walk | None = getattr(_thread, "walk", None)
    if walk is not None and walk._is_left():
        walk._abandon()
        return None
    return walk


def guard(thing: Any, question: Callable[[Any], Any]) -> None:
    """Guard the answer to a question about something, which no single place stands for.

    Parameters
    ----------
    thing : object
        What is asked about.
    question : callable
        Gets it, and gives what is compared by ``==``; its name is what people are told.
    """
    walk = current_walk()
    if walk is not None:
        name = question.__name__.strip("_").replace("_", " ")
        walk._ask(lambda: [question(thing)], name)
