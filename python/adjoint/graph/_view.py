"""The graph as data: nodes, edges, filters, counts.

`Graph` is a picture taken at one moment: it holds the nodes it shows (and with them the memory they
keep), and does not change when more is computed. Read next: `_layout` and `_tree`, the printing.
"""

from __future__ import annotations

import gc
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

from adjoint import _core
from adjoint._core import Node, Tensor

from ._lines import Source, place
from ._names import Names
from ._spans import Owner, owners

Shape = tuple[int, ...]


class GraphNode:
    """One node: what was computed, where, and what is kept for the backward pass.

    Attributes
    ----------
    node : autograd.graph.Node
        The node itself (``y.grad_fn``).
    index : int
        Its number in the graph: 1 is the oldest.
    name : str
        PyTorch's name, ``"MulBackward0"``.
    op : str
        What was called: ``"mul"``; ``"leaf"`` for a tensor whose gradient is accumulated.
    outputs : tuple
        Shape and dtype of each result.
    source : tuple of str and int, or None
        File and line of the program that made it.
    saved_bytes : int
        Memory of the tensors it keeps for the backward pass.
    freed : bool
        A backward pass has freed what it kept; ``freed_by`` is the line of that call.
    children : tuple of (GraphNode or None, int)
        Where its gradients go: the nodes of the op's inputs, and which of their outputs; None for
        an input that needs no gradient.
    inputs : tuple of GraphNode
        The children that are there, each once.
    parents : list of GraphNode
        The nodes that use its results, while a graph with them is alive.
    is_leaf : bool
        Gradients end here, in a tensor's ``.grad``.
    label : str
        The name of the tensor in the program, where it is known.
    module : str
        The path of the module that made it, where `graph.modules` was on; else empty.
    """

    __slots__ = (
        "__weakref__",
        "_kind",
        "_users",
        "children",
        "freed",
        "freed_by",
        "held",
        "index",
        "inputs",
        "is_leaf",
        "label",
        "name",
        "node",
        "op",
        "outputs",
        "source",
    )

    def __init__(self, node: Node, facts: _core._NodeFacts, index: int, kind: int = 0) -> None:
        self.node = node
        self.name, op, self.outputs, self.held, self.source, self.freed, self.freed_by = facts
        self.op: str = _op_label(self.name, op)
        self.is_leaf = self.op == "leaf"
        self.index = index
        self._kind = kind  # a number that nodes with the same op, outputs and line share
        self.label = ""
        self.children: tuple[tuple[GraphNode | None, int], ...] = ()
        self.inputs: tuple[GraphNode, ...] = ()
        self._users: _Users | None = None

    @property
    def parents(self) -> list[GraphNode]:
        """The nodes that use this one, as long as a graph with them lives."""
        return [] if self._users is None else self._users.of(self)

    @property
    def module(self) -> str:
        """The path of the module that made it, where that was recorded."""
        from ._modules import Calls

        call = None if self.is_leaf else Calls().innermost(self.node)
        return "" if call is None else call.path

    @property
    def variable(self) -> Tensor | None:
        """The tensor of a leaf."""
        return self.node.variable if self.is_leaf else None

    @property
    def shape(self) -> Shape:
        """The shape of the first result."""
        return tuple(self.outputs[0][0]) if self.outputs else ()

    @property
    def dtype(self) -> Any:
        """The dtype of the first result."""
        return self.outputs[0][1] if self.outputs else None

    @property
    def saved_bytes(self) -> int:
        """Memory of the tensors kept for the backward pass."""
        return sum(own for _, _, own in self.held)

    def __repr__(self) -> str:
        where = "" if self.is_leaf else f" {place(self.source)}"
        return f"<{self.title} {list(self.shape)} {_dtype_name(self.dtype)}{where}>"

    @property
    def title(self) -> str:
        """The op, with the tensor's name where it is known."""
        return f"{self.op} {self.label}" if self.label else self.op


