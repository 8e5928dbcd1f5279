"""A backward pass that is watched: which node made the gradient vanish, go NaN, or not arrive.

The graph is kept, no ``.grad`` is touched; hooks of the user run, as in any backward pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from adjoint import _core
from adjoint._core import Tensor
from adjoint._op_facts import facts_of
from adjoint.autograd._strong_zeros import strong_zeros

from . import _lines
from ._view import Graph, GraphNode


@dataclass
class Probe:
    """What the gradient did on its way.

    Attributes
    ----------
    grad : Tensor or None
        What arrived at the tensor.
    zeroed, poisoned, withheld : list of GraphNode
        Nodes that got a gradient and passed on zeros only, NaN or infinity, or nothing; in the
        order in which they ran.
    made_nan : list of GraphNode
        Nodes that got no NaN and passed on some: those that `detect_anomaly` stops at.
    largest : dict
        The largest absolute value of the gradient that such a node got.
    """

    grad: Tensor | None = None
    zeroed: list[GraphNode] = field(default_factory=list)
    poisoned: list[GraphNode] = field(default_factory=list)
    withheld: list[GraphNode] = field(default_factory=list)
    made_nan: list[GraphNode] = field(default_factory=list)
    largest: dict[int, float] = field(default_factory=dict)


def probe(loss: Tensor, x: Tensor, between: Graph) -> Probe:
    """Run backward from ``loss`` to ``x`` and look at every node of ``between``."""
    result = Probe()
    nodes = [n.node for n in between]
    start = _core.ones_like(loss.detach())
    result.grad, events = _core._observe_backward(loss, start, x, nodes)
    for place, what, largest in events:
        node = between.nodes[place]
        getattr(result, what).append(node)
        if what == "zeroed":
            result.largest[id(node)] = largest
    return result


def helped_by_strong_zeros(loss: Tensor, x: Tensor) -> bool:
    """Whether the gradient is finite where zeros stay zeros."""
    start = None if loss.numel() == 1 else _core.ones_like(loss)
    with strong_zeros():
        (grad,) = _core._run_backward((loss,), (start,), True, False, (x,), True, False)
    return grad is not None and bool(grad.isfinite().all())


_TINY = 1e-30


def why_zero(node: GraphNode, largest: float) -> str:
    """Why this node passes on zeros only."""
    facts = facts_of(node.node) or {}
    # What is flat, or chooses, passes on nothing however large the gradient is.
    text = facts.get("zero_text")
    if text and not facts["multiplies"]:
        return f"`{node.op}` {text}"
    if 0 < largest < _TINY:
        return (
            f"the gradient became too small for its dtype: it arrives at `{node.op}` with at most "
            f"{largest:.1e}"
        )
    return f"`{node.op}` {text}" if text else f"the derivative of `{node.op}` is 0 at these values"


def at(node: GraphNode) -> str:
    """The line of a node, indented as in every message."""
    return f"    {_lines.described(node.source)}"
