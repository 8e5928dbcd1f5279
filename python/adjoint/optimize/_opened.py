"""What a function reads from its closure, taken out: so that its next copy can use its recordings.

``minimize(lambda x: cost(x, data), x0)`` makes a new function for each call, of the same code. What
is in its cells is taken apart here: tensors and objects are given to the recording as arguments,
numbers and texts are a part of its name. A function is made again from the same code with cells of
these arguments. What cannot be taken apart without a difference is refused: a function that
assigns to its cells, or that is in its own closure.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Sequence
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from adjoint._core import Tensor
from adjoint.compiler._call_kinds import key_of
from adjoint.compiler._walk import current_walk

from ._unknowns import Unknowns

__all__ = ["Opened", "Parts", "opened"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Parts:
    """An object that is what its attributes named in ``_parts`` are."""

    _parts: tuple[str, ...] = ()


class _Closed(Exception):
    """It cannot be taken apart."""


class Opened:
    """A function as code and what that reads.

    Attributes
    ----------
    key
        Equal for functions that differ in ``given`` alone.
    given
        The tensors and objects that it reads.
    """

    def __init__(self, function: Any) -> None:
        self.given: list[Any] = []
        self._places: dict[int, int] = {}
        self._within: set[int] = set()
        self._cells: list[tuple[CellType, Any]] = []
        self._functions: list[tuple[FunctionType, Any]] = []
        self.key, self._plan = self._open(function)

    def plan(self) -> Callable[[Sequence[Any]], Any]:
        """What makes a function again of what is given to it in place of ``given``."""
        return self._plan.of

    def holds(self) -> bool:
        """Whether the function still reads what it did."""
        for cell, was in self._cells:
            if cell.cell_contents is not was:
                return False
        for function, (code, defaults, named) in self._functions:
            if (
                function.__code__ is not code
                or function.__defaults__ is not defaults
                or function.__kwdefaults__ is not named
            ):
                return False
        return True

    def _open(self, one: Any) -> tuple[Any, _Plan]:
        """What stands for it, and how it is made again of what is given."""
        cls = type(one)
        if cls in _PLAIN:
            return key_of(one), _Plan(_itself, one)
        if isinstance(one, Unknowns) and one.kind is not None:
            return (cls, one.kind), _Plan(_itself, one)
        if id(one) in self._within:
            raise _Closed
        self._within.add(id(one))
        try:
            if cls is FunctionType and not one.__dict__:
                return self._function(one)
            if cls is MethodType:
                return self._several(_method, cls, (one.__func__, one.__self__))
            if cls is tuple:
                return self._several(_tuple, cls, one)
            if isinstance(one, tuple) and hasattr(cls, "_make"):
                return self._several(_named_tuple, cls, one)
            if isinstance(one, Parts):
                return self._several(_object, cls, [getattr(one, name) for name in one._parts])
        finally:
            self._within.discard(id(one))
        place, plan = self._place(one)
        return (Tensor if isinstance(one, Tensor) else cls, place), plan

    def _place(self, one: Any) -> tuple[int, _Plan]:
        if id(one) not in self._places:
            self._places[id(one)] = len(self.given)
            self.given.append(one)
        place = self._places[id(one)]
        return place, _Plan(_given, place)

    def _several(
        self, make: Callable[..., Any], fixed: Any, things: Sequence[Any]
    ) -> tuple[Any, _Plan]:
        found = [self._open(one) for one in things]
        return (fixed, *(key for key, _ in found)), _Plan(make, fixed, [plan for _, plan in found])

    def _function(self, one: FunctionType) -> tuple[Any, _Plan]:
        if _assigns(one.__code__) or one.__kwdefaults__:
            raise _Closed
        cells = one.__closure__ or ()
        contents = [_content(cell) for cell in cells]
        self._cells += zip(cells, contents, strict=True)
        self._functions.append((one, _state(one)))
        key, plan = self._several(_function, one.__code__, (one.__defaults__, *contents))
        names = one.__globals__
        return (key_of(names), *key), plan._replace(fixed=(one.__code__, names, one.__name__))


class _Plan(NamedTuple):
    """How a thing is made again.

    Not a closure: a recording guards what is in the closures of functions that run, and in here
    are namespaces of modules.
    """

    make: Callable[..., Any]
    fixed: Any
    parts: Sequence[_Plan] | None = None

    def of(self, given: Sequence[Any]) -> Any:
        """The thing, with what is ``given`` in the places of what it read."""
        if self.parts is None:
            return self.make(self.fixed, given)
        return self.make(self.fixed, [part.of(given) for part in self.parts])


def _itself(thing: Any, given: Sequence[Any]) -> Any:
    return thing


def _given(place: int, given: Sequence[Any]) -> Any:
    return given[place]


def _method(cls: Any, parts: list[Any]) -> Any:
    return cls(*parts)


def _tuple(cls: Any, parts: list[Any]) -> Any:
    return tuple(parts)


def _named_tuple(cls: Any, parts: list[Any]) -> Any:
    return cls._make(parts)


def _object(cls: Any, parts: list[Any]) -> Any:
    made = cls.__new__(cls)
    made.__dict__.update(zip(cls._parts, parts, strict=True))
    return made


def _function(fixed: Any, parts: list[Any]) -> FunctionType:
    defaults, *inside = parts
    walk = current_walk()
    if walk is not None:
        walk.makes(fixed[0])
    code, names, name = fixed
    return FunctionType(code, names, name, defaults, tuple(map(CellType, inside)))


def opened(function: Any) -> Opened | None:
    """A function taken apart, or None where that would make a difference."""
    try:
        return Opened(function)
    except _Closed:
        return None


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was assigned yet
        raise _Closed from None


def _state(function: FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


@functools.lru_cache(256)
def _assigns(code: CodeType) -> bool:
    """Whether code, or code within, assigns to variables of the functions around it."""
    return any(
        one.opname in ("STORE_DEREF", "DELETE_DEREF") and one.argval in code.co_freevars
        for one in dis.get_instructions(code)
    ) or any(_assigns(one) for one in code.co_consts if isinstance(one, CodeType))