class _Nodes(list[GraphNode]):
    """All nodes that one call of `graph` found: a list that can be held weakly."""

    __slots__ = ("__weakref__",)


class _Users:
    """Who uses each node: looked for when somebody asks.

    The nodes are held weakly, so that a graph is freed with its last holder, without the garbage
    collector.
    """

    __slots__ = ("_nodes", "_of")

    def __init__(self, nodes: _Nodes) -> None:
        self._nodes = weakref.ref(nodes)
        self._of: dict[int, list[int]] | None = None  # places in the list

    def of(self, node: GraphNode) -> list[GraphNode]:
        nodes = self._nodes()
        if nodes is None:
            return []
        if self._of is None:
            self._of = {}
            for at, n in enumerate(nodes):
                for child in n.inputs:
                    self._of.setdefault(child.index, []).append(at)
        return [nodes[at] for at in self._of.get(node.index, ())]


def _op_label(name: str, op: str | None) -> str:
    if name == "AccumulateGrad":
        return "leaf"
    if name == "CopySlices":
        return f"{op or 'change'}_ through a view"
    if op is not None:
        return op
    return name.removesuffix("Backward") or name


def _dtype_name(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]


Place = Tensor | Node | GraphNode


class Graph:
    """A view of the graph behind one tensor or several.

    Made by ``adjoint.graph(y)``. Iterating gives the nodes, newest first, which is the order in
    which the backward pass runs them. ``print(graph)`` shows a tree.

    Attributes
    ----------
    nodes : list of GraphNode
        All nodes, newest first.
    outputs : list of GraphNode
        The nodes of the tensors the graph was asked for.
    """

    def __init__(
        self,
        nodes: list[GraphNode],
        outputs: list[GraphNode],
        title: str,
        whole: Sequence[GraphNode] = (),
        modules: Mapping[str, Owner] | None = None,
        ends: Sequence[tuple[GraphNode, int]] = (),
    ) -> None:
        self.nodes = nodes
        self._ends = ends  # where a backward pass begins: nodes, and which of their outputs
        self._whole = whole or nodes  # what this is a part of: nodes hold their parents weakly
        self.outputs = outputs
        self._title = title
        self._modules = modules or {}  # that the leaves' names begin with

    @cached_property
    def _members(self) -> set[int]:
        return {id(n) for n in self.nodes}

    def __iter__(self) -> Iterator[GraphNode]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def __contains__(self, place: object) -> bool:
        try:
            return id(self[place]) in self._members  # type: ignore[index]
        except (KeyError, TypeError):
            return False

    def __getitem__(self, place: Place) -> GraphNode:
        """The node of a tensor (or of a ``grad_fn``) in this graph."""
        if isinstance(place, GraphNode):
            if id(place) in self._members:
                return place
            raise KeyError("that node is not in this graph")
        node = _node_of(place)
        for mine in self.nodes:
            if mine.node is node:
                return mine
        raise KeyError(
            "the tensor is not in this graph: nothing shown here was computed from it"
            if isinstance(place, Tensor)
            else "that node is not in this graph"
        )

    @property
    def leaves(self) -> list[GraphNode]:
        """The tensors that get a gradient."""
        return [n for n in self.nodes if n.is_leaf]

    @cached_property
    def roots(self) -> list[GraphNode]:
        """The nodes that no other node of this view uses."""
        used = bytearray(len(self._whole) + 1)
        for n in self.nodes:
            for child in n.inputs:
                used[child.index] = 1
        return [n for n in self.nodes if not used[n.index]]

    @property
    def edges(self) -> list[tuple[GraphNode, GraphNode, int]]:
        """(node, input's node, which of that node's outputs) for every edge of the view."""
        return [
            (n, child, slot)
            for n in self.nodes
            for child, slot in n.children
            if child is not None and id(child) in self._members
        ]

    @property
    def saved_bytes(self) -> int:
        """Memory kept for the backward pass: each block once, the leaves' own memory left out."""
        return sum(whole for whole in self._held().values())

    def _held(self) -> dict[int, int]:
        held = {start: whole for n in self.nodes for start, whole, _ in n.held}
        for leaf in self.leaves:
            held.pop(_core._storage(leaf.node.variable)[0], None)
        return held

    def counts(self) -> dict[str, int]:
        """How often each op occurs, most frequent first."""
        return dict(Counter(n.op for n in self.nodes).most_common())

    def walk(self, start: Place | None = None) -> Iterator[tuple[int, GraphNode]]:
        """Depth first from ``start`` (or the outputs): (depth, node), every node once."""
        begin = self.roots if start is None else [self[start]]
        seen = {id(n) for n in begin}
        stack = [(0, n) for n in reversed(begin)]
        while stack:
            depth, node = stack.pop()
            yield depth, node
            fresh = [c for c in node.inputs if id(c) in self._members and id(c) not in seen]
            seen.update(id(c) for c in fresh)
            stack.extend((depth + 1, c) for c in reversed(fresh))

    def filter(
        self,
        op: str | None = None,
        line: int | str | None = None,
        where: Callable[[GraphNode], bool] | None = None,
    ) -> Graph:
        """The nodes that fit every condition given, as a graph of their own.

        Parameters
        ----------
        op
            An op (``"mul"``) or a node's name (``"MulBackward0"``); ``*`` stands for anything.
        line
            A line number, or ``"train.py:41"``, or ``"train.py"``.
        where
            A function of a `GraphNode`.
        """
        if not (op is None or isinstance(op, str)):
            raise TypeError(f"expected the name of an op, such as 'mul', got {op!r}")
        kept = [
            n
            for n in self.nodes
            if (op is None or fnmatchcase(n.op, op) or fnmatchcase(n.name, op))
            and (line is None or _on_line(n.source, line))
            and (where is None or where(n))
        ]
        members = {id(n) for n in kept}
        outputs = [n for n in self.outputs if id(n) in members]
        return Graph(kept, outputs, self._part_title, self._whole, self._modules)

    def between(self, y: Place, x: Place) -> Graph:
        """The nodes on the paths from ``y`` back to ``x``, both included; empty without a path."""
        top, bottom = self[y], _find(self, x)
        if bottom is None:
            return Graph([], [], self._part_title)
        below, above = bytearray(len(self._whole) + 1), bytearray(len(self._whole) + 1)
        below[top.index] = above[bottom.index] = 1
        for n in self._whole:  # newest first: the users of a node come before it
            if below[n.index]:
                for child in n.inputs:
                    below[child.index] = 1
        for n in reversed(self._whole):
            for child in n.inputs:
                if above[child.index]:
                    above[n.index] = 1
                    break
        kept = [n for n in self.nodes if below[n.index] and above[n.index]]
        return Graph(kept, kept[:1], self._part_title, self._whole, self._modules)

    @property
    def _part_title(self) -> str:
        return f"part of {self._title}"

    def tree(self, fold: bool = True, limit: int | None = 200, width: int = 110) -> str:
        """The graph as text.

        Parameters
        ----------
        fold
            Print repeated parts, such as the steps of a loop, once.
        limit
            Print so many lines at most; None for all.
        width
            Cut lines at this width.
        """
        from ._tree import printed

        return printed(self, fold, limit, width)

    def to_dot(self, name: str = "graph") -> str:
        """The graph in the language of Graphviz: ``dot -Tsvg``."""
        from ._dot import dot

        return dot(self, name)

    def save(self, path: str | os.PathLike[str], backward: bool = False) -> str:
        """Write the graph as a page for a browser: one file that needs nothing else.

        Parameters
        ----------
        path
            The file, ``"graph.html"``.
        backward
            Run a backward pass, too, that keeps the graph and touches no ``.grad`` (hooks run, as
            in any pass): the page then has times, norms of gradients and the steps of the pass.

        Returns
        -------
        str
            The path.
        """
        from ._page import save

        return save(self, path, self._observed() if backward else None)

    def show(self, backward: bool = False) -> str:
        """Open the page in a browser; see `save`. Returns the path of the file."""
        from ._page import show

        return show(self, self._observed() if backward else None)

    def _observed(self) -> list[Any]:
        from .stepping._stepper import observed

        return observed(self)

    def __str__(self) -> str:
        return self.tree()

    def _repr_html_(self) -> str:
        from adjoint.notebook import graph_html

        return graph_html(self)

    def __repr__(self) -> str:
        return f"<{self.title}>"

    @property
    def title(self) -> str:
        """What the graph is of, and how much it holds."""
        from ._lines import size

        leaves = len(self.leaves)
        return (
            f"{self._title}: {_count(len(self.nodes) - leaves, 'node')}, "
            f"{_count(leaves, 'leaf', 'leaves')}, {size(self.saved_bytes)} kept for backward"
        )


