"""What an external gave at the last few inputs, while a solver runs.

A solver asks for the value at a point, and then for the derivative there, whose evaluation begins
with the value once more. A program that takes seconds is not run twice for that: an external looks
here first. Outside of a solver every call is an evaluation, as its user wrote it.
"""

from __future__ import annotations

import copy
import functools
import pickle
import time
from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

__all__ = ["Evaluated", "each_input_once", "evaluated"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_KEPT = 4  # inputs: a solver asks about the last one or two
_LONG = 1e-3  # seconds: what takes less is sooner evaluated than looked up


class Evaluated:
    """The results of the last evaluations that took long, by function and input."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, bytes], tuple[Any, Any]] = OrderedDict()
        self._slow: set[int] = set()

    def call(self, function: Any, args: Any, kwargs: Any, evaluate: Callable[[], Any]) -> Any:
        """The result for some arguments, of an evaluation that is made if it has to be."""
        key = self._key(function, args, kwargs) if id(function) in self._slow else None
        if key is not None and key in self._known:
            return copy.deepcopy(self._known[key][1])
        begin = time.perf_counter()
        result = evaluate()
        if time.perf_counter() - begin > _LONG:
            self._slow.add(id(function))
            self._keep(self._key(function, args, kwargs), function, result)
        return result

    def _key(self, function: Any, args: Any, kwargs: Any) -> tuple[int, bytes] | None:
        try:
            return id(function), pickle.dumps((args, kwargs), protocol=5)
        except Exception:  # whatever an object of the user's raises: then nothing is kept
            return None

    def _keep(self, key: tuple[int, bytes] | None, function: Any, result: Any) -> None:
        if key is None:
            return
        try:
            self._known[key] = function, copy.deepcopy(result)  # its user may change the result
        except Exception:  # as above
            return
        if len(self._known) > _KEPT:
            self._known.popitem(last=False)


# While a solver runs.
evaluated: ContextVar[Evaluated | None] = ContextVar("evaluated", default=None)


def each_input_once(solver: Callable[_P, _R]) -> Callable[_P, _R]:
    """A solver in whose run slow externals are evaluated once at an input."""

    @functools.wraps(solver)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        outer = evaluated.get()
        token = evaluated.set(Evaluated() if outer is None else outer)
        try:
            return solver(*args, **kwargs)
        finally:
            evaluated.reset(token)

    return run
