"""`Guards`: what a recorded run read of the program around it, and whether it is still the same.

A guard is a `Place` (an attribute, a global, a cell, an item) with what stood there. `hold`
checks all of them before each replay, so the core does it: an unchanged object costs one lookup and
one comparison of addresses. Read next: `_watch`, which finds the places, and `_snapshots`, which
compares values.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import Tensor, _core
from adjoint.compiler._instructions import place_of, text_of
from adjoint.compiler._lookups import ABSENT, Place
from adjoint.compiler._snapshots import Snapshot, same

__all__ = ["Guard", "Guards", "Where"]

_SHOWN = (bool, int, float, complex, str, bytes, type(None), ad.dtype, ad.device)


class Where(NamedTuple):
    """An instruction of the program."""

    code: CodeType
    offset: int

    def place(self) -> str:
        """``model.py:12 in forward``."""
        return place_of(self.code, self.offset)

    def text(self) -> str:
        """The expression that the instruction belongs to, in backquotes; empty if not known."""
        text = text_of(self.code, self.offset)
        return f"`{text}`" if text else ""


class Guard(NamedTuple):
    """A place, what stood there (None: that very object), its name and the line that read it."""

    place: Place
    snapshot: Snapshot | None
    where: Where | None

    def name(self) -> str:
        """What people call the place: ``the global `scale` ``, ```self.lr` ``."""
        kind, holder, key, _, owner = self.place
        text = "" if self.where is None else self.where.text()
        if kind in ("item", "free") and isinstance(holder, dict) and "__name__" in holder:
            return f"the global `{key}`"
        if kind == "cell":
            return f"{text or 'a variable'} of an enclosing function"
        if text:
            return text
        if kind == "whole":
            return f"the content of {_shown(owner)}"
        if kind == "told":
            key = key.__name__.strip("_").replace("_", " ")
        named = isinstance(owner, type | FunctionType)
        return f"`{key}` of {owner.__name__ if named else type(owner).__name__}"

    def now(self) -> Any:
        """What stands there now."""
        kind, holder, key, _, _ = self.place
        try:
            if kind in ("attr", "absent"):
                return getattr(holder, key)
            if kind == "method":
                return getattr(holder, key).__func__
            if kind == "item":
                return holder[key]
            if kind == "own":
                return holder.__dict__[key]
            if kind == "free":
                return holder.get(key, None)
            if kind == "keys":
                return tuple(holder)
            if kind == "context":
                return holder.get(ABSENT)
            if kind == "whole":
                return self.place.value
            if kind == "told":
                return key(holder)
            return holder.cell_contents
        except (AttributeError, LookupError, ValueError):
            return ABSENT

    def holds(self) -> bool:
        """Whether what stands there is what stood there."""
        now = self.now()
        if self.place.kind == "free":
            return self.place.key not in self.place.holder
        if self.place.kind in ("keys", "told"):
            return bool(now == self.place.value)
        if self.snapshot is not None:
            return self.snapshot.holds(now)
        return now is self.place.value or same(now, self.place.value)

    def failed(self) -> str:
        """What stood there and what stands there now, for people."""
        was, now = self.place.value, self.now()
        name = self.name() if self.where is None else f"{self.name()} ({self.where.place()})"
        if self.place.kind == "free":
            return f"{name} was the built-in one and is {_shown(now)}"
        if now is ABSENT:
            return f"{name} was {_shown(was)} and is gone"
        if was is ABSENT:
            return f"{name} was not there and is {_shown(now)}"
        if now is was or not (_is_shown(was) or _is_shown(now)):
            change = "has changed" if now is was else "is another object"
            return f"{name}, {_shown(was)}, {change}"
        return f"{name} was {_shown(was)} and is {_shown(now)}"


def _is_shown(value: object) -> bool:
    return type(value) in _SHOWN or isinstance(value, enum.Enum)


def _shown(value: Any) -> str:
    if _is_shown(value):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    if isinstance(value, Tensor):
        return f"a tensor {list(value.shape)}"
    kind = type(value).__name__
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


class Guards:
    """All guards of one recorded run. They keep alive what they compare.

    Parameters
    ----------
    guards : iterable of Guard
        What was read.

    Attributes
    ----------
    hold : callable
        Whether everything that was read is still what it was.
    """

    def __init__(self, guards: Iterable[Guard]) -> None:
        self._guards = tuple(guards)
        self.hold: Callable[[], bool] = _core._guards_check(tuple(map(_row, self._guards)))

    def __len__(self) -> int:
        return len(self._guards)

    def failed(self) -> str | None:
        """What is no longer what it was, or None."""
        return next((guard.failed() for guard in self._guards if not guard.holds()), None)

    def objects(self) -> set[int]:
        """The addresses of what stands at the places, and in containers there."""
        found = {id(guard.place.value) for guard in self._guards}
        for guard in self._guards:
            for container, parts in [] if guard.snapshot is None else guard.snapshot.contents:
                inside = parts[1] if isinstance(container, dict) else parts
                found.update(map(id, inside) if isinstance(inside, tuple) else ())  # no arrays
        return found

    def describe(self) -> list[str]:
        """The names of what is guarded."""
        return [guard.name() for guard in self._guards]


# The order of `Kind` in src/bindings/guards.cpp.
_KINDS = (
    "attr",
    "plain",
    "method",
    "item",
    "element",
    "keys",
    "cell",
    "own",
    "free",
    "whole",
    "call",
)
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}


def _row(guard: Guard) -> tuple[Any, ...]:
    """A guard as the core checks it: (kind, holder, key, value, parts, whom to ask)."""
    kind, holder, key, value, _ = guard.place
    if kind in ("absent", "context", "told"):
        return _NUMBER["call"], None, None, None, None, guard.holds
    if kind == "item" and isinstance(holder, list):
        kind = "element"
    getter: Any = type(holder).__getattribute__
    if kind == "attr" and getter is object.__getattribute__:
        kind = "plain"
    parts: Any = ()
    ask: Any = None
    if kind == "keys":
        ask = guard.holds
    elif guard.snapshot is not None:
        parts = _parts(guard.snapshot)
        ask = guard.snapshot.holds
    return _NUMBER[kind], holder, key, value, parts, ask


def _parts(snapshot: Snapshot) -> tuple[Any, ...] | None:
    """The lists and dicts in a value with the objects in them; None if others are among them."""
    rows: list[tuple[Any, ...]] = []
    for container, parts in snapshot.contents:
        if isinstance(container, list):
            rows.append((container, None, parts))
        elif isinstance(container, dict) and not _has_own_order(container):
            rows.append((container, *parts))
        else:
            return None
    return tuple(rows)


def _has_own_order(container: dict[Any, Any]) -> bool:
    """Whether this is an `OrderedDict`, which keeps its order apart from its entries."""
    return isinstance(container, OrderedDict) and len(container) > 1
