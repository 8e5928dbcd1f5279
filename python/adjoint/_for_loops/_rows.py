"""What a step takes of its item, as rows that a scan hands on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import adjoint as ad
from adjoint._core import Tensor

from . import _frames
from ._between import Unlike, facts
from ._bytecode import ForLoop, Site
from ._items import Items, Numbers, Tensors, Zipped

__all__ = ["Proxy", "Rows", "can_stand_for"]


def can_stand_for(items: Items, loop: ForLoop) -> bool:
    """Whether a body may get the first items again and again, with other tensors in them."""
    try:
        columns = [column for _, column in _read(items, loop.target, loop)]
    except Unlike:
        return False
    return not any(isinstance(column, Numbers) for column in columns)


def _read(items: Items, target: Any, loop: ForLoop) -> Iterator[tuple[str, Numbers | Tensors]]:
    """The columns of items that a body reads, and by which variables."""
    if isinstance(target, tuple):
        if not isinstance(items, Zipped) or len(items.parts) != len(target):
            raise Unlike("an item has other parts than the loop has variables")
        for part, one in zip(items.parts, target, strict=True):
            yield from _read(part, one, loop)
    elif target in loop.used:
        yield from ((target, column) for column in items.columns())


def _numbers(items: Items, target: Any) -> Iterator[tuple[str, range]]:
    """Variables that become numbers."""
    if isinstance(target, tuple) and isinstance(items, Zipped):
        for part, one in zip(items.parts, target, strict=True):
            yield from _numbers(part, one)
    elif isinstance(target, str) and isinstance(items, Numbers):
        yield target, items.numbers


class Rows:
    """The rows of some of the steps that are left."""

    def __init__(self, frame: FrameType, loop: ForLoop, items: Items) -> None:
        self._items = items
        self._now: Sequence[Tensor] = ()
        self._apart: list[Tensor] = []
        self.has_failed = False
        for name, column in _read(items, loop.target, loop):
            self._of_tensors(loop, name, column).becomes_rows = True
        self._columns = [
            one for one in items.columns() if isinstance(one, Tensors) and one.becomes_rows
        ]
        self._numbers = dict(_numbers(items, loop.target))
        self._sites = sorted({site[:4] for site in loop.sites})
        self._tensors = {site.name: self._tensor_of(frame, loop, site) for site in loop.sites}
        self.count = len(self._columns) + len(self._sites)

    def names(self) -> list[str]:
        """The variables that have what it takes rows of."""
        return [*self._tensors]

    def _of_tensors(self, loop: ForLoop, name: str, column: Numbers | Tensors) -> Tensors:
        """A column whose tensors are alike."""
        if isinstance(column, Numbers):
            raise Unlike("it uses the item")
        first = column.things[0]
        if any(type(t) is not Tensor for t in column.things):
            raise Unlike("items are not tensors")
        form = facts(first)
        if any(facts(t) != form for t in column.things):
            raise Unlike("items have different forms")
        if first.requires_grad and not column.alone:
            if name not in loop.once or len({id(t) for t in column.things}) < len(column):
                raise Unlike("it reads items several times, and others may, too")
            self._apart += column.things
        return column

    def _tensor_of(self, frame: FrameType, loop: ForLoop, site: Site) -> Tensor:
        """What rows are taken of, if those of all steps are there."""
        t, numbers = _frames.value_of(frame, site.name), self._numbers.get(site.item)
        if type(t) is not Tensor or site.axis >= t.ndim or numbers is None:
            raise Unlike("it takes something by the item that is not a row of a tensor")
        low, high = sorted((numbers[0] + site.shift, numbers[-1] + site.shift))
        if not 0 <= low <= high < t.shape[site.axis]:
            raise Unlike("it takes rows that are not there, or from the end")
        several = sum(one.name == site.name for one in loop.sites) > 1 or site.repeats
        if t.requires_grad and several:
            raise Unlike("it takes several rows of what gets a gradient")
        return t

    def apart(self) -> list[Tensor]:
        """What must be read by rows alone, as sums of gradients would be in another order."""
        return [*self._apart, *(t for t in self._tensors.values() if t.requires_grad)]

    def stacked(self) -> list[Tensor]:
        """The rows of all steps that are left, by place."""
        found = [ad.stack(column.things) for column in self._columns]
        for name, item, axis, shift in self._sites:
            numbers = self._numbers[item]
            low, high = sorted((numbers[0] + shift, numbers[-1] + shift))
            rows = self._tensors[name].movedim(axis, 0) if axis else self._tensors[name]
            rows = rows[low : high + 1 : abs(numbers.step)]
            found.append(rows.flip(0) if numbers.step < 0 else rows)
        return found

    def take(self, row: Sequence[Tensor]) -> Any:
        """Have the rows of one step: its item."""
        self._now = row
        return self._items.with_rows(iter(row))

    def let_go(self) -> None:
        """The step has run."""
        self._now = ()

    def row(self, name: str, key: Any) -> Tensor:
        """What a step takes of a tensor."""
        parts = key if type(key) is tuple else (key,)
        (axis,) = (k for k, part in enumerate(parts) if type(part) is not slice)
        for k, (tensor, item, by, shift) in enumerate(self._sites, len(self._columns)):
            if (tensor, by, self._numbers[item][0] + shift) == (name, axis, parts[axis]):
                return self._now[k]
        self.has_failed = True  # somebody may catch the error
        raise IndexError(f"a step took the row {key} of `{name}`, which it had not before")

    def forget(self) -> None:
        """Let go of what was stacked."""
        self._items = self._items[:1]
        self._columns = [column[:1] for column in self._columns]
        self._tensors, self._apart = {}, []


class Proxy:
    """Has the place of a tensor in a step which does nothing with it but take rows by the item.

    Attributes
    ----------
    rows : Rows
        Those of the step that runs.
    """

    __slots__ = ("_name", "rows")

    def __init__(self, name: str) -> None:
        self._name = name
        self.rows: Rows | None = None

    def __getitem__(self, key: Any) -> Tensor:
        assert self.rows is not None
        return self.rows.row(self._name, key)
