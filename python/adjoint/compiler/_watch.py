"""`Watch`: sees what one run of a function reads of the program around it, and what it changes.

While the watch is on, every instruction of the user's frames that reads or stores a global, a
closure cell, an attribute or an item, or that calls something, is looked at just before it runs,
with the very objects it is about to use (`_instructions` says which, `_operands` gets the objects).
Reads become guards; what a replay would not repeat becomes a refusal.

What is seen: user code, whatever calls it (layers, hooks, `map`, properties, generators,
decorators), and the layers and optimisers of adjoint. What is not: the inside of the standard
library, NumPy, SciPy and the rest of adjoint. Calls into those are judged by name (`_effects`); a
plain object that is handed to them is guarded as a whole; a built-in container is guarded as
a whole where it is first read. Not seen at all: what C code reads of objects that it gets inside of
others, special methods (`__add__`) that are exchanged in a class, and files and clocks that
libraries read without user code asking for it.

Stores into tensors are no business of the watch: the recording sees them. Read next: `_steps`,
`_findings`, `_guards`.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType, MethodType, TracebackType
from typing import Any

from adjoint import _core
from adjoint.compiler import _operands
from adjoint.compiler._calls import Calls
from adjoint.compiler._findings import Findings, Refusal
from adjoint.compiler._flow import flow
from adjoint.compiler._guards import Guards
from adjoint.compiler._instructions import steps
from adjoint.compiler._libraries import is_import, is_own, is_watched, module_call
from adjoint.compiler._lookups import Place
from adjoint.compiler._steps import Steps, where
from adjoint.nn.parameter import Parameter

__all__ = ["Refusal", "Watch", "guard"]


_ENTERED, _MUTING = 1, 2  # what the core does with frames that are not followed
_BY_THREAD = sys.version_info < (3, 12)  # a thread is told of its instructions whatever others do
_UNSEEN = "some of it ran unseen, while another thread ran the same code or set a trace function"


_thread = threading.local()  # its `watch` is the one that is on: each thread has one at a time


class _Cancelled(BaseException):
    pass


def _deliver_cancelled() -> None:
    """Let an asynchronous exception arrive, so that none that was cancelled is waited for.

    CPython 3.11 goes on to look for one that anybody cancelled (by PyThreadState_SetAsyncExc with
    NULL, as libraries for time limits do) until another arrives; a traced function would wait for
    it at its first instruction for ever.
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

    Attributes
    ----------
    lost : bool
        Whether another thread kept the watch from seeing everything, which is a refusal that need
        not come again.

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
        self.lost = False
        self._findings = Findings()
        self._steps = Steps(self._findings)
        self._calls = Calls(self._steps)
        self._bound = _bound(function)
        self._started = arguments is not None
        if arguments is not None:
            self._steps.take_arguments(arguments)

    @property
    def refusals(self) -> list[Refusal]:
        """Why the run cannot be replayed: empty if it can."""
        return self._findings.refusals

    def settle(self) -> None:
        """Decide about what was seen so far: `refusals` is complete until now."""
        self._findings.settle()

    def guards(self) -> Guards:
        """Everything that was read and could be another time, ready to be compared."""
        return Guards(self._findings.guards)

    # -- on and off ------------------------------------------------------------------------------

    def __enter__(self) -> Watch:
        if not _operands.KNOWN:
            version = ".".join(map(str, sys.version_info[:2]))
            reason = f"what a function reads cannot be watched in Python {version}"
            self.refusals.append(Refusal(reason, ""))
            return self
        for one in self._bound:
            if isinstance(one, functools.partial):
                self._calls.partial_called(one, None)
        _deliver_cancelled()
        self._outer = sys.gettrace()
        array = getattr(sys.modules.get("numpy"), "ndarray", None)
        _core._watch_start(self._describe, self._entered, self._failed, Parameter, array)
        _thread.watch = self
        self._collecting = gc.isenabled()
        gc.disable()
        before = _core._watch_pause(True)  # collections call functions of other libraries
        gc.collect(0)
        _core._watch_pause(before)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not _operands.KNOWN:
            return
        _thread.watch = None
        self.lost = _core._watch_lost()
        if self.lost:
            self._findings.refuse(_UNSEEN, None)
        if not _core._watch_stop():
            self._findings.refuse("a trace function is set, and what follows is not seen", None)
        sys.settrace(self._outer)
        try:
            self._findings.settle()
        finally:
            if self._collecting:
                gc.enable()
        self._findings.drop_changed()
        self._findings.forget()

    # -- what the core asks for ------------------------------------------------------------------

    def _describe(self, code: CodeType) -> list[Any] | tuple[list[Any], list[Any]] | int | None:
        """What is to be done with frames of this code: the steps, if they are followed."""
        if is_watched(code):
            found = [
                (*one, self._method(name), argument)
                for *one, name, argument in steps(code, is_own(code))
            ]
            return found if _BY_THREAD else (found, flow(code))
        if code is module_call or not self._started:
            return _ENTERED
        # An import makes a module that was not there; what happens meanwhile is not the user's.
        return _MUTING if is_import(code) else None

    def _method(self, name: str) -> Callable[..., None]:
        method: Callable[..., None] = getattr(
            self._calls if name.startswith("called") else self._steps, name
        )
        return method

    def _entered(self, frame: FrameType) -> None:
        if not self._started:
            self._started = True
            self._steps.take_arguments(_variables(frame), but=self._bound)
        if frame.f_code is module_call:
            self._steps.module_called(frame)
        elif is_watched(frame.f_code):
            self._steps.function_entered(frame)

    def _failed(self, frame: FrameType, error: Exception) -> None:
        """A mistake in a step must not look like one of the user's program."""
        self._findings.refuse(f"{{}} could not be watched ({error!r})", where(frame))


def guard(thing: Any, question: Callable[[Any], Any]) -> None:
    """Guard the answer to a question about something, which no single place stands for.

    Parameters
    ----------
    thing : object
        What is asked about.
    question : callable
        Gets it, and gives what is compared by ``==``; its name is what people are told.
    """
    watch: Watch | None = getattr(_thread, "watch", None)
    if watch is not None:
        watch._findings.read(Place("told", thing, question, question(thing), thing), None)


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
