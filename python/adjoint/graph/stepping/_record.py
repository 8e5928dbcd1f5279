"""What is known of a node that has run."""

from __future__ import annotations

from dataclasses import dataclass

from adjoint._core import Tensor
from adjoint.graph._lines import described
from adjoint.graph._view import GraphNode

from ._numbers import Numbers


@dataclass(frozen=True, slots=True)
class Delivery:
    """A gradient that a node passed on.

    Attributes
    ----------
    node : GraphNode
        Where it went.
    slot : int
        To which of that node's outputs it belongs.
    gradient : Numbers or None
        What it was; None where the node passed on nothing.
    added : bool
        Something had arrived there already: this was added to it.
    """

    node: GraphNode
    slot: int
    gradient: Numbers | None
    added: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a backward pass, after it ran.

    Attributes
    ----------
    number : int
        Its place in the pass, from 1.
    node : GraphNode
        The node: op, shape, line.
    arrived : tuple of Numbers or None
        The sum of the gradients that arrived for each of its outputs.
    used : tuple of Numbers or None
        The same after hooks: what its derivative was given.
    sent : tuple of Delivery
        What it passed on, and where to.
    before, after : Numbers or None
        Of a leaf: its ``.grad`` before and after.
    freed : int
        Bytes that no node still to run keeps.
    seconds : float
        Time in the engine, hooks included.
    breaks : tuple of str
        Why the pass was stopped here; empty if it was not.
    """

    number: int
    node: GraphNode
    arrived: tuple[Numbers | None, ...]
    used: tuple[Numbers | None, ...]
    sent: tuple[Delivery, ...]
    before: Numbers | None
    after: Numbers | None
    freed: int
    seconds: float
    breaks: tuple[str, ...] = ()

    @property
    def changed_by_hooks(self) -> bool:
        """Whether hooks made something else of what arrived."""
        return self.arrived != self.used and not _both_nan(self.arrived, self.used)

    def __repr__(self) -> str:
        where = "" if self.node.is_leaf else f"  {described(self.node.source)}"
        return f"<step {self.number}: {self.node.title}{where}>"

    def __str__(self) -> str:
        from ._terminal import plain

        return plain(self)

    def _repr_html_(self) -> str:
        from adjoint.notebook import text_html

        return text_html(str(self))


def _both_nan(a: tuple[Numbers | None, ...], b: tuple[Numbers | None, ...]) -> bool:
    """NaN is not equal to itself: what was printed the same was the same."""
    return repr(a) == repr(b)


GradientTensors = tuple[Tensor | None, ...]
