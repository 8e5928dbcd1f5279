"""What the names in a function mean when its equation is solved, kept for its derivative.

``s = root(lambda x: x - step(s), s).x`` binds ``s`` anew, and the derivative evaluates the function
later: it has to read what the solver has read. So the contents of cells, and the globals that a
function has names for, are noted. If one was bound to something else since, the function is made
again of the same code, with what was noted. Attributes of objects and the insides of containers are
not: where these have changed, the residual is another one, which `_implicit` looks for.
"""

from __future__ import annotations

import dis
import functools
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from adjoint.compiler._walk import current_walk

from ._opened import Parts

__all__ = ["Frozen"]

_NOTHING = object()
_LASTING = (ModuleType, type)  # what a name is seldom bound to anew


class Frozen:
    """A function, and what it reads by name.

    Parameters
    ----------
    function
        What is called later.
    """

    def __init__(self, function: Any) -> None:
        self._function = function
        self._cells: dict[int, tuple[CellType, Any]] = {}
        self._globals: dict[int, tuple[dict[str, Any], dict[str, Any]]] = {}
        self._seen: dict[int, Any] = {}
        self._note(function)

    def holds(self) -> bool:
        """Whether the names still mean the same."""
        return all(_content(cell) is was for cell, was in self._cells.values()) and all(
            space.get(name, _NOTHING) is was
            for space, names in self._globals.values()
            for name, was in names.items()
        )

    def function(self) -> Any:
        """The function, which reads what it has read."""
        return self._function if self.holds() else _Copies(self).of(self._function)

    def _note(self, thing: Any) -> None:
        if id(thing) in self._seen:
            return
        if isinstance(thing, FunctionType):
            self._seen[id(thing)] = thing
            self._note_names(thing)
        else:
            for part in _parts(thing):
                self._note(part)

    def _note_names(self, function: FunctionType) -> None:
        read, assigned = _names(function.__code__)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in cells:
            if name not in assigned:
                content = _content(cell)
                self._cells[id(cell)] = cell, content
                self._note(content)
        self._note(function.__defaults__ or ())
        space = function.__globals__
        if _is_ours(space):
            return
        _, noted = self._globals.setdefault(id(space), (space, {}))
        for name in read - assigned - noted.keys():
            value = space.get(name, _NOTHING)
            if value is not _NOTHING and not isinstance(value, _LASTING):
                noted[name] = value
                if isinstance(value, FunctionType) and value.__globals__ is space:
                    self._note(value)


class _Copies:
    """Functions made again, each once."""

    def __init__(self, frozen: Frozen) -> None:
        self._frozen = frozen
        self._made: dict[int, Any] = {}
        self._spaces: dict[int, dict[str, Any]] = {}
        self._cells: dict[int, CellType] = {}

    def of(self, thing: Any) -> Any:
        if isinstance(thing, FunctionType):
            if id(thing) not in self._frozen._seen:
                return thing
            if id(thing) not in self._made:
                self._function(thing)
            return self._made[id(thing)]
        if type(thing) is MethodType:
            return MethodType(self.of(thing.__func__), thing.__self__)
        if type(thing) is tuple:
            return tuple(map(self.of, thing))
        if isinstance(thing, tuple) and hasattr(thing, "_make"):
            return thing._make(map(self.of, thing))
        if type(thing) is functools.partial:
            return functools.partial(
                self.of(thing.func), *map(self.of, thing.args), **thing.keywords
            )
        if isinstance(thing, Parts):
            made = object.__new__(type(thing))
            made.__dict__.update(thing.__dict__)
            made.__dict__.update({name: self.of(getattr(thing, name)) for name in thing._parts})
            return made
        return thing

    def _function(self, one: FunctionType) -> None:
        walk = current_walk()
        if walk is not None:
            walk.makes(one.__code__)
        fresh = [cell for cell in one.__closure__ or () if id(cell) not in self._cells]
        for cell in fresh:
            noted = id(cell) in self._frozen._cells
            self._cells[id(cell)] = CellType() if noted else cell
        cells = tuple(self._cells[id(cell)] for cell in one.__closure__ or ())
        space = self._space(one.__globals__)
        made = FunctionType(one.__code__, space, one.__name__, one.__defaults__, cells)
        made.__kwdefaults__ = one.__kwdefaults__
        made.__dict__.update(one.__dict__)
        self._made[id(one)] = made  # before its parts, which may lead back to it
        made.__defaults__ = self.of(one.__defaults__)
        for cell in fresh:
            if id(cell) in self._frozen._cells and self._frozen._cells[id(cell)][1] is not _NOTHING:
                self._cells[id(cell)].cell_contents = self.of(self._frozen._cells[id(cell)][1])

    def _space(self, names: dict[str, Any]) -> dict[str, Any]:
        """Globals of which what was noted is as it was."""
        if id(names) not in self._frozen._globals:
            return names
        if id(names) not in self._spaces:
            space = self._spaces[id(names)] = dict(names)
            noted = self._frozen._globals[id(names)][1]
            space.update({name: self.of(value) for name, value in noted.items()})
        return self._spaces[id(names)]


def _parts(thing: Any) -> tuple[Any, ...]:
    if isinstance(thing, tuple):
        return thing
    if type(thing) is MethodType:
        return (thing.__func__,)
    if type(thing) is functools.partial:
        return thing.func, *thing.args
    if isinstance(thing, Parts):
        return tuple(getattr(thing, name) for name in thing._parts)
    return ()


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing is assigned
        return _NOTHING


def _is_ours(space: dict[str, Any]) -> bool:
    return str(space.get("__name__", "")).partition(".")[0] == "adjoint"


@functools.lru_cache(1024)
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str]]:
    """The globals that code and the code within can ask for, and the names that it assigns to."""
    read, assigned = set(), set()
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            read.add(one.argval)
        elif one.opname in ("STORE_GLOBAL", "DELETE_GLOBAL") or (
            one.opname in ("STORE_DEREF", "DELETE_DEREF") and one.argval in code.co_freevars
        ):
            assigned.add(one.argval)
    for inside in code.co_consts:
        if isinstance(inside, CodeType):
            more, also = _names(inside)
            read |= more
            assigned |= also
    return frozenset(read), frozenset(assigned)
