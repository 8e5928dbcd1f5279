"""`Guards`: what a recorded run read of the program around it, and whether it is still the same.

A guard is a `Place` (an attribute, a global, a cell, an item) with what stood there. `hold`
checks all of them before each replay, so it is a function written for just these guards: one
expression, in which an unchanged object costs one lookup and one comparison of addresses. Read
next: `_watch`, which finds the places, and `_snapshots`, which compares values.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import Tensor
from adjoint.compiler._lookups import ABSENT, Place
from adjoint.compiler._snapshots import Snapshot, same

__all__ = ["Guard", "Guards"]

_CHUNK = 256  # guards in one expression: deeper ones exhaust the compiler of Python
_INLINE = 16  # parts of a container that are compared in the expression itself
_SHOWN = (bool, int, float, complex, str, bytes, type(None), ad.dtype, ad.device)


class Guard(NamedTuple):
    """A place, what stood there (None: that very object), its name and the line that read it."""

    place: Place
    snapshot: Snapshot | None
    name: str
    where: str

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
            return holder.cell_contents if kind == "cell" else holder
        except (AttributeError, LookupError, ValueError):
            return ABSENT

    def holds(self) -> bool:
        """Whether what stands there is what stood there."""
        now = self.now()
        if self.place.kind == "free":
            return self.place.key not in self.place.holder
        if self.place.kind == "keys":
            return bool(now == self.place.value)
        if self.snapshot is not None:
            return self.snapshot.holds(now)
        return now is self.place.value or same(now, self.place.value)

    def failed(self) -> str:
        """What stood there and what stands there now, for people."""
        was, now = self.place.value, self.now()
        name = f"{self.name} ({self.where})" if self.where else self.name
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
    """

    def __init__(self, guards: Iterable[Guard]) -> None:
        self._guards = tuple(guards)
        self._checks = tuple(
            _compiled(self._guards[start : start + _CHUNK])
            for start in range(0, len(self._guards), _CHUNK)
        )
        if len(self._checks) == 1:
            self.hold = self._checks[0]  # type: ignore[method-assign]

    def __len__(self) -> int:
        return len(self._guards)

    def hold(self) -> bool:
        """Whether everything that was read is still what it was."""
        return all(check() for check in self._checks)

    def failed(self) -> str | None:
        """What is no longer what it was, or None."""
        return next((guard.failed() for guard in self._guards if not guard.holds()), None)

    def describe(self) -> list[str]:
        """The names of what is guarded."""
        return [guard.name for guard in self._guards]


def _compiled(guards: Sequence[Guard]) -> Callable[[], bool]:
    """One function for all of `guards`; the objects are its global names."""
    names: dict[str, Any] = {}
    terms = [_term(i, guard, names) for i, guard in enumerate(guards)]
    source = (
        "def hold():\n    try:\n        return (\n            "
        + "\n            and ".join(terms)
        + "\n        )\n    except Exception:\n        return False\n"
    )
    exec(compile(source, "<guards>", "exec"), names)
    check: Callable[[], bool] = names["hold"]
    return check


def _term(i: int, guard: Guard, names: dict[str, Any]) -> str:
    kind, holder, key, value, _ = guard.place
    o, k, v, s = f"o{i}", f"k{i}", f"v{i}", f"s{i}"
    names[o], names[v] = holder, value
    if kind in ("attr", "method", "absent") and not str.isidentifier(key):
        names[k] = key
        read = f"getattr({o}, {k})"
    elif kind in ("attr", "method", "absent"):
        read = f"{o}.{key}"
    elif kind in ("item", "own"):
        names[k] = key
        read = f"{o}[{k}]" if kind == "item" else f"{o}.__dict__[{k}]"
    else:
        read = f"{o}.cell_contents" if kind == "cell" else o
    if kind == "free":
        names[k] = key
        return f"{k} not in {o}"
    if kind == "keys":
        return f"(*{o},) == {v}"
    if kind == "absent":
        return f"not hasattr({o}, {key!r})"
    if kind == "method":
        return f"{read}.__func__ is {v}"
    if guard.snapshot is None:
        return f"{read} is {v}"
    names[s] = guard.snapshot.holds
    parts = _untouched(guard.snapshot, v, names)
    if parts is None:
        return f"{s}({read})"
    return f"({' and '.join([f'{read} is {v}', *parts])} or {s}({read}))"


def _untouched(snapshot: Snapshot, v: str, names: dict[str, Any]) -> list[str] | None:
    """Expressions that hold while small lists and dicts have the very objects in them they had.

    None if there is something else among them.
    """
    terms = []
    for j, (container, parts) in enumerate(snapshot.contents):
        c = f"{v}_{j}"
        names[c] = container
        cls = type(container)
        if cls not in (list, dict, OrderedDict, defaultdict) or len(container) > _INLINE:
            return None
        keys, values = (range(len(parts)), parts) if cls is list else parts
        terms.append(f"len({c}) == {len(values)}")
        if not values:
            continue
        if cls is not list:
            if set(map(type, keys)) != {str}:
                return None
            names[f"{c}k"] = keys
            terms.append(f"(*{c},) == {c}k")
        for i, (key, value) in enumerate(zip(keys, values, strict=True)):
            names[f"{c}_{i}"] = value
            terms.append(f"{c}[{key!r}] is {c}_{i}")
    return terms
