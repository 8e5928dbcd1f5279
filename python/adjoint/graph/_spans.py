"""The modules of a graph whose calls nobody recorded, told by their parameters.

A module begins with the first node that reads one of its parameters and ends with the last,
as long as no other module's come between; nodes right before and after belong to it, too, if their
lines are of its class's ``forward``. `graph.modules` records the calls themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TYPE_CHECKING, Any

from ._modules import Call

if TYPE_CHECKING:
    from ._view import Graph, GraphNode

_LIBRARY = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@dataclass(frozen=True, slots=True)
class Owner:
    """A module, without a hold on it: its class, and the lines of its ``forward``."""

    kind: str
    is_called: bool  # lists of modules are not
    file: str = ""
    first: int = 0
    last: int = 0


def owners(models: Mapping[str, Any], labels: Iterator[str]) -> dict[str, Owner]:
    """The modules that parameters of these names belong to, and those around them, by path."""
    paths: dict[str, Owner] = {}
    roots = {label.partition(".")[0] for label in labels if "." in label}
    for root in roots & models.keys():
        for path, module in models[root].named_modules():
            paths[f"{root}.{path}" if path else root] = _owner(module)
    return paths


def _owner(module: Any) -> Owner:
    kind = type(module)
    is_called = "forward" in dir(kind) and kind.__name__ not in ("ModuleList", "ModuleDict")
    code = getattr(getattr(kind, "forward", None), "__code__", None)
    if code is None or os.path.abspath(code.co_filename).startswith(_LIBRARY):
        return Owner(kind.__name__, is_called)
    last = max(line or 0 for _, _, line in code.co_lines())
    return Owner(kind.__name__, is_called, code.co_filename, code.co_firstlineno, last)


def spans(graph: Graph) -> list[Call]:
    """What is known of calls by parameters, outer ones before inner, in the order of time."""
    if not graph._modules:
        return []
    ops = [n for n in reversed(graph.nodes) if not n.is_leaf]
    uses = [
        (at, path)
        for at, node in enumerate(ops)
        if (path := _owner_path(node, graph._modules)) is not None
    ]
    found: list[Call] = []
    _Spans(ops, graph._modules, found).add(uses, 0, 0, len(ops), None)
    return found


def _owner_path(node: GraphNode, known: Mapping[str, Owner]) -> tuple[str, ...] | None:
    """The module whose parameters a node reads; that around them, if they are of several."""
    paths = [leaf.label.split(".")[:-1] for leaf in node.inputs if leaf.is_leaf and leaf.label]
    paths = [path for path in paths if path and ".".join(path) in known]
    if not paths:
        return None
    parts = takewhile(lambda at: len(set(at)) == 1, zip(*paths, strict=False))
    return tuple(at[0] for at in parts) or None


class _Spans:
    """Adds the calls of modules to a list, module by module from the outside."""

    def __init__(self, ops: list[GraphNode], known: Mapping[str, Owner], found: list[Call]) -> None:
        self._ops, self._known, self._found = ops, known, found
        self._openings: set[int] = set()  # what calls begin with, before parameters: instructions

    def add(
        self,
        uses: list[tuple[int, tuple[str, ...]]],
        depth: int,
        begin: int,
        end: int,
        parent: Call | None,
    ) -> None:
        """The modules at ``depth`` of paths, between two places; nested as deep as modules are."""
        before = begin
        runs = [list(run) for _, run in groupby(uses, key=lambda use: use[1][: depth + 1])]
        for i, run in enumerate(runs):
            path = run[0][1][: depth + 1]
            if len(path) <= depth:  # parameters of the module around
                continue
            after = runs[i + 1][0][0] if i + 1 < len(runs) else end
            owner = self._known[".".join(path)]
            if not owner.is_called:
                self.add(run, depth + 1, before, after, parent)
                before = run[-1][0] + 1
                continue
            first, last = self._widened(run[0][0], run[-1][0], before, after, owner)
            before = last + 1
            call = Call(
                ".".join(path), owner.kind, self._number(first), self._number(last), parent, True
            )
            self._found.append(call)
            self.add(run, depth + 1, first, last + 1, call)

    def _number(self, at: int) -> int:
        return self._ops[at].node._sequence_nr()

    def _widened(
        self, first: int, last: int, before: int, after: int, owner: Owner
    ) -> tuple[int, int]:
        """With the nodes around whose lines are of its ``forward``, in the order of its lines."""
        if not owner.file:
            return first, last
        line = self._line(last, owner)
        for at in range(last + 1, after):
            here = self._line(at, owner)
            if here and (here < line or id(self._ops[at].source) in self._openings):
                break  # the next call of a module of this class
            if here:
                last, line = at, here
        line = self._line(first, owner) or owner.last
        for at in range(first - 1, before - 1, -1):
            here = self._line(at, owner)
            if here > line:
                break
            if here:
                first, line = at, here
                self._openings.add(id(self._ops[at].source))
        return first, last

    def _line(self, at: int, owner: Owner) -> int:
        """The line of a node in a ``forward``; 0 if it is not of it."""
        source = self._ops[at].source
        if source is None or source[0] != owner.file or not owner.first <= source[1] <= owner.last:
            return 0
        return source[1]
