"""Which call of a module made a node: a table of calls, filled while somebody asks for it.

Nodes are numbered as they are made, so a call of a module owns the numbers between those of the
newest node before and after it. Nothing is written into nodes, and nothing happens while nobody
asks. Calls that run at the same time in several threads share numbers, and may share nodes.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adjoint import _core

if TYPE_CHECKING:
    from ._view import Graph, GraphNode


@dataclass(slots=True)
class Call:
    """A call of a module: the nodes from ``first`` to ``last`` were made in it."""

    path: str  # "encoder.layers.0"; the class of the outermost module
    kind: str  # the class
    first: int
    last: int = 0
    parent: Call | None = None
    is_told: bool = False  # by the parameters that nodes read, not recorded


_calls: list[Call] = []  # of the newest recording, in the order in which they began


@contextmanager
def modules() -> Iterator[None]:
    """Remember which module made which nodes, so that graphs show each call as a box.

    Graphs that are shown later, too, until it is called again. It keeps a few numbers per call of
    a module, and costs nothing outside. Without it, pages show modules from the first node that
    reads their parameters to the last.

    Examples
    --------
    >>> import adjoint as ad
    >>> net = ad.nn.Sequential(ad.nn.Linear(2, 3), ad.nn.Tanh())
    >>> with ad.graph.modules():
    ...     y = net(ad.ones(2))
    >>> [node.module for node in ad.graph(y) if not node.is_leaf]
    ['Sequential.1', 'Sequential.0']
    """
    from adjoint.nn.modules.module import (
        register_module_forward_hook,
        register_module_forward_pre_hook,
    )

    _calls.clear()
    running = _Running()
    before = register_module_forward_pre_hook(running.enter)
    after = register_module_forward_hook(running.leave, always_call=True)
    try:
        yield
    finally:
        before.remove()
        after.remove()


class _Running(threading.local):
    """The calls under way in a thread, and the paths of the outermost module's parts."""

    def __init__(self) -> None:
        self.stack: list[Call] = []
        self.paths: dict[int, str] = {}

    def enter(self, module: Any, args: Any) -> None:
        if not self.stack:
            root = type(module).__name__
            self.paths = {id(m): f"{root}.{p}" if p else root for p, m in module.named_modules()}
        kind = type(module).__name__
        parent = self.stack[-1] if self.stack else None
        path = self.paths.get(id(module), kind)
        call = Call(path, kind, _core._last_sequence() + 1, parent=parent)
        self.stack.append(call)
        _calls.append(call)

    def leave(self, module: Any, args: Any, output: Any) -> None:
        if self.stack:  # entered before the recording began, if not
            self.stack.pop().last = _core._last_sequence()


class Calls:
    """The table, for questions: which call made a node.

    Of a graph whose calls were not recorded, what its parameters tell.
    """

    def __init__(self, graph: Graph | None = None) -> None:
        self._calls = [c for c in _calls if c.last >= c.first]
        self._first = [c.first for c in self._calls]
        if graph is not None and not (self._calls and any(map(self._path_of_op, graph.nodes))):
            from ._spans import spans

            self._calls = spans(graph)
            self._first = [c.first for c in self._calls]

    def _path_of_op(self, node: GraphNode) -> str:
        return "" if node.is_leaf else self.path_of(node)

    def __bool__(self) -> bool:
        return bool(self._calls)

    def path_of(self, node: GraphNode) -> str:
        """The path of the module that made a node; empty where that is not known."""
        call = self.innermost(node.node) if self._calls else None
        return call.path if call else ""

    def innermost(self, node: _core.Node) -> Call | None:
        """The innermost call that was under way when the node was made."""
        number = node._sequence_nr()
        at = bisect_right(self._first, number) - 1
        call = self._calls[at] if at >= 0 else None
        while call is not None and number > call.last:
            call = call.parent
        return call


def chain(call: Call | None) -> list[Call]:
    """The calls around it, the outermost first."""
    found: list[Call] = []
    while call is not None:
        found.append(call)
        call = call.parent
    return found[::-1]
