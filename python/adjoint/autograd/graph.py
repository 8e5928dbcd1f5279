"""Looking at the graph: nodes and edges."""

from __future__ import annotations

from typing import NamedTuple

from adjoint import _core
from adjoint._core import Node as Node
from adjoint._core import Tensor

from ._saved_hooks import allow_mutation_on_saved_tensors as allow_mutation_on_saved_tensors
from ._saved_hooks import disable_saved_tensors_hooks as disable_saved_tensors_hooks
from ._saved_hooks import save_on_cpu as save_on_cpu
from ._saved_hooks import saved_tensors_hooks as saved_tensors_hooks


class GradientEdge(NamedTuple):
    """Where gradients for one output of a node arrive."""

    node: Node
    output_nr: int


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge that the gradient of ``tensor`` travels along.

    Raises
    ------
    RuntimeError
        The tensor does not require grad, so there is none.
    """
    node, slot = _core._gradient_edge(tensor)
    return GradientEdge(node, slot)
