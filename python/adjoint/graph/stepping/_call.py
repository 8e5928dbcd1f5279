"""``adjoint.step``: from arguments as those of backward to a `Stepper`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from adjoint import _core
from adjoint._core import Tensor
from adjoint.autograd._backward import _flat, _grads_for, _inputs_of
from adjoint.graph._names import tensor_names
from adjoint.graph._view import build

from ._stepper import Stepper, edge_of


def step(
    outputs: Any,
    gradient: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
    names: Mapping[str, Tensor] | None = None,
) -> Stepper:
    """Begin a backward pass that is run node by node.

    It is `autograd.backward` with the same arguments, and does the same when it is run to its end:
    the same engine, the same order, every hook once.

    Parameters
    ----------
    outputs
        What to differentiate: one tensor or several, or a composite.
    gradient
        The gradient of some scalar with respect to each; may be left out for tensors of one
        element.
    retain_graph, create_graph, inputs
        As for `autograd.backward`.
    names
        Names for tensors; see `graph`.

    Returns
    -------
    Stepper
        `Stepper.next`, `Stepper.back`, `Stepper.run`, `Stepper.run_to`, `Stepper.break_on`;
        ``print`` it to see where it is.

    Raises
    ------
    RuntimeError
        As for backward: nothing was recorded, or a gradient is missing. And inside vmap or forward
        mode, which would end before the pass does.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> pass_ = ad.step((x.exp() * x).sum())
    >>> pass_.next()
    <step 1: sum  <doctest...
    >>> pass_.run_to(op="exp")
    <exp [2] float32 <doctest...
    >>> pass_.run()
    >>> x.grad
    tensor([ 5.4366, 22.1672])
    """
    return begin(
        outputs, gradient, retain_graph, create_graph, inputs, tensor_names(sys._getframe(1), names)
    )


def begin(
    outputs: Any,
    gradient: Any,
    retain_graph: bool | None,
    create_graph: bool,
    inputs: Any,
    labels: Mapping[int, str],
) -> Stepper:
    """`step`, with the names of tensors by their id."""
    outs, gradient = _flat(outputs, gradient, "step", ("outputs", "gradient"))
    wanted = () if inputs is None else _inputs_of(inputs, "step")
    grads = _grads_for(outs, gradient, "gradient")
    keep = create_graph if retain_graph is None else retain_graph
    native = _core._Pass(outs, grads, keep, create_graph, wanted, True)  # refuses what is wrong
    title = ", ".join(labels.get(id(y), "a tensor") for y in outs[:3])
    graph = build([edge_of(y) for y in outs], labels, f"graph of {title}")
    return Stepper(graph, native, outs, wanted, keep)
