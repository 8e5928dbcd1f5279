"""Repeated rows become blocks: the steps of a loop are shown once, with their number.

Rows are alike when op, shapes, dtypes and source line are, and what hangs beside them is alike too.
Inner loops fold first; what remains folds again, so nested loops become nested blocks.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from ._layout import Row, Spine
from ._view import GraphNode

_CANDIDATES = 8  # periods tried at each row
_PASSES = 8  # loops nested deeper stay partly unfolded


@dataclass(slots=True)
class Block:
    """``count`` repetitions of ``items``."""

    count: int
    items: list[Item]
    rest: list[GraphNode]  # leaves that only the last repetition has: where the loop began
    rows: list[Item]  # all repetitions one after another, the first as it was before it was folded


Item = Row | Block


class Folder:
    """Gives equal numbers to what is alike, and folds."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._of_spine: dict[int, int] = {}
        self._like_spine: dict[int, int] = {}

    def number(self, key: Hashable) -> int:
        """The same small number for equal keys."""
        return self._numbers.setdefault(key, len(self._numbers))

    def likeness(self, spine: Spine) -> int:
        """The same for spines that differ only in leaves; after `fold_all`."""
        return self._like_spine[id(spine)]

    def fold_all(self, spines: list[Spine]) -> dict[int, list[Item]]:
        """The folded items of each spine, by its id."""
        folded: dict[int, list[Item]] = {}
        for spine in reversed(spines):  # branches before the spines they hang on
            exact = [self._exact(row) for row in spine.rows]
            alike = [self._alike(row) for row in spine.rows]
            items, exact, alike = self._fold(list(spine.rows), exact, alike)
            folded[id(spine)] = items
            self._of_spine[id(spine)] = self.number(("spine", *exact))
            self._like_spine[id(spine)] = self.number(("spine", *alike))
        return folded

    def _alike(self, row: Row) -> int:
        """The same for rows that differ only in the leaves and later rows they refer to."""
        if not row.branches:
            return self.number(("row", row.node._kind))
        return self.number(
            ("row", row.node._kind, *[self._like_spine[id(s)] for s in row.branches])
        )

    def _exact(self, row: Row) -> int:
        leaves = tuple([n.index for n in row.leaves])
        if not (row.later or row.branches):
            return self.number((row.node._kind, leaves))
        return self.number(
            (
                row.node._kind,
                leaves,
                tuple([n._kind for n in row.later]),
                tuple([self._of_spine[id(s)] for s in row.branches]),
            )
        )

    def _fold(
        self, items: list[Item], exact: list[int], alike: list[int]
    ) -> tuple[list[Item], list[int], list[int]]:
        for _ in range(_PASSES):
            before = len(items)
            items, exact, alike = self._pass(items, exact, alike)
            if len(items) == before:
                break
        return items, exact, alike

    def _pass(
        self, items: list[Item], exact: list[int], alike: list[int]
    ) -> tuple[list[Item], list[int], list[int]]:
        following = next_equal(exact)
        new_items: list[Item] = []
        new_exact: list[int] = []
        new_alike: list[int] = []
        i = 0
        while i < len(items):
            period, count = repetition(i, exact, following)
            if not period:
                new_items.append(items[i])
                new_exact.append(exact[i])
                new_alike.append(alike[i])
                i += 1
                continue
            end = i + period * count
            rest: list[GraphNode] = []
            if alike[i : i + period] == alike[end : end + period]:  # the loop's first step
                rest = _extra_leaves(items[i : i + period], items[end : end + period])
                count += 1
                end += period
            body, ids, _ = self._fold(
                items[i : i + period], exact[i : i + period], alike[i : i + period]
            )
            new_items.append(Block(count, body, rest, items[i:end]))
            new_exact.append(self.number(("block", count, *ids, *(id(n) for n in rest))))
            new_alike.append(self.number(("block", count, *alike[i : i + period])))
            i = end
        return new_items, new_exact, new_alike


def next_equal(ids: list[int]) -> list[int]:
    """Where each number occurs next; far behind the end of the list if nowhere."""
    nowhere = 2 * len(ids)
    following = [nowhere] * len(ids)
    last: dict[int, int] = {}
    for i in range(len(ids) - 1, -1, -1):
        following[i] = last.get(ids[i], nowhere)
        last[ids[i]] = i
    return following


def repetition(
    i: int, ids: list[int], following: list[int], longest: int | None = None
) -> tuple[int, int]:
    """Period and count of the repetition that starts at ``i``; period 0 if none is worth it."""
    j = i
    for _ in range(_CANDIDATES):
        j = following[j]
        period = j - i
        if j + period > len(ids) or (longest is not None and period > longest):
            break
        # The ends first: most candidates fail there, without a copy of the part between.
        if ids[j - 1] != ids[j + period - 1] or ids[i:j] != ids[j : j + period]:
            continue
        count = 2
        while ids[i + count * period : i + (count + 1) * period] == ids[i:j]:
            count += 1
        if period * (count - 1) >= 2:
            return period, count
    return 0, 0


def possible_starts(ids: list[int], following: list[int], longest: int) -> list[int]:
    """Where `repetition` may find one: a look at a few places rules out most others."""
    n = len(ids)
    numbers, after = np.array(ids), np.array(following)
    at = np.arange(n)
    behind, found = at, np.zeros(n, dtype=bool)
    for _ in range(_CANDIDATES):
        behind = after[behind]
        period = behind - at
        fits = (behind + period <= n) & (period <= longest)
        at, behind, period = at[fits], behind[fits], period[fits]
        if not at.size:
            break
        alike = numbers[behind - 1] == numbers[behind + period - 1]
        alike &= numbers[at + period // 2] == numbers[behind + period // 2]
        found[at[alike]] = True
    starts: list[int] = found.nonzero()[0].tolist()
    return starts


def _extra_leaves(model: list[Item], last: list[Item]) -> list[GraphNode]:
    known = {id(n) for n in _leaves_in(model)}
    return [n for n in _leaves_in(last) if id(n) not in known]


def _leaves_in(items: list[Item]) -> list[GraphNode]:
    found: dict[int, GraphNode] = {}
    stack = list(items)
    while stack:
        item = stack.pop()
        if isinstance(item, Block):
            stack.extend(item.items)
        else:
            found.update((id(n), n) for n in item.leaves)
            stack.extend(row for s in item.branches for row in s.rows)
    return list(found.values())
