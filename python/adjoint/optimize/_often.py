"""Functions that solvers call often: recorded, so that a call is a program and not Python.

A program gives what the function gives, to the last bit, or there is none (`adjoint.compile`). What
a recording takes is worth it for what is called some times more: a function is called as it is
at first, and then recorded. Nothing is said where that is refused, as nobody asked for it.

A second run on a function of the same code finds the recordings of the first (`_opened`).
"""

from __future__ import annotations

import itertools
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import has_tangent, is_batched
from adjoint.autograd.graph import get_gradient_edge
from adjoint.compiler._compile import Compiled
from adjoint.func import jacfwd

from ._linear import Dense, Linear
from ._newton import whole_step
from ._opened import Opened, opened
from ._unknowns import Unknowns

__all__ = ["NEVER", "Lately", "LatelyArray", "NewtonSteps", "Often", "newton_steps"]

NEVER = float("inf")  # calls, for what one run calls too seldom
_CALLS = 3  # within one run of a solver, before a function is recorded
_RUNS = 3  # of a solver on one function, before its steps are
_KEPT = 32  # functions whose steps are


class Often:
    """A function of tensors that one run of a solver calls.

    Parameters
    ----------
    function
        What is called.
    transform
        What is called in its place: such as `grad` of it.
    calls
        So many times it is called as it is, unless there are recordings of earlier runs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        transform: Callable[[Any], Any] | None = None,
        calls: float | None = None,
    ) -> None:
        self._function: Callable[..., Any] = function if transform is None else transform(function)
        self._left = _CALLS if calls is None else calls
        self._looked_up = False
        self._parts: Opened | None = None
        self._kept: Compiled | None = None
        self._origin = function, transform

    def __call__(self, *tensors: Tensor) -> Any:
        if not self._looked_up:
            self._looked_up = True
            self._parts, self._kept = _kept(*self._origin)
        if self._kept is not None and self._parts is not None and self._parts.holds():
            result = self._kept(*tensors, *self._parts.given)
            if not self._kept.was_refused() or self._kept.programs:
                return result
            self._kept = None  # it was refused, and may have assigned to what it reads
            if self._parts.holds():
                return result
        self._left -= 1
        if not self._left:
            self._function = Compiled(self._function, quiet=True)
        return self._function(*tensors)

    def with_history(self, x: Tensor) -> tuple[Tensor, list[Tensor]] | None:
        """The value by a recording of an earlier run, and the tensors that its history goes to.

        None where there is no recording, or where the history goes to anything that the function
        does not get from its closure.
        """
        if not self._looked_up:
            self._looked_up = True
            self._parts, self._kept = _kept(*self._origin)
        if self._kept is None or self._parts is None or not self._parts.holds():
            return None
        value = self._kept(x, *self._parts.given)
        if not self._kept.programs or not self._parts.holds():
            return None
        if any(one.guards.later is not None for one in self._kept.programs):
            return None  # a solver inside: its backward pass reads the closure of one call
        if not value.requires_grad:
            return value, []
        read = [t for t in self._parts.given if isinstance(t, Tensor) and t.requires_grad]
        nodes = {get_gradient_edge(t).node for t in read}
        if any(node not in nodes for node, _ in value.grad_fn.next_functions if node is not None):
            return None
        return value, read


_lock = threading.Lock()
_seen: OrderedDict[int, None] = OrderedDict()  # functions of one run so far, which keep nothing
_programs: OrderedDict[Any, Compiled] = OrderedDict()


def _kept(function: Any, transform: Any) -> tuple[Opened | None, Compiled | None]:
    """The recordings of a function that was called in an earlier run, or one of the same code."""
    if _core._is_unusual_mode():
        return None, None
    parts = opened(function)
    if parts is None:
        return None, None
    key = (transform, ad.get_default_dtype(), parts.key)
    with _lock:
        if key in _programs:
            _programs.move_to_end(key)
        elif hash(key) in _seen:
            _programs[key] = _program(parts, transform)
            if len(_programs) > _KEPT:
                _programs.popitem(last=False)
        else:
            _seen[hash(key)] = None
            if len(_seen) > 8 * _KEPT:
                _seen.popitem(last=False)
        return parts, _programs.get(key)


_numbers = itertools.count()
_builders: dict[int, Any] = {}  # not in a closure: a recording would guard the namespaces in it


def _program(parts: Opened, transform: Any) -> Compiled:
    """Of the arguments of a function, and then what it reads."""
    number, count = next(_numbers), len(parts.given)
    _builders[number] = parts.plan()

    def run(*given: Any) -> Any:
        at = len(given) - count
        function = _builders[number](given[at:])
        return (function if transform is None else transform(function))(*given[:at])

    program = Compiled(run, quiet=True)
    weakref.finalize(program, _builders.pop, number, None)
    return program


class Lately:
    """A function of a vector that is asked about the same few places again."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        self._function = function
        self._known: OrderedDict[bytes, Any] = OrderedDict()

    def __call__(self, v: Tensor) -> Any:
        if is_batched(v) or has_tangent(v):
            return self._function(v)
        place = v.numpy().tobytes()
        if place not in self._known:
            self._known[place] = self._function(v)
            if len(self._known) > 4:
                self._known.popitem(last=False)
        return self._known[place]


class LatelyArray:
    """A function of an array of NumPy's that is asked about the last place again."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._place, self._value = b"", None

    def __call__(self, v: Any) -> Any:
        place = v.tobytes()
        if place != self._place:
            self._value = self._function(v)
            self._place = place
        return self._value


class NewtonSteps:
    """Steps of Newton's method on ``fun(x, *args) = 0``, one program each."""

    def __init__(self, fun: Callable[..., Any], unknowns: Unknowns) -> None:
        def residual(v: Tensor, *args: Any) -> Tensor:
            return unknowns.function(fun, args)(v)

        def step(v: Tensor, r: Tensor, size: Tensor, tolerance: float, *args: Any) -> Any:
            def here(x: Tensor) -> Tensor:
                return residual(x, *args)

            return whole_step(here, Dense(), v, r, size, tolerance)

        self._matrix = Compiled(jacfwd(residual), quiet=True)
        self._step = Compiled(step, quiet=True)

    def on(self, args: tuple[Any, ...]) -> tuple[Linear, Callable[..., Any]]:
        """The derivative of the residual, and a step, with these arguments."""
        return Dense(lambda v: self._matrix(v, *args)), lambda *state: self._step(*state, *args)


_runs: weakref.WeakKeyDictionary[Any, dict[Any, int]] = weakref.WeakKeyDictionary()
_steps: OrderedDict[Any, NewtonSteps] = OrderedDict()


def newton_steps(fun: Callable[..., Any], unknowns: Unknowns, x0: Any) -> NewtonSteps | None:
    """The recorded steps for a function that was solved before, and is there to be solved again."""
    if not isinstance(x0, Tensor) or x0.is_complex() or _core._is_unusual_mode():
        return None
    owner: Any = fun
    name: Any = None
    if isinstance(fun, types.MethodType):  # which is made anew for each call
        owner, name = fun.__self__, fun.__func__
    kind = (name, tuple(x0.shape), x0.dtype)
    try:
        counts = _runs.setdefault(owner, {})
    except TypeError:  # it has no hash, or takes no weak references
        return None
    counts[kind] = counts.get(kind, 0) + 1
    if counts[kind] < _RUNS:
        return None
    key = (fun, *kind)
    if key not in _steps:
        _steps[key] = NewtonSteps(fun, unknowns)
        if len(_steps) > _KEPT:
            _steps.popitem(last=False)
    _steps.move_to_end(key)
    return _steps[key]
