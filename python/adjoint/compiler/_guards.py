"""`Guards`: what a recorded call depends on, besides its arguments, as the core compares it.

`hold` looks at all of it before each replay, mostly by comparing words of memory
(src/bindings/program/guards.cpp). Read next: `_walk`, which finds out what there is to guard.
"""

from __future__ import annotations

import enum
import struct
import sys
from collections.abc import Callable, Iterable, Sequence
from types import MethodType
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import Tensor, _core

__all__ = ["ABSENT", "Guards", "Kind", "Place", "Row", "alike", "changed", "is_value", "same"]

ABSENT: Any = type("Absent", (), {"__repr__": lambda self: "nothing"})()

_SHOWN = (bool, int, float, complex, str, bytes, type(None), ad.dtype, ad.device)
_BY_VALUE = frozenset((*_SHOWN, range, ad.Size, type(...), type(NotImplemented)))


class Kind(enum.IntEnum):
    """The order of `Kind` in src/bindings/program/guards.cpp."""

    PLACE = 0
    NAMES = 1
    LIST = 2
    DICT = 3
    ORDER = 4
    CLASS = 5
    TENSOR = 6
    ASK = 7


class Place(enum.IntEnum):
    """The order of `Place` in src/bindings/program/guards.cpp."""

    CELL = 0
    CODE = 1
    DEFAULTS = 2
    KEYWORD_DEFAULTS = 3
    TYPE = 4
    DICT = 5


class Row(NamedTuple):
    """One thing that has to stay what it was."""

    kind: Kind
    holder: Any
    value: Any
    extra: Any
    all: bool
    path: str  # what people call it

    def names(self) -> list[str]:
        """What it guards, for people."""
        if self.kind is Kind.NAMES:
            return [_joined(self.path, name) for name in self.value]
        return [self.path]

    def failed(self) -> str:
        """What was there and what is there now, for people."""
        if self.kind is Kind.CLASS:
            return f"{self.extra() or self.path} has changed"
        if self.kind is not Kind.NAMES:
            return f"{self.path} has changed"
        for name, was in self.value.items():
            now = self.holder.get(name, ABSENT)
            if now is not was and not same(now, was):
                return f"{_joined(self.path, name)} {_change(was, now)}"
        asked = self.extra if isinstance(self.extra, frozenset) and not self.all else self.holder
        new = next((name for name in self.holder if name in asked and name not in self.value), "")
        return f"{_joined(self.path, new)} was not there and is"


def _joined(path: str, name: str) -> str:
    return f"`{path}.{name}`" if path else f"the global `{name}`"


def _change(was: Any, now: Any) -> str:
    if now is ABSENT:
        return f"was {_shown(was)} and is gone"
    if was is ABSENT:
        return f"was not there and is {_shown(now)}"
    if _is_shown(was) or _is_shown(now):
        return f"was {_shown(was)} and is {_shown(now)}"
    return f"was {_shown(was)} and is another object"


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


def is_value(cls: type) -> bool:
    """Whether objects of a class are compared by what they are rather than by which they are."""
    if cls in _BY_VALUE:
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and (
        cls is numpy.dtype
        or (issubclass(cls, numpy.generic) and not issubclass(cls, numpy.void | numpy.object_))
    )


def alike(a: Any, b: Any) -> bool:
    """Whether two objects of one class are one value; the core knows numbers and texts."""
    cls = type(a)
    if cls is complex:
        return alike_numbers(a.real, b.real) and alike_numbers(a.imag, b.imag)
    if cls is MethodType:
        return a.__self__ is b.__self__ and a.__func__ is b.__func__
    if cls is slice:
        return _texts((a.start, a.stop, a.step)) == _texts((b.start, b.stop, b.step)) != []
    if cls is frozenset:  # equal ones may differ in their order
        return _texts(a) == _texts(b) != []
    if not is_value(cls):
        return False
    if hasattr(cls, "tobytes"):
        return bool(a.dtype == b.dtype) and a.tobytes() == b.tobytes()
    return bool(a == b)


def _texts(parts: Iterable[Any]) -> list[tuple[str, str]]:
    """What stands for plain values; nothing if there are others among them."""
    found = list(parts)
    if not all(type(one) in _SHOWN for one in found):
        return []
    return [(type(one).__name__, repr(one)) for one in found]


_bits = struct.Struct("d").pack


def alike_numbers(a: float, b: float) -> bool:
    """Whether two floats have the same bits: a NaN is itself, -0.0 is not 0.0."""
    return _bits(a) == _bits(b)


_plain = _core._Guards([], ABSENT, alike, None, [])
same: Callable[[Any, Any], bool] = _plain.same  # whether one is as good as the other
changed: Callable[[dict[str, Any], dict[str, Any]], str | None] = _plain.changed  # which name


class Guards:
    """All that a recorded call depends on. It keeps alive what it compares.

    Parameters
    ----------
    rows : iterable of Row
        What has to stay what it was.
    names : frozenset, optional
        Attributes that no other tensor among the arguments may have.
    tensors : sequence of Tensor
        Tensors that the function finds by itself: whether an argument is one of them counts.

    Attributes
    ----------
    hold : callable
        Whether everything is as it was; with the tensors among the arguments, these too.
    """

    def __init__(
        self,
        rows: Iterable[Row] = (),
        names: frozenset[str] | None = None,
        tensors: Sequence[Tensor] = (),
        arguments: Callable[[list[Tensor]], bool] | None = None,
        steps: Sequence[Any] = (),
        later: Guards | None = None,
        memory: Guards | None = None,
    ) -> None:
        self._rows = list(rows)
        self._tensors = list(tensors)
        self._holders = frozenset(id(row.holder) for row in self._rows)
        plain = [row[:5] for row in self._rows]
        self.core = _core._Guards(plain, ABSENT, alike, names, self._tensors)
        self.hold: Callable[..., bool] = self.core.hold
        self.later = later  # what code reads that runs in the backward pass
        self.memory = memory  # buffers, which may be memory of a tensor that a replay writes to
        self.steps = steps  # optimisers: a replay changes what is guarded
        self.arguments = arguments  # whether other tensors will do, where `hold` cannot tell

    def __len__(self) -> int:
        return sum(len(row.value) if row.kind is Kind.NAMES else 1 for row in self._rows)

    def broken(self) -> Row | None:
        """What is no longer what it was, or None."""
        at = self.core.failed()
        return None if at is None else self._rows[at]

    def failed(self) -> str | None:
        """The same for people."""
        row = self.broken()
        return None if row is None else row.failed()

    def rows(self, kind: Kind) -> list[Row]:
        """What is guarded, of one kind."""
        return [row for row in self._rows if row.kind is kind]

    def places(self, things: Iterable[Any]) -> list[int]:
        """Which objects are among those that are guarded: their addresses, or 0."""
        return [id(one) if id(one) in self._holders else 0 for one in things]

    def tensors(self) -> list[Tensor]:
        """The tensors that the function finds by itself."""
        return self._tensors

    def describe(self) -> list[str]:
        """The names of what is guarded."""
        return [name for row in self._rows for name in row.names()]
