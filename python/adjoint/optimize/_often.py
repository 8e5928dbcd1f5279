"""Functions that solvers call often: recorded, so that a call is a program and not Python.

A program gives what the function gives, to the last bit, or there is none (`adjoint.compile`). What
a recording takes is worth it for what is called some times more: a function is called as it is
at first, and then recorded. Nothing is said where that is refused, as nobody asked for it.
"""

from __future__ import annotations

import types
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import is_batched
from adjoint.compiler._compile import Compiled
from adjoint.func import jacfwd

from ._linear import Dense, Linear
from ._newton import whole_step
from ._unknowns import Unknowns

__all__ = ["Lately", "NewtonSteps", "Often", "newton_steps"]

_CALLS = 3  # within one run of a solver, before a function is recorded
_RUNS = 3  # of a solver on one function, before its steps are
_KEPT = 32  # functions whose steps are


class Often:
    """A function of tensors that one run of a solver calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function: Callable[..., Any] = function
        self._left = _CALLS

    def __call__(self, *tensors: Tensor) -> Any:
        self._left -= 1
        if not self._left:
            self._function = Compiled(self._function, quiet=True)
        return self._function(*tensors)


class Lately:
    """A function of a vector that is asked about the same few places again."""

    def __init__(self, function: Callable[[Tensor], Any]) -> None:
        self._function = function
        self._known: OrderedDict[bytes, Any] = OrderedDict()

    def __call__(self, v: Tensor) -> Any:
        if is_batched(v) or _core._has_tangent(v):
            return self._function(v)
        place = v.numpy().tobytes()
        if place not in self._known:
            self._known[place] = self._function(v)
            if len(self._known) > 4:
                self._known.popitem(last=False)
        return self._known[place]


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
