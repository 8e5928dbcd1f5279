"""Where a history ended: the way from a result back to a tensor, across cuts.

A result without history remembers why (``src/graph/cut.h``). Read next: `_explain`.
"""

from __future__ import annotations

from dataclasses import dataclass

from adjoint import _core
from adjoint._core import Node, Tensor

from . import _lines


@dataclass(frozen=True)
class Break:
    """A place where the history ended.

    Attributes
    ----------
    reason : str
        ``"detach"``, ``"data"``, ``"no_grad"``, ``"inference_mode"``, ``"not differentiable"`` (an
        integer or bool result) or ``"no derivative"``.
    op : str or None
        The op whose result has no history; ``"tensor"`` or ``"Parameter"`` where such a
        constructor took the value (``reason`` is ``"detach"``).
    source : tuple of str and int
        File and line.
    """

    reason: str
    op: str | None
    source: _lines.Source

    def says(self) -> str:
        """What happened, for somebody who has not seen it before."""
        if self.reason == "detach" and self.op:
            made = "copied the value" if self.op == "tensor" else "made a new leaf of the value,"
            return f"{self.op}(...) {made} without its history, so no gradient goes through it"
        op = f"`{self.op}`" if self.op else "an operation"
        return {
            "detach": "detach() gave the value without its history, so no gradient goes through it",
            "data": ".data gave the value without its history, so no gradient goes through it",
            "no_grad": f"{op} ran under no_grad(), so it was not recorded",
            "inference_mode": f"{op} ran under inference_mode(), so it was not recorded",
            "not differentiable": f"{op} gave integers or booleans, which have no derivative",
            "no derivative": f"{op} has no derivative",
        }.get(self.reason, f"{op} was not recorded ({self.reason})")

    def fix(self) -> str:
        """What to change, if the gradient is wanted."""
        if self.reason == "detach" and self.op:
            fix = f"use the tensor itself, or its clone(), instead of {self.op}(...) of it"
            if self.op == "tensor":
                fix += "; adjoint.stack([...]) instead of tensor([...]) of several"
            return fix
        return {
            "detach": "use the tensor itself instead of its detach()",
            "data": "use the tensor itself instead of its .data",
            "no_grad": "move this line out of no_grad()",
            "inference_mode": "move this line out of inference_mode()",
            "not differentiable": "keep floating point here, or put something smooth in its place "
            "(softmax for argmax, sigmoid for a comparison)",
        }.get(self.reason, "put an op with a derivative in its place")


@dataclass(frozen=True)
class Search:
    """What was found between a result and a node.

    Attributes
    ----------
    breaks : list of Break
        Those on the way to the node, from the result's side; empty when there is none.
    connected : bool
        There is a way without breaks.
    others : list of Break
        Breaks behind which nothing can be seen any more: the node may have been there.
    """

    breaks: list[Break]
    connected: bool
    others: list[Break]


def search(loss: Tensor, target: Node) -> Search:
    """Look for the way with the fewest breaks; every node once, without recursion."""
    others: dict[Break, None] = {}
    # Nodes behind breaks, with the breaks on the way to them: those with fewer come first. They are
    # kept, since what is only seen could be freed and its place taken by another.
    waiting: list[tuple[Node, tuple[Break, ...]]] = []
    if loss.requires_grad:
        waiting.append((_core._gradient_edge(loss)[0], ()))
    _follow_cuts(loss, (), waiting, others)
    seen = _core._new_seen()
    for start, passed in waiting:
        found, with_cuts = _core._walk(start, target, seen)
        if found:
            return Search(list(passed), not passed, [])
        for node in with_cuts:
            _follow_cuts(node, passed, waiting, others)
            # A leaf that x.detach().requires_grad_() made is where x's history ended; it may have
            # been made from a result, too: Parameter(h), tensor(h, requires_grad=True).
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                _follow_cuts(leaf, passed, waiting, others)
    return Search([], False, list(others))


def _follow_cuts(
    place: Tensor | Node,
    passed: tuple[Break, ...],
    waiting: list[tuple[Node, tuple[Break, ...]]],
    others: dict[Break, None],
) -> None:
    for cut, behind in cuts_of(place):
        if behind is not None:
            waiting.append((behind, (*passed, cut)))
        else:
            others[cut] = None


def cuts_of(place: Tensor | Node) -> list[tuple[Break, Node | None]]:
    """Why a tensor, or operands of a node, have no history; with the node behind, if it lives."""
    return [
        (Break(reason, op, source), node) for reason, op, source, node in _core._cut_facts(place)
    ]


def on_purpose(cut: Break) -> bool:
    """Whether somebody asked for it, rather than compared or rounded something."""
    return cut.reason in ("detach", "data", "no_grad", "inference_mode")


def leads_to(start: Node, target: Node) -> bool:
    """Whether ``target`` is behind ``start``."""
    return _core._walk(start, target, _core._new_seen())[0]
