"""The pass under control: `Stepper`."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Any

from adjoint import _core
from adjoint._core import Node, Tensor
from adjoint.graph._lines import described
from adjoint.graph._view import Graph, GraphNode, Place, _node_of

from ._breaks import Breaks
from ._memory import Memory
from ._numbers import numbers
from ._record import Delivery, GradientTensors, Step


class Stepper:
    """A backward pass that runs when, and as far as, it is told to; made by ``adjoint.step(y)``.

    It is the engine's own pass, one node at a time, with all hooks, on the thread that calls. What
    has run is remembered in a few numbers per gradient, so that `back` can show it again; nothing
    is undone. A pass that is not run to its end leaves the gradients it has accumulated so far, and
    what it has freed is freed; it costs nothing but what it holds.

    Attributes
    ----------
    graph : Graph
        The graph it goes through.
    history : list of Step
        The nodes that have run.
    position : int
        How many of them are in view: `back` lowers it, `next` raises it and runs on at the end.
    """

    def __init__(
        self,
        graph: Graph,
        native: _core._Pass,
        outputs: tuple[Any, ...],
        inputs: tuple[Any, ...],
        retain_graph: bool,
    ) -> None:
        self.graph = graph
        self.history: list[Step] = []
        self.position = 0
        self._keep = retain_graph
        self._memory = Memory(graph)
        self._breaks = Breaks()
        self._by_node = {id(n.node): n for n in graph.nodes}
        self._wanted = _wanted(graph, inputs)
        self._pass = native
        self._arrivals = dict.fromkeys(
            [(id(node), slot) for node, slot in map(edge_of, outputs)], True
        )
        self._tensors: tuple[GradientTensors, GradientTensors] = ((), ())

    # --- where it is
    @property
    def current(self) -> Step | None:
        """The step in view; None before the first."""
        return self.history[self.position - 1] if self.position else None

    @property
    def upcoming(self) -> GraphNode | None:
        """The node that the engine runs next; None when the pass is over."""
        node = self._pass.upcoming()
        return None if node is None else self._by_node[id(node)]

    @property
    def done(self) -> bool:
        """Whether the pass is over: every node has run, or an error or `close` ended it."""
        return self._pass.upcoming() is None

    @property
    def waiting(self) -> list[tuple[GraphNode, tuple[Tensor | None, ...]]]:
        """The nodes that gradients have arrived at, the next one first, with the sums so far."""
        return [(self._by_node[id(node)], sums) for node, sums in self._pass.waiting()]

    @property
    def gradients(self) -> GradientTensors:
        """What the newest step's node got, one tensor per output, hooks included."""
        return self._tensors[0]

    @property
    def results(self) -> GradientTensors:
        """What the newest step's node passed on, one tensor per input."""
        return self._tensors[1]

    # --- moving
    def next(self, count: int = 1) -> Step | None:
        """Go on by one node (or ``count``): through the history first, then in the engine.

        Returns
        -------
        Step or None
            The step in view, None if nothing has run.
        """
        for _ in range(_natural(count)):
            if self.position < len(self.history):
                self.position += 1
            elif self.done:
                break
            else:
                self._run_one()
        return self.current

    def back(self, count: int = 1) -> Step | None:
        """Look at the step before (or ``count`` before). Nothing is undone.

        Returns
        -------
        Step or None
            The step in view, None before the first.
        """
        self.position = max(0, self.position - _natural(count))
        return self.current

    def break_on(
        self,
        *,
        nan: bool | None = None,
        zero: bool | None = None,
        norm: float | None = None,
        where: Callable[[Step], bool] | None = None,
    ) -> Stepper:
        """Say where `run` and `run_to` stop by themselves.

        They stop after the node that made such a gradient, not at all those that pass it on.

        Parameters
        ----------
        nan
            A gradient holds NaN.
        zero
            A gradient is zero throughout.
        norm
            The norm of a gradient is above this (NaN counts as above).
        where
            A function of a `Step` that returns true.

        Returns
        -------
        Stepper
            Itself. What is not given stays as it was.
        """
        self._breaks.set(nan, zero, norm, where)
        return self

    def run(self) -> Step | None:
        """Go on to the end, or to a break.

        Returns
        -------
        Step or None
            The step of the break; None when the pass has come to its end.
        """
        return self._run_until(lambda: False)

    def run_to(
        self,
        place: Place | None = None,
        *,
        line: int | str | None = None,
        op: str | None = None,
    ) -> GraphNode | None:
        """Go on until such a node is the next to run, or to a break.

        Parameters
        ----------
        place
            A tensor, its ``grad_fn``, or a node of the graph.
        line
            A line: ``41``, ``"train.py:41"``.
        op
            An op: ``"tanh"``.

        Returns
        -------
        GraphNode or None
            The node that runs next. None if the pass is over without having come there.

        Raises
        ------
        ValueError
            No node that is still to run is meant.
        """
        targets = self._targets(place, line, op)
        self._run_until(lambda: self._pass.upcoming() in targets)
        return self.upcoming

    def finish(self) -> None:
        """Run to the end, whatever the breaks."""
        while not self.done:
            self._run_one()
        self.position = len(self.history)

    def close(self) -> None:
        """Abandon the pass: what has not run never will."""
        self._pass.close()
        self._tensors = ((), ())

    def __enter__(self) -> Stepper:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # --- showing
    def __repr__(self) -> str:
        state = "over" if self.done else f"next: {self.upcoming!r}"
        return f"<backward pass, {len(self.history)} of {len(self.graph)} nodes have run, {state}>"

    def __str__(self) -> str:
        from ._terminal import plain_stepper

        return plain_stepper(self)

    def _repr_html_(self) -> str:
        from adjoint.notebook import text_html

        return text_html(str(self))

    def interact(self) -> None:
        """Step from a prompt in the terminal: ``n``, ``b``, ``r``, ``l 41``; ``h`` lists them."""
        from ._terminal import interact

        interact(self)

    def save(self, path: str | os.PathLike[str]) -> str:
        """Run to the end, and write the pass as a page with a slider; returns the path."""
        from adjoint.graph._page import save

        self.finish()
        return save(self.graph, path, self.history)

    def show(self) -> str:
        """Run to the end, and open the pass in a browser; returns the path of the page."""
        from adjoint.graph._page import show

        self.finish()
        return show(self.graph, self.history)

    # --- inside
    def _run_until(self, reached: Callable[[], bool]) -> Step | None:
        self.position = len(self.history)
        while not self.done and not reached():
            if self._run_one().breaks:
                return self.current
        return None

    def _run_one(self) -> Step:
        upcoming = self.upcoming
        if upcoming is None:
            raise RuntimeError("this backward pass is over")
        leaf = upcoming.variable
        before = None if leaf is None else numbers(leaf.grad)
        self._tensors = ((), ())  # so that the engine may write over what is no longer needed
        arrived, used, sent, seconds = self._pass.step()
        self._tensors = (used, sent or ())
        ended = sent is None and not upcoming.is_leaf  # taken out for `inputs`
        step = Step(
            len(self.history) + 1,
            upcoming,
            tuple(map(numbers, arrived)),
            tuple(map(numbers, used)),
            () if sent is None else self._delivered(upcoming, sent),
            before,
            None if leaf is None else numbers(leaf.grad),
            0 if self._keep or ended else self._memory.release(upcoming),
            seconds,
        )
        self.history.append(step)  # it has run, even if a condition of the user's raises
        self.position = len(self.history)
        self.history[-1] = self._breaks.judged(step)
        return self.history[-1]

    def _delivered(self, node: GraphNode, sent: GradientTensors) -> tuple[Delivery, ...]:
        found = []
        for (child, slot), grad in zip(node.children, sent, strict=True):
            if child is None or not (self._wanted is None or self._wanted[child.index]):
                continue
            place = (id(child.node), slot)
            found.append(Delivery(child, slot, numbers(grad), self._arrivals.get(place, False)))
            if grad is not None:
                self._arrivals[place] = True
        return tuple(found)

    def _targets(self, place: Place | None, line: int | str | None, op: str | None) -> set[Node]:
        if place is None and line is None and op is None:
            raise TypeError("run_to(): expected a tensor, a node, line= or op=")
        found = self.graph.filter(op, line).nodes
        if place is not None:
            wanted = place.node if isinstance(place, GraphNode) else _node_of(place)
            found = [n for n in found if n.node is wanted]
        ran = {step.node.index for step in self.history}
        left = {n.node for n in found if n.index not in ran}
        if not left:
            what = f"{len(found)} such nodes have run already" if found else "there is none"
            raise ValueError(f"run_to(): no node that is still to run is meant: {what}")
        return left


