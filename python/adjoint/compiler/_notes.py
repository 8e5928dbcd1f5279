"""`Notes`: what a walk has found, compared after the call (effects) and made into guards.

Read next: `_namespaces`, which takes the notes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from adjoint import Tensor, _core

from ._contents import equal, object_rows, restore, set_attribute
from ._guards import ABSENT, Guards, Kind, Row, changed
from ._names import words
from ._namespace_snapshot import Space, class_row, difference, unknown
from ._refusals import Unguardable
from ._tensor_attributes import STATE, has_texture, have_textures, texture
from ._visible import is_library_table, steps_by_itself

__all__ = ["Notes"]

# Names by which the core finds functions in classes.
_OF_THE_CORE = words(
    "forward backward setup_context vjp jvp vmap __torch_function__ __torch_dispatch__"
)


class Notes:
    """What a call depends on, as it was when it was found."""

    def __init__(self) -> None:
        # Attributes that code which ran has names for: all code, or all but adjoint's.
        self._all_names, self._names = set(_OF_THE_CORE), set[str]()
        self._whole = False  # attributes are asked for by names that are computed
        self.asks_for_addresses = False  # of any tensors
        self._pinned = False  # addresses of tensors are asked for before the recording starts
        self._spaces: list[Space] = []
        self._of_dict: dict[int, Space] = {}
        self._rows: list[Row] = []
        self._given: list[Row] = []  # of arguments, which others compare
        self._memory: list[Row] = []  # of buffers, with which tensors may share memory
        self._classes: dict[type, tuple[type, ...]] = {}  # and what they inherit from
        self._untouched: dict[type, Guards] = {}  # which hold until something happens to a class
        self._tensors: list[Tensor] = []
        self._argument_tensors: list[Tensor] = []
        self._later: Notes | None = None  # what code reads that runs in the backward pass

    def _note(self, kind: Kind, holder: Any, value: Any, extra: Any, path: str) -> None:
        self._rows.append(Row(kind, holder, value, extra, False, path))

    def _ask(self, question: Callable[[], Any], path: str) -> None:
        """Note the answer to a question."""
        answer = question()

        def holds() -> bool:
            now = question()
            return now is answer or (type(now) is type(answer) and equal(now, answer))

        self._note(Kind.ASK, question, holds, None, path)

    def _note_class(self, cls: type) -> None:
        self._classes[cls] = cls.__mro__
        self._untouched[cls] = Guards([class_row(cls, unknown)])

    def _space_of(self, table: dict[str, Any], path: str) -> Space:
        """The notes on a dict of globals."""
        space = self._of_dict.get(id(table))
        if space is None:
            space = self._of_dict[id(table)] = Space(table, path, "globals", table)
            self._spaces.append(space)
        return space

    def _look_for_effects(self) -> None:
        for space in self._spaces:
            if space.kind in ("class", "library") or steps_by_itself(space.holder):
                continue
            if space.kind in ("instance", "argument"):
                name = changed(space.before, space.now)
            else:
                now = {n: space.now.get(n, ABSENT) for n in space.watched}
                if isinstance(space.holder, dict) and is_library_table(space.holder):
                    space.watched = now  # lazy imports
                name = changed(space.watched, now)
            if name is not None:
                whole = f"{space.path}.{name}" if space.path else name
                raise Unguardable(f"`{whole}` is changed, which a replay would not repeat", whole)
        for cls, differs in self._class_checks():
            what = None if self._untouched[cls].hold() else differs()
            if what is not None:
                raise Unguardable(f"{what} is changed, which a replay would not repeat", what)
        for rows in (self._rows, self._given):
            row = Guards(rows).broken()
            if row is not None:
                path = row.path if row.path[:4] == "the " else f"{row.path}"
                raise Unguardable(f"{path} is changed, which a replay would not repeat", path)

    def _class_checks(self) -> Iterator[tuple[type, Callable[[], str | None]]]:
        """Each class, and a function that says what differs in it."""
        names = frozenset(self._all_names)
        shapes = {id(s.holder): s for s in self._spaces if s.kind in ("class", "library")}
        for cls, order in self._classes.items():
            spaces = [shapes[id(one)] for one in order if id(one) in shapes]
            yield cls, functools.partial(difference, cls, order, spaces, names, self._whole)

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
                    set_attribute(space.holder, name, before)
        for row in (*self._rows, *self._given):
            if Guards([row]).broken() is not None:
                restore(row)

    def guards(self) -> Guards:
        """Everything that the call depended on and could be another time, ready to be compared."""
        rows, everywhere = list(self._rows), frozenset(self._all_names)
        users = frozenset(self._names)
        for space in self._spaces:
            whole = (self._whole or space.whole) and space.kind == "instance"
            if space.kind == "instance":
                absent = everywhere if space.adjoints else users
                rows += object_rows(space.holder, space.now, space.path)
            else:
                absent = None
            if space.kind in ("instance", "globals"):
                row = Row(Kind.NAMES, space.now, space.watched, absent, whole, space.path)
                rows.append(row)
        for cls, differs in self._class_checks():
            rows.append(class_row(cls, differs))
        return self._with_tensors(rows, users)

    def _with_tensors(self, rows: list[Row], users: frozenset[str]) -> Guards:
        state = sorted(STATE & self._names)
        found = list(self._tensors)
        for tensor in self._argument_tensors:
            own = _core._dict_of(tensor) or {}
            if self._pinned or not users.isdisjoint(own) or (own and "__dict__" in users):
                found.append(tensor)
        if state:
            for tensor in self._tensors:
                was = texture(tensor, state)
                rows.append(
                    Row(
                        Kind.ASK,
                        tensor,
                        functools.partial(has_texture, tensor, state, was),
                        None,
                        False,
                        "what is asked of a tensor",
                    )
                )
        textures = [texture(tensor, state) for tensor in self._argument_tensors]
        check = functools.partial(have_textures, state, textures) if state else None
        later = None if self._later is None else self._later.guards()
        steps = [space.holder for space in self._spaces if steps_by_itself(space.holder)]
        return Guards(rows, users, found, check, steps, later, Guards(self._memory))
