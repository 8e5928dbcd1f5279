"""What a loop goes over, as columns: numbers in equal steps, and tensors."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, Protocol

from adjoint._core import Tensor

__all__ = ["KINDS", "Items", "Numbers", "Tensors", "Zipped", "left_of"]

KINDS: tuple[type, ...] = (
    *(type(iter(range(0))), type(iter(())), type(iter([]))),
    *(enumerate, zip),
)


class Items(Protocol):
    """Items that are left."""

    def __len__(self) -> int: ...

    def __getitem__(self, some: slice) -> Items: ...

    def __iter__(self) -> Iterator[Any]: ...

    def columns(self) -> Iterator[Numbers | Tensors]:
        """What they consist of."""

    def with_rows(self, rows: Iterator[Tensor]) -> Any:
        """The first of them, with other tensors in it, one for each column that becomes rows."""


class Numbers:
    """Items of a `range`, or the numbers of `enumerate`."""

    def __init__(self, numbers: range) -> None:
        self.numbers = numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, some: slice) -> Numbers:
        return Numbers(self.numbers[some])

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def columns(self) -> Iterator[Numbers | Tensors]:
        yield self

    def next_items(self) -> Sequence[Any]:
        return ()

    def tensors(self) -> list[Tensor]:
        return []

    def with_rows(self, rows: Iterator[Tensor]) -> int:
        return self.numbers[0]


class Tensors:
    """Items of a tuple or list, which may be tensors.

    Attributes
    ----------
    alone : bool
        Whether nobody else has any of them.
    becomes_rows : bool
        Whether a step gets rows in their place.
    """

    def __init__(self, things: Sequence[Any], alone: bool, becomes_rows: bool = False) -> None:
        self.things, self.alone, self.becomes_rows = things, alone, becomes_rows

    def __len__(self) -> int:
        return len(self.things)

    def __getitem__(self, some: slice) -> Tensors:
        return Tensors(self.things[some], self.alone, self.becomes_rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.things)

    def columns(self) -> Iterator[Numbers | Tensors]:
        yield self

    def next_items(self) -> Sequence[Any]:
        """What the next step gets."""
        return self.things[:1]

    def tensors(self) -> list[Tensor]:
        """Those among them."""
        return [one for one in self.things if isinstance(one, Tensor)]

    def with_rows(self, rows: Iterator[Tensor]) -> Any:
        return next(rows) if self.becomes_rows else self.things[0]


class Zipped:
    """Items of `zip` or `enumerate`."""

    def __init__(self, parts: Sequence[Items]) -> None:
        count = min(len(part) for part in parts)
        self.parts = [part[:count] for part in parts]

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, some: slice) -> Zipped:
        return Zipped([part[some] for part in self.parts])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.parts, strict=True)

    def columns(self) -> Iterator[Numbers | Tensors]:
        for part in self.parts:
            yield from part.columns()

    def with_rows(self, rows: Iterator[Tensor]) -> Any:
        return tuple(part.with_rows(rows) for part in self.parts)


def left_of(iterator: Any) -> Items | None:
    """The items that an iterator has still; None if that is of another kind."""
    if type(iterator) not in KINDS:
        return None
    _, parts, *state = iterator.__reduce__()
    if isinstance(iterator, zip):
        return None if state or not parts else _zipped(parts)
    if isinstance(iterator, enumerate):
        inside = _inside(parts, 0, _ASKED_BY_ENUMERATE)
        return inside and Zipped([Numbers(range(parts[1], parts[1] + len(inside))), inside])
    at = state[0] if state else 0
    if isinstance(parts[0], range):
        return Numbers(parts[0][at:])
    alone = sys.getrefcount(parts[0]) <= _held_by_one(parts[0])
    alone = alone and max(map(sys.getrefcount, islice(parts[0], at, None)), default=0) <= _IN_ONE
    return Tensors(tuple(parts[0][at:]), alone)


def _zipped(iterators: tuple[Any, ...]) -> Items | None:
    parts = [_inside(iterators, k, _ASKED_BY_ZIP) for k in range(len(iterators))]
    found = [part for part in parts if part is not None]
    return Zipped(found) if len(found) == len(parts) else None


def _inside(parts: tuple[Any, ...], k: int, by_one: int) -> Items | None:
    """What an iterator has still that one other iterator asks, and nobody else."""
    return left_of(parts[k]) if sys.getrefcount(parts[k]) <= by_one else None


def _held_by_one(held: Any) -> int:
    return _COUNTS.get(type(held), 0)


def _references(iterator: Any) -> int:
    _, parts, *_ = iterator.__reduce__()
    return sys.getrefcount(parts[0])


# By what holds it, the recording, and who counts.
_IN_ONE = max(map(sys.getrefcount, islice([object()], 1))) + 1
# `enumerate` makes the tuple that it answers with, `zip` has it.
_ASKED_BY_ENUMERATE, _ASKED_BY_ZIP = (_references(kind(iter([1]))) for kind in (enumerate, zip))
# Of one that its iterator has, while `parts` has it, too.
_COUNTS: dict[type, int] = {
    tuple: _references(iter((Tensor, object()))),
    list: _references(iter([1])),
}
