"""The graph, shown: ``adjoint.graph(y)`` prints what was recorded, ``explain_grad`` says why a
gradient is what it is, ``graph_report`` what is alive.

The module can be called: ``adjoint.graph(y)`` is ``adjoint.graph.graph(y)``. The native graph
itself is in ``src/graph``; PyTorch's functions on it are in ``adjoint.autograd.graph``.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from types import FrameType, ModuleType
from typing import Any

from adjoint import _core
from adjoint._core import Node, Tensor

from ._breaks import Break as Break
from ._explain import Explanation as Explanation
from ._explain import explain_grad as explain_grad
from ._report import GraphReport as GraphReport
from ._report import graph_report as graph_report
from ._view import Graph as Graph
from ._view import GraphNode as GraphNode
from ._view import build as _build

__all__ = [
    "Break",
    "Explanation",
    "Graph",
    "GraphNode",
    "GraphReport",
    "explain_grad",
    "graph",
    "graph_report",
]


def graph(
    outputs: Tensor | Node | Sequence[Tensor | Node], names: Mapping[str, Tensor] | None = None
) -> Graph:
    """The graph behind a tensor: what was computed, from what, on which line, keeping how much.

    Parameters
    ----------
    outputs
        A tensor, a ``grad_fn``, or several of them.
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
    one = isinstance(outputs, (Tensor, Node)) or not hasattr(outputs, "__iter__")
    items = [outputs] if one else list(outputs)
    if not items:
        raise ValueError("graph(): no outputs were given")
    nodes = [_start(item, i) for i, item in enumerate(items)]
    labels = tensor_names(frame, names)
    title = ", ".join(_title(item, labels) for item in items[:3])
    title += f" and {len(items) - 3} more" if len(items) > 3 else ""
    return _build(nodes, labels, f"graph of {title}")


def _start(item: Tensor | Node, i: int) -> Node:
    if isinstance(item, Node):
        return item
    if not isinstance(item, Tensor):
        raise TypeError(f"graph(): expected a Tensor or a node, got {type(item).__name__}")
    if not item.requires_grad:
        raise ValueError(
            f"graph(): nothing was recorded for output {i} (shape {list(item.shape)}, "
            f"{item.dtype}): it does not require grad. explain_grad(y, x) says where the history "
            "was lost."
        )
    node: Node = _core._gradient_edge(item)[0]
    return node


def _title(item: Tensor | Node, names: Mapping[int, str]) -> str:
    if isinstance(item, Tensor):
        return names.get(id(item), f"a tensor {list(item.shape)}")
    return item.name()


def tensor_names(frame: FrameType, names: Mapping[str, Tensor] | None = None) -> dict[int, str]:
    """Names of tensors by their id: those given, else variables of a function and its module.

    A parameter that no variable holds is called after the model: ``net.0.weight``.
    """
    found: dict[int, str] = {}
    if names is not None:
        for name, value in names.items():
            if not isinstance(value, Tensor):
                raise TypeError(
                    f"names: expected a Tensor for {name!r}, got {type(value).__name__}; it is a "
                    "dict from names to tensors"
                )
            found.setdefault(id(value), name)
        return found
    variables = list(frame.f_globals.items())
    if frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # a function's, not a module's
        variables = [*_local_variables(frame), *variables]
    elif frame.f_globals is not frame.f_locals:
        variables = [*frame.f_locals.items(), *variables]
    values = [item for item in variables if _is_name(item[0])]
    for name, value in values:
        if isinstance(value, Tensor):
            found.setdefault(id(value), name)
    nn = sys.modules.get("adjoint.nn")  # no model without it
    for name, value in values if nn else ():
        if isinstance(value, nn.Module):  # type: ignore[union-attr]
            for path, parameter in value.named_parameters():
                found.setdefault(id(parameter), f"{name}.{path}")
    return found


def _local_variables(frame: FrameType) -> list[tuple[str, Any]]:
    """The variables of a function, without keeping them.

    Before Python 3.13 a frame holds the dict it gave out as ``f_locals`` to its end, and with it
    graphs whose variables are gone since. What is in there from the function's own variables is
    taken out again, unless somebody else, such as a caller of ``locals()``, has the dict too.
    """
    local: Any = frame.f_locals
    found = list(local.items())
    if type(local) is dict and sys.getrefcount(local) <= _FRAME_ONLY:
        code = frame.f_code
        for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars):
            local.pop(name, None)
    return found


_FRAME_ONLY = 3  # references to the dict of a frame: the frame, a variable, an argument


def _is_name(name: str) -> bool:
    """Whether somebody chose it; test runners and notebooks keep values under others."""
    return name.isidentifier() and not name.startswith("_")


class _Callable(ModuleType):
    """A module that is called like the function of its name."""

    def __call__(self, outputs: Any, names: Mapping[str, Tensor] | None = None) -> Graph:
        return _graph(outputs, names, sys._getframe(1))


sys.modules[__name__].__class__ = _Callable
