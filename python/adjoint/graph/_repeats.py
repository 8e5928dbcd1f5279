"""Nodes in the order in which they were made, with what repeats put together: the loops of a page.

Steps of a loop are made one after another, whatever they compute from what. Nodes are alike when
op, shapes, dtypes, line and module are; steps that read other leaves are put together only where
there are many. Inner loops come first; what remains is looked at again. The text of a graph folds
along its spines instead: `_fold`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import sub

from ._fold import next_equal, possible_starts, repetition
from ._view import GraphNode

_PASSES = 100  # enough for steps of a million nodes, and loops in loops
FEW = 3  # steps with leaves of their own that are still shown one by one


@dataclass(slots=True)
class Repeat:
    """``count`` steps that are alike: the newest, and the nodes of all, newest first."""

    count: int
    items: list[Item]
    steps: list[list[GraphNode]]


Item = GraphNode | Repeat


def repeats(nodes: Sequence[GraphNode], extra: Callable[[GraphNode], Hashable]) -> list[Item]:
    """What repeats, put together; ``extra`` is what nodes of one kind may differ in besides."""
    return _Repeats().found(nodes, extra)


class _Repeats:
    """Numbers that are equal where things are: with their leaves (`exact`), and without."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}

    def found(
        self, nodes: Sequence[GraphNode], extra: Callable[[GraphNode], Hashable]
    ) -> list[Item]:
        items: list[Item] = list(nodes)
        alike = [self._number((n._kind, extra(n))) for n in nodes]
        exact = [self._with_leaves(n, number) for n, number in zip(nodes, alike, strict=True)]
        items, exact, alike = self._fold(items, exact, alike, 1)
        return self._fold(items, alike, alike, FEW)[0]

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _with_leaves(self, node: GraphNode, number: int) -> int:
        leaves = [n.index for n in node.inputs if n.is_leaf]
        return self._number((number, *leaves)) if leaves else number

    def _fold(
        self, items: list[Item], exact: list[int], alike: list[int], few: int
    ) -> tuple[list[Item], list[int], list[int]]:
        # Short steps first: a step that holds an inner loop is more than twice as long as a step
        # of that, so no loop is taken to begin in the midst of an inner one.
        following, longest = next_equal(exact), 1
        for _ in range(_PASSES):
            # No step is shorter than the shortest way from a thing to the next that is equal.
            longest = max(longest, min(map(sub, following, range(len(items))), default=1))
            if longest > len(items):
                break
            before = len(items)
            items, exact, alike = self._pass(items, exact, alike, few, longest, following)
            if len(items) == before:
                longest *= 2
            else:
                following, longest = next_equal(exact), 1
        return items, exact, alike

    def _pass(
        self,
        items: list[Item],
        exact: list[int],
        alike: list[int],
        few: int,
        longest: int,
        following: list[int],
    ) -> tuple[list[Item], list[int], list[int]]:
        new_items: list[Item] = []
        new_exact: list[int] = []
        new_alike: list[int] = []
        done = 0

        def copy(end: int) -> None:
            new_items.extend(items[done:end])
            new_exact.extend(exact[done:end])
            new_alike.extend(alike[done:end])

        for i in possible_starts(exact, following, longest):
            if i < done:
                continue
            period, count = repetition(i, exact, following, longest)
            end = i + period * count
            if period and alike[i : i + period] == alike[end : end + period]:
                count += 1  # the loop's first step, which starts from something else
                end += period
            if count <= few:
                continue
            copy(i)
            part = slice(i, i + period)
            steps = _steps(items[i:end], period)
            new_items.append(Repeat(count, items[part], steps))
            new_exact.append(self._number(("exact", count, *exact[part])))
            new_alike.append(self._number(("alike", count, *alike[part])))
            done = end
        copy(len(items))
        return new_items, new_exact, new_alike


def _steps(items: list[Item], period: int) -> list[list[GraphNode]]:
    """The nodes of each step, those of all steps of inner loops among them."""
    parts = [items[at : at + period] for at in range(0, len(items), period)]
    if all(isinstance(item, GraphNode) for item in parts[0]):
        return parts  # type: ignore[return-value]
    return [[n for item in part for n in _nodes(item)] for part in parts]


def _nodes(item: Item) -> Iterable[GraphNode]:
    return [item] if isinstance(item, GraphNode) else chain.from_iterable(item.steps)