def _count(n: int, one: str, many: str = "") -> str:
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def _on_line(source: Source | None, line: int | str) -> bool:
    if source is None:
        return False
    if isinstance(line, int):
        return source[1] == line
    return line in (place(source), f"{source[0]}:{source[1]}", place(source).rpartition(":")[0])


def _find(graph: Graph, place: Place) -> GraphNode | None:
    try:
        return graph[place]
    except KeyError:
        return None


def _node_of(place: Tensor | Node) -> Node | None:
    if isinstance(place, Tensor):
        return _core._gradient_edge(place)[0] if place.requires_grad else None
    if isinstance(place, Node):
        return place
    raise TypeError(f"expected a Tensor or a node of the graph, got {type(place).__name__}")


def build(ends: list[tuple[Node, int]], labels: Mapping[int, str], title: str) -> Graph:
    """Walk from nodes (and which of their outputs is meant) to the leaves, without recursion."""
    with no_collection():
        return _build(ends, labels, title)


def _build(ends: list[tuple[Node, int]], labels: Mapping[int, str], title: str) -> Graph:
    outputs = [node for node, _ in ends]
    found, facts, edges, kinds = _core._graph_facts(outputs)
    nodes = _Nodes(map(GraphNode, found, facts, range(len(found), 0, -1), kinds))
    users = _Users(nodes)
    for n, places in zip(nodes, edges, strict=True):
        n._users = users
        if n.is_leaf:
            n.label = labels.get(id(n.variable), "")
        if not places:
            continue
        if len(places) == 1:  # half of all nodes, or more
            ((at, slot),) = places
            child = None if at is None else nodes[at]
            n.children = ((child, slot),)
            if child is not None:
                n.inputs = (child,)
            continue
        n.children = tuple([(None if at is None else nodes[at], slot) for at, slot in places])
        inputs = [child for child, _ in n.children if child is not None]
        if len(inputs) == 2 and inputs[0] is not inputs[1]:
            n.inputs = (inputs[0], inputs[1])
        else:
            n.inputs = tuple({child.index: child for child in inputs}.values())
    wanted = {id(node) for node in outputs}
    tops = {id(n.node): n for n in nodes if id(n.node) in wanted}
    modules = None
    if isinstance(labels, Names) and labels.models:
        modules = owners(labels.models, (n.label for n in nodes if n.is_leaf))
    tops_in_order = list({id(n): tops[id(n)] for n in outputs}.values())
    starts = dict.fromkeys((tops[id(node)], slot) for node, slot in ends)
    return Graph(nodes, tops_in_order, title, (), modules, list(starts))


_MANY_OBJECTS = 50_000  # a look at fewer takes less than a few milliseconds


@contextmanager
def no_collection() -> Iterator[None]:
    """Hold the garbage collector off: it would go over the whole graph again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            # What was made counts as old, without a look at it. To ask what a program has frozen is
            # to count it, object by object.
            if gc.get_count()[0] > _MANY_OBJECTS and gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
