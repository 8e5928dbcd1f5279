"""`compile`: which calls are recorded, which are replayed, and what is said of the others.

Calls are sorted by kind: how the arguments are nested, what is not a tensor among them, whether
gradients are recorded. Of each kind there are a few recordings, which differ in the shapes, dtypes
and memory order of tensors and in the Python values that were found (`_guards`); a call takes the
first that fits. Read next: _recorded.py.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from adjoint import _core, _tree
from adjoint._autocast import in_modes
from adjoint._core import Tensor, default_generator
from adjoint._recording import checkpointed

from ._call_kinds import LIMIT, OBJECTS, key_of, outline, relatives, what_changes
from ._checkpointed import call_checkpointed, is_innermost
from ._controls import compiled
from ._first_call import FirstCall
from ._names import code_of, place_of
from ._recorded import Recorded, Refused
from ._verify import verified
from ._walk import Walk, current_walk

__all__ = ["CompileError", "CompileWarning", "Compiled", "compile"]

_TENSOR_ONLY = {Tensor}
_FLAT = {Tensor, bool, int, float, str}
_PACKAGE = os.path.dirname(_tree.__file__)


class _Thread(threading.local):
    records = False  # a recording is under way


_thread = _Thread()


class CompileWarning(UserWarning):
    """A compiled function runs eagerly, for the reason that is given.

    Told once for each kind of call. ``fullgraph=True`` makes an error of it.
    """


class CompileError(RuntimeError):
    """A function that was compiled with ``fullgraph=True`` would run eagerly.

    The message gives the reason, the line, and what to do about it.
    """


class Programs(list[Recorded]):
    """The programs of a compiled function; a notebook shows a listing of each."""

    def _repr_html_(self) -> str:
        from adjoint.notebook import programs_html

        return programs_html(self)


class _StateAsked(Exception):
    """A loop became a scan, and then a gradient by one of its states was asked for."""

    def __init__(self, error: RuntimeError) -> None:
        super().__init__()
        self.error = error


def _run(function: Callable[..., Any], arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    """Call a function, and see that it was told no gradient that the graph has only a part of."""
    _core._state_of_loop_was_asked()
    try:
        result = function(*arguments[0], **arguments[1])
    except RuntimeError as error:
        if _core._state_of_loop_was_asked():
            raise _StateAsked(error) from None
        raise
    if _core._state_of_loop_was_asked():  # and it goes on without
        raise _StateAsked(RuntimeError("a gradient by a state of a loop was asked for"))
    return result


def _has_taken_back(recording: Any, tensors: list[Tensor], numbers: Tensor) -> bool:
    """Whether a call may run again, which has left nothing behind but numbers that it has drawn.

    These are drawn once more, from the generator as it was before.
    """
    if recording.refused() is not None:
        return False
    program = recording.program(0, recording.size(), tensors, [])
    if program.changes() or program.generators():
        return False
    if program.draws():
        default_generator.set_state(numbers)
    return True


def _leave_loops() -> None:
    """What is recorded repeats itself, and that is fine."""


def _look_at_loops() -> None:
    """What is recorded repeats itself."""
    paused = _core._walk_pause(True)
    try:
        from adjoint._for_loops import look  # which makes scans, that are over this module

        look()
    finally:
        _core._walk_pause(paused)


class Compiled(_core._CompiledCall):
    """What `compile` makes of a function: called like it, and giving the same.

    Attributes
    ----------
    function : callable
        The function itself.
    programs : list
        The recordings there are; ``print`` shows what one computes.

    Examples
    --------
    >>> import adjoint as ad
    >>> square = ad.compile(lambda x: x * x)
    >>> square(ad.tensor([1.0, 2.0])), square(ad.tensor([3.0]))
    (tensor([1., 4.]), tensor([9.]))
    >>> len(square.programs)
    2
    """

    def __init__(
        self,
        function: Callable[..., Any],
        fullgraph: bool = False,
        verify: bool | None = None,
        quiet: bool = False,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self.fullgraph = fullgraph
        self._makes_scans = True  # of loops that repeat themselves
        self._quiet = quiet  # where a user did not ask for programs
        self.verify = _is_verified_by_default() if verify is None else verify
        self._kinds: dict[Any, list[Recorded]] = {}
        self._eager: dict[Any, str] = {}  # kinds that run eagerly, and why
        self._again: dict[Any, str] = {}  # kinds that were refused once
        self._relatives: dict[Any, dict[Any, None]] = {}  # families of kinds
        self._loaded: Any = None  # recordings of a file that wait for their arguments
        self._recording = threading.Lock()
        compiled.add(self)

    def _by_kind(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, by a program where there is one: what the core does not know of."""
        if _core._is_unusual_mode():
            calls = checkpointed.get()
            if calls is not None and is_innermost(calls):
                return call_checkpointed(self, calls, args, kwargs)
            return self.function(*args, **kwargs)
        kind, tensors, containers = self._sort(args, kwargs)
        one = self._fitting(kind, tensors, containers)
        if one is not None:
            if self.verify:
                run = functools.partial(self.function, *args, **kwargs)
                result, error = verified(one, self.function, run, tensors)
                if error is not None:
                    self._give_up(kind, error)
                return result
            if one.may_be_remembered and len(kind) == 2:
                self._remember(kind[1], one, *one.for_the_core())
            try:
                return one(tensors)
            except Exception as error:
                if not one.program.is_pure():
                    raise
                return self._after_error(kind, error, args, kwargs)
        if kind in self._eager:
            if self.fullgraph:
                raise CompileError(self._eager[kind])
            return self.function(*args, **kwargs)
        if self._loaded is not None and self._loaded.bind(self, kind, (args, kwargs), tensors):
            return self._by_kind(*args, **kwargs)
        return self._record(kind, (args, kwargs), tensors, containers)

    def _fitting(self, kind: Any, tensors: list[Tensor], containers: list[Any]) -> Recorded | None:
        """The first recording that can stand for a call."""
        for one in self._kinds.get(kind, ()):
            if one.accepts(tensors) and one.hold(tensors) and one.knows(containers):
                return one
        return None

    @staticmethod
    def _sort(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, list[Tensor], list[Any]]:
        """The kind of a call, its tensors, and the containers among its arguments."""
        mode = _core._call_mode()
        types = set(map(type, args))
        containers: list[Any] = []
        if types <= _TENSOR_ONLY and not kwargs:  # as most calls are
            tensors: list[Tensor] = list(args)
            kind: Any = (len(args), mode)
        elif types <= _FLAT and not kwargs:
            tensors = [arg for arg in args if type(arg) is Tensor]
            values = tuple(None if type(arg) is Tensor else key_of(arg) for arg in args)
            kind = (len(args), mode, values)
        else:
            leaves, spec = _tree.flatten((args, kwargs))
            tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
            values = tuple(None if isinstance(leaf, Tensor) else key_of(leaf) for leaf in leaves)
            facts, containers = outline((args, kwargs))
            kind = ((spec, facts), mode, values)
        return kind, tensors, containers

    def _after_error(
        self, kind: Any, error: Exception, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run the function where a replay raised: it raises too, with its own lines.

        If it does not (it catches the error), such calls run eagerly from now on.
        """
        result = self.function(*args, **kwargs)
        self._give_up(kind, error)
        return result

    def _give_up(self, kind: Any, error: Exception) -> None:
        self._kinds.pop(kind, None)
        self._forget_ways()
        for one in self.programs:
            one.may_be_remembered = one.is_plain
        first = str(error).partition("\n")[0]
        reason = f"a replay raised {type(error).__name__} where it does not: {first}"
        self._refuse(kind, Refused(reason, ""))

    def _record(  # a name that _for_loops/_takeover.py knows
        self,
        kind: Any,
        arguments: tuple[tuple[Any, ...], dict[str, Any]],
        tensors: list[Tensor],
        containers: list[Any],
    ) -> Any:
        """Run the function, and take down what it does."""
        function = self.function
        _core._when_repeating(_look_at_loops if self._makes_scans else _leave_loops)
        if not self._may_record(kind, tensors):
            return function(*arguments[0], **arguments[1])
        leaves, spec = _tree.flatten(arguments)
        modes = _core._autocast_modes()

        def rebuild(others: Sequence[Tensor]) -> Any:
            given = iter(others)
            args, kwargs = _tree.unflatten(
                spec, [next(given) if isinstance(x, Tensor) else x for x in shown]
            )
            with in_modes(modes):
                return function(*args, **kwargs)

        # Without the tensors of this call, which are none of the recording's business.
        stand_in = _core.empty(0)
        shown = [stand_in if isinstance(x, Tensor) else x for x in leaves]
        there = self._kinds.setdefault(kind, [])
        # Backward parts wait for backward passes; but if there was none so far, no longer.
        waits = not (self.fullgraph or self.verify or any(one.is_lost() for one in there))
        there[:] = [one for one in there if not one.is_lost()]
        # Inside another recording (which was refused, or calls an external), also that of a loop's
        # step, or another thread.
        inside = _thread.records or current_walk() is not None
        if inside or not self._recording.acquire(blocking=False):
            return function(*arguments[0], **arguments[1])
        try:
            _thread.records = True
            recording = _core._Recording(tensors)
            numbers = default_generator.get_state()
            with Walk(function, arguments) as walk:
                walk.may_run_again = self._makes_scans
                try:
                    recording.start()
                    result = _run(function, arguments)
                finally:
                    recording.stop()
                    # But for the backward pass, which runs what hooks and custom functions bring.
                    _core._walk_pause(True)
                first = _made(walk, recording, result, tensors, Recorded(rebuild), waits)
            if isinstance(first, FirstCall) and walk.refusals:
                first = Refused(*walk.refusals[0])
            if isinstance(first, FirstCall):
                made = first.made
                made.guard_by(walk.guards(), tensors, containers)
                made.codes, made.shown = walk.ran(), (spec, shown)
                there.append(made)
                if not made.is_ready():
                    return first.wait(result)
            else:
                # What a first call sets up (`if self.mask is None: ...`) a second one need not.
                again = bool(walk.refusals) and kind not in self._again
                self._refuse(kind, first, again=again)
            return result
        except _StateAsked as asked:
            if walk.refusals or not _has_taken_back(recording, tensors, numbers):
                raise asked.error from None
            self._makes_scans = False
        finally:
            _thread.records = False
            self._recording.release()
        return self._record(kind, arguments, tensors, containers)

    def _may_record(self, kind: Any, tensors: list[Tensor]) -> bool:
        """Whether there are not yet too many recordings of this kind, or of its relatives."""
        there = self._kinds.get(kind, [])
        ready = [one for one in there if one.is_ready()]
        if sum(not one.program.is_pinned() for one in ready) >= LIMIT or len(there) >= OBJECTS:
            why = there[-1].mismatch(tensors)
            self._refuse(
                kind, Refused(f"it was recorded {len(there)} times, the last time: {why}", "")
            )
            return False
        for family, limit in relatives(kind):
            kinds = self._relatives.setdefault(family, {})
            if kind not in kinds and len(kinds) >= limit:
                self._refuse_family(family, what_changes(kind, next(reversed(kinds)), limit))
                return False
            kinds[kind] = None
        return True

    def _refuse_family(self, family: Any, reason: str) -> None:
        kinds = self._relatives[family]
        if family not in self._eager:
            if any(self._kinds.get(one) for one in kinds):
                self._refuse(family, Refused(reason, ""))
            else:  # for another reason, which has been told
                self._eager[family] = self._eager.get(next(reversed(kinds)), "")
        if self.fullgraph:
            raise CompileError(self._eager[family])

    def _refuse(self, kind: Any, refused: Refused, again: bool = False) -> None:
        """Say why a call runs eagerly, and let others of its kind do so, unless tried `again`."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        message = f"{name} runs eagerly: {refused.reason}"
        code = code_of(self.function)
        where = refused.where or (place_of(code, None) if code is not None else "")
        if where:
            message += f"\n  at  {where}"
        told = message in self._eager.values() or message in self._again.values()
        (self._again if again else self._eager)[kind] = message
        if self.fullgraph:
            raise CompileError(message)
        if not told and not self._quiet:
            warnings.warn(message, CompileWarning, stacklevel=level_of_user())

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A compiled method: the object is one of the arguments."""
        return self if instance is None else functools.partial(self, instance)

    def __repr__(self) -> str:
        """Show the function."""
        return f"<compiled {self.function!r}>"

    def _repr_html_(self) -> str:
        from adjoint.notebook import compiled_html

        return compiled_html(self)

    @property
    def reasons(self) -> list[str]:
        """Why calls run eagerly, each once; empty if none does."""
        told = (*self._eager.values(), *self._again.values())
        return [message for message in dict.fromkeys(told) if message]

    def __reduce__(self) -> Any:
        """Copies and pickles hold the function; programs are recorded anew."""
        return Compiled, (self.function, self.fullgraph, self.verify, self._quiet)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the programs to a file, for other processes: see `adjoint.compiler.load`.

        Parameters
        ----------
        path : str or path
            The file; with the ending ``.safetensors`` it is one of these.

        Raises
        ------
        ValueError
            There are no programs, or one of them cannot be loaded by another process: the message
            says what it reads, calls or holds, and where.
        """
        from ._saved import save

        save(self, path)

    @property
    def programs(self) -> Programs:
        """The recordings there are."""
        return Programs(one for kind in self._kinds.values() for one in kind if not one.is_lost())

    def was_refused(self) -> bool:
        """Whether some calls run eagerly."""
        return bool(self._eager or self._again)

    def forget(self) -> None:
        """Forget all programs: the next call is recorded."""
        self._kinds.clear()
        self._forget_ways()
        self._eager.clear()
        self._again.clear()
        self._relatives.clear()
        self._loaded = None


def _is_verified_by_default() -> bool:
    return os.environ.get("ADJOINT_VERIFY", "") not in ("", "0")


def level_of_user() -> int:
    """How far up the first frame is that is not of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def _made(
    walk: Walk,
    recording: Any,
    result: Any,
    tensors: list[Tensor],
    made: Recorded,
    waits: bool,
) -> FirstCall | Refused:
    """What a recorded run became, or why it became nothing."""
    walk.settle()
    if walk.refusals and recording.refused() is None:
        return Refused(*walk.refusals[0])
    try:
        first = FirstCall(recording, result, tensors, made, walk.knows)
        if not (waits and first.plain):
            first.make_programs()
        return first
    except Refused as refused:
        return refused


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    verify: bool | None = None,
    dynamic: bool | None = None,
    backend: Any = "adjoint",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool | None = None,
    shapes_spec: Any = None,
) -> Any:
    """Record what a function computes, and run that natively from then on.

    The first call with arguments of some kind (structure, shapes, dtypes, strides, Python values)
    runs the function and takes down its operations; later ones run the recorded program, without
    Python, and give the same to the last bit. So do gradients. What cannot be recorded is
    reported, once and with the line, and such calls run the function itself.

    Parameters
    ----------
    model : callable, optional
        A function, a method, a module or another callable. If omitted, a decorator is returned.
    fullgraph : bool
        Raise `CompileError` where the function would run eagerly.
    verify : bool, optional
        Run the function beside every replay, and compare results, gradients and written tensors to
        the last bit; a difference raises `adjoint.compiler.VerifyError`. By default, whether the
        environment has ``ADJOINT_VERIFY=1``.
    dynamic, backend, mode, options, name, recompile_limit, isolate_recompiles, shapes_spec
        There for PyTorch's signature, and without effect: another shape is another recording, and
        there is one backend.
    disable : bool
        Return the function as it is.

    Returns
    -------
    callable
        A `Compiled` for functions, a module for modules.

    Warns
    -----
    CompileWarning
        Calls of this kind run eagerly, and why.

    See Also
    --------
    adjoint.compiler.disable : keep a function out of programs.
    adjoint.compiler.is_compiling : whether the calling code is being recorded.
    adjoint.compiler.reset : forget all programs.

    Notes
    -----
    What may be recorded, what makes a new recording, and what happens to second derivatives stands
    in docs/guides/compile.md.

    Examples
    --------
    >>> import adjoint as ad
    >>> @ad.compile
    ... def swing(x, v, k):
    ...     for _ in range(100):
    ...         v = v - 0.01 * k * x
    ...         x = x + 0.01 * v
    ...     return x
    >>> k = ad.tensor(4.0, requires_grad=True)
    >>> for start in (1.0, 2.0):
    ...     end = swing(ad.tensor(start), ad.tensor(0.0), k)
    ...     (slope,) = ad.autograd.grad(end, k)
    ...     print(f"{end.item():.4f} {slope.item():.4f}")
    -0.4253 -0.2274
    -0.8505 -0.4549

    The second call ran the program that the first one left:

    >>> len(swing.programs)
    1
    """
    if model is None:
        return lambda f: compile(f, fullgraph=fullgraph, verify=verify, disable=disable)
    if not callable(model):
        raise TypeError(f"compile() expects a function or a module, not {type(model).__name__}")
    if disable:
        return model
    if isinstance(model, type):
        raise TypeError(f"compile() expects a function or a module, not the class {model!r}")
    from adjoint import nn

    if isinstance(model, nn.Module):
        from ._module import OptimizedModule

        return OptimizedModule(model, fullgraph, verify)
    return Compiled(model, fullgraph, verify)
