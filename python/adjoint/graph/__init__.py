"""The graph, shown: ``adjoint.graph(y)`` prints what was recorded, ``explain_grad`` says why a
gradient is what it is, ``graph_report`` what is alive, ``step`` runs backward node by node.

The module can be called: ``adjoint.graph(y)`` is ``adjoint.graph.graph(y)``. The native graph
itself is in ``src/graph``; PyTorch's functions on it are in ``adjoint.autograd.graph``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

from adjoint import _core
from adjoint._core import Node, Tensor

from ._breaks import Break as Break
from ._explain import Explanation as Explanation
from ._explain import explain_grad as explain_grad
from ._modules import modules as modules
from ._names import tensor_names as tensor_names
from ._report import GraphReport as GraphReport
from ._report import graph_report as graph_report
from ._view import Graph as Graph
from ._view import GraphNode as GraphNode
from ._view import build as _build
from .stepping._call import step as step

__all__ = [
    "Break",
    "Explanation",
    "Graph",
    "GraphNode",
    "GraphReport",
    "explain_grad",
    "graph",
    "graph_report",
    "modules",
    "step",
]


def graph(
    outputs: Tensor | Node | Sequence[Tensor | Node], names: Mapping[str, Tensor] | None = None
) -> Graph:
    """The graph behind a tensor: what was computed, from what, on which line, keeping how much.

    Parameters
    ----------
    outputs
        A tensor, a ``grad_fn``, or several of them: a list, or any composite.
    names
        Names for tensors, used for leaves and outputs. Tensors in variables of the calling function
        or its module have the name of the variable, parameters their path in the model.

    Returns
    -------
    Graph
        Print it, iterate over its nodes, `Graph.filter` it, write it with `Graph.to_dot`. It keeps
        the nodes it shows alive.

    Raises
    ------
    ValueError
        Nothing was recorded for an output.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> g = ad.graph((x.exp() * x).sum())
    >>> [node.op for node in g]
    ['sum', 'mul', 'exp', 'leaf']
    >>> g.leaves
    [<leaf x [2] float32>]
    """
    return _graph(outputs, names, sys._getframe(1))


def _graph(outputs: Any, names: Mapping[str, Tensor] | None, frame: FrameType) -> Graph:
    items = _items(outputs)
    if not items:
        raise ValueError("graph(): no outputs were given")
    ends = [_start(item, i) for i, item in enumerate(items)]
    labels = tensor_names(frame, names)
    title = ", ".join(_title(item, labels) for item in items[:3])
    title += f" and {len(items) - 3} more" if len(items) > 3 else ""
    return _build(ends, labels, f"graph of {title}")


def _items(outputs: Any) -> list[Any]:
    if isinstance(outputs, (Tensor, Node)):
        return [outputs]
    from adjoint._tree import flatten

    leaves, _ = flatten(list(outputs) if isinstance(outputs, Iterator) else outputs)
    return list(leaves)


def _start(item: Tensor | Node, i: int) -> tuple[Node, int]:
    if isinstance(item, Node):
        return item, 0
    if not isinstance(item, Tensor):
        raise TypeError(f"graph(): expected a Tensor or a node, got {type(item).__name__}")
    if not item.requires_grad:
        raise ValueError(
            f"graph(): nothing was recorded for output {i} (shape {list(item.shape)}, "
            f"{item.dtype}): it does not require grad. explain_grad(y, x) says where the history "
            "was lost."
        )
    node, slot = _core._gradient_edge(item)
    return node, slot


def _title(item: Tensor | Node, names: Mapping[int, str]) -> str:
    if isinstance(item, Tensor):
        return names.get(id(item), f"a tensor {list(item.shape)}")
    return item.name()


class _Callable(ModuleType):
    """A module that is called like the function of its name."""

    def __call__(self, outputs: Any, names: Mapping[str, Tensor] | None = None) -> Graph:
        return _graph(outputs, names, sys._getframe(1))


sys.modules[__name__].__class__ = _Callable
