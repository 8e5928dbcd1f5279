"""What a step takes of its item, as rows that a scan hands on; and rows that it writes by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import adjoint as ad
from adjoint import _core
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
        self._sites = sorted({site[:4] for site in loop.sites if not site.writes})
        self._tensors = {site.name: self._tensor_of(frame, loop, site) for site in loop.sites}
        self.count = len(self._columns) + len(self._sites)
        self._writes = {site.name: site[1:4] for site in loop.sites if site.writes}
        self._forms = {
            name: _form_of_row(self._tensors[name], self._writes[name][1]) for name in self._writes
        }
        self._has_graph = _core.is_grad_enabled()
        self._written: dict[str, Tensor] = {}

    def names(self) -> list[str]:
        """The variables that have what it takes rows of."""
        return [*self._tensors]

    def written(self) -> list[str]:
        """The variables whose tensors it writes rows of."""
        return sorted(self._writes)

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
        others = [one for one in loop.sites if one.name == site.name and one is not site]
        if site.writes and (others or site.repeats):
            raise Unlike("it writes several rows of a tensor, or reads some too")
        if t.requires_grad and (others or site.repeats):
            raise Unlike("it takes several rows of what gets a gradient")
        for one in self._sites:  # `row` tells them apart by the first number alone
            other = self._numbers.get(one[1], numbers)
            same = (one[0], one[2]) == (site.name, site.axis)
            meets = same and other[0] + one[3] == numbers[0] + site.shift
            if meets and (other != numbers or one[3] != site.shift):
                raise Unlike("two items lead to one row")
        return t

    def apart(self) -> list[Tensor]:
        """What must be read by rows alone, as sums of gradients would be in another order."""
        read = [t for name, t in self._tensors.items() if name not in self._writes]
        return [*self._apart, *(t for t in read if t.requires_grad)]

    def stacked(self) -> list[Tensor]:
        """The rows of all steps that are left, by place."""
        found = [ad.stack(column.things) for column in self._columns]
        for name, item, axis, shift in self._sites:
            rows = self._part(name, item, axis, shift)
            found.append(rows.flip(0) if self._numbers[item].step < 0 else rows)
        return found

    def _part(self, name: str, item: str, axis: int, shift: int) -> Tensor:
        """The rows of all steps that are left, as they lie in a tensor."""
        numbers = self._numbers[item]
        low, high = sorted((numbers[0] + shift, numbers[-1] + shift))
        rows = self._tensors[name].movedim(axis, 0) if axis else self._tensors[name]
        return rows[low : high + 1 : abs(numbers.step)]

    def to_write(self, name: str, made: Tensor) -> tuple[Tensor, Tensor]:
        """The part of a tensor that all steps write, and what that gets: rows of all steps."""
        item, axis, shift = self._writes[name]
        made = made.flip(0) if self._numbers[item].step < 0 else made
        return self._part(name, item, axis, shift), made

    def take(self, row: Sequence[Tensor]) -> Any:
        """Have the rows of one step: its item."""
        self._now, self._written = row, {}
        return self._items.with_rows(iter(row))

    def let_go(self) -> None:
        """The step has run."""
        self._now, self._written = (), {}

    def row(self, name: str, key: Any) -> Tensor:
        """What a step takes of a tensor."""
        parts = key if type(key) is tuple else (key,)
        (axis,) = (k for k, part in enumerate(parts) if type(part) is not slice)
        for k, (tensor, item, by, shift) in enumerate(self._sites, len(self._columns)):
            if (tensor, by, self._numbers[item][0] + shift) == (name, axis, parts[axis]):
                return self._now[k]
        self.has_failed = True  # somebody may catch the error
        raise IndexError(f"a step took the row {key} of `{name}`, which it had not before")

    def write(self, name: str, key: Any, value: Any) -> None:
        """Note what a step writes to a row of a tensor: a copy, as it is then."""
        parts = key if type(key) is tuple else (key,)
        (axis,) = (k for k, part in enumerate(parts) if type(part) is not slice)
        item, by, shift = self._writes.get(name, ("", -1, 0))
        known = by == axis and self._numbers[item][0] + shift == parts[axis]
        known = known and name not in self._written and _core.is_grad_enabled() is self._has_graph
        if (
            not known
            or type(value) is not Tensor
            or ((*value.shape,), value.dtype) != self._forms[name]
        ):
            self.has_failed = True  # somebody may catch the error
            raise IndexError(f"a step wrote the row {key} of `{name}`, which it had not before")
        self._written[name] = value.clone()

    def made(self) -> list[Tensor]:
        """What the step has written."""
        if len(self._written) < len(self._writes):
            self.has_failed = True
            return []
        return [self._written[name] for name in self.written()]

    def forget(self) -> None:
        """Let go of what was stacked."""
        self._items = self._items[:1]
        self._columns = [column[:1] for column in self._columns]
        self._tensors, self._apart = {}, []


class Proxy:
    """Has the place of a tensor in a step, which takes or writes rows of it by the item, no more.

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

    def __setitem__(self, key: Any, value: Any) -> None:
        assert self.rows is not None
        self.rows.write(self._name, key, value)


def _form_of_row(t: Tensor, axis: int) -> tuple[Any, Any]:
    return (*t.shape[:axis], *t.shape[axis + 1 :]), t.dtype