def edge_of(output: Any) -> tuple[Node, int]:
    """Where the gradient of an output, or of an input, goes."""
    edge = _core._gradient_edge(output) if isinstance(output, Tensor) else output
    return edge[0], edge[1]


def _natural(count: int) -> int:
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"expected a number of steps, got {count!r}")
    return count


def _wanted(graph: Graph, inputs: tuple[Any, ...]) -> bytearray | None:
    """Which nodes lead to ``inputs``, by number; None if all are wanted."""
    if not inputs:
        return None
    ends = {id(edge_of(i)[0]) for i in inputs}
    wanted = bytearray(len(graph.nodes) + 1)
    for n in reversed(graph.nodes):  # inputs of a node before it
        if id(n.node) in ends or any(wanted[child.index] for child in n.inputs):
            wanted[n.index] = 1
    return wanted


def observed(graph: Graph) -> list[Step]:
    """The steps of a pass over all of a graph that keeps it, and touches no ``.grad``."""
    if graph._whole is not graph.nodes:
        raise ValueError(
            "this is a part of a graph, which no backward pass runs by itself: show the whole "
            "graph with backward=True, or this part without"
        )
    freed = next((n for n in graph.nodes if n.freed), None)
    if freed is not None:
        raise RuntimeError(
            f"the graph was freed, so no backward pass can run: {freed!r} was run by "
            f"{described(freed.freed_by)}\n  fix: show it before backward(), or after "
            "backward(retain_graph=True)"
        )
    outputs = tuple((n.node, slot) for n, slot in graph._ends)
    made = [n.outputs[slot] for n, slot in graph._ends]
    grads = tuple(_core.ones(shape, dtype=dtype) for shape, dtype in made)
    leaves = tuple((n.node, 0) for n in graph.leaves)
    native = _core._Pass(outputs, grads, True, False, leaves, False)
    stepper = Stepper(graph, native, outputs, leaves, True)
    stepper.finish()
    return stepper.history
