"""``backward`` and ``grad``: arguments are made regular here, the engine does the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint._core import Tensor

TensorOrEdge = Any  # a Tensor or a graph.GradientEdge


def _as_tuple(value: Any, what: str) -> tuple[Any, ...]:
    """One item or a sequence of them as a tuple; a GradientEdge is one item."""
    if isinstance(value, Tensor) or _is_edge(value):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise TypeError(
            f"{what} must be a Tensor or a sequence of them, not {type(value).__name__}"
        ) from None


def _is_edge(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], _core.Node)


def _grads_for(outputs: tuple[Any, ...], grads: Any) -> tuple[Any, ...]:
    if grads is None:
        return (None,) * len(outputs)
    given = _as_tuple(grads, "gradients")
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    return given


def backward(
    tensors: TensorOrEdge | Sequence[TensorOrEdge],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: TensorOrEdge | Sequence[TensorOrEdge] | None = None,
) -> None:
    """Add the gradients of ``tensors`` to the ``.grad`` of the leaves they were computed from.

    Parameters
    ----------
    tensors
        What to differentiate: one tensor or several.
    grad_tensors
        The gradient of some scalar with respect to each of ``tensors``; may be left out (or None)
        for tensors of one element, where it is 1.
    retain_graph
        Keep the values saved for backward, so that the graph can be run again. Default:
        ``create_graph``.
    create_graph
        Record the backward pass itself, for higher derivatives.
    inputs
        Only these tensors get a gradient.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor([1.0, 2.0], requires_grad=True)
    >>> ad.autograd.backward((x * x).sum())
    >>> x.grad
    tensor([2., 4.])
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "'grad_tensors' and 'grad_variables' (deprecated) arguments both passed"
            )
        grad_tensors = grad_variables
    outputs = _as_tuple(tensors, "tensors")
    wanted: tuple[Any, ...] = ()
    if inputs is not None:
        wanted = _as_tuple(inputs, "inputs")
        if not wanted:
            raise RuntimeError("'inputs' argument to 'backward' cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    grads = _grads_for(outputs, grad_tensors)
    results = _core._run_backward(outputs, grads, keep, create_graph, wanted, True, True)
    for tensor, value in zip(wanted, results, strict=True):
        if isinstance(tensor, Tensor) and not tensor.is_leaf and value is not None:
            held = tensor.grad
            tensor.grad = value if held is None else held + value


def grad(
    outputs: TensorOrEdge | Sequence[TensorOrEdge],
    inputs: TensorOrEdge | Sequence[TensorOrEdge],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of ``outputs`` with respect to ``inputs``, without touching any ``.grad``.

    Parameters
    ----------
    outputs, inputs
        Tensors, or sequences of them.
    grad_outputs
        Weights of the outputs, as ``grad_tensors`` of `backward`.
    retain_graph, create_graph
        As for `backward`.
    allow_unused
        Return None for an input that the outputs do not depend on, instead of raising.
    is_grads_batched
        The first axis of ``grad_outputs`` counts several gradients; so does that of the results.
    materialize_grads
        Return zeros instead of None for unused inputs.

    Returns
    -------
    tuple of Tensor or None
        One gradient per input.

    Examples
    --------
    >>> import adjoint as ad
    >>> x = ad.tensor(3.0, requires_grad=True)
    >>> (g,) = ad.autograd.grad(x * x, x, create_graph=True)
    >>> ad.autograd.grad(g, x)
    (tensor(2.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )
    unused_fine = bool(allow_unused) or materialize_grads
    outs = _as_tuple(outputs, "outputs")
    ins = _as_tuple(inputs, "inputs")
    if not ins:
        raise ValueError("grad requires non-empty inputs.")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        results = _batched(outs, ins, grad_outputs, keep, create_graph, unused_fine)
    else:
        grads = _grads_for(outs, grad_outputs)
        results = _core._run_backward(outs, grads, keep, create_graph, ins, unused_fine, False)
    if materialize_grads:
        results = tuple(
            _core.zeros_like(t, requires_grad=create_graph) if r is None else r
            for r, t in zip(results, ins, strict=True)
        )
    return results


def _batched(
    outs: tuple[Any, ...],
    ins: tuple[Any, ...],
    grad_outputs: Any,
    keep: bool,
    create_graph: bool,
    unused_fine: bool,
) -> tuple[Tensor | None, ...]:
    """One backward pass per row of ``grad_outputs``, the results stacked."""
    given = _as_tuple(grad_outputs, "grad_outputs")
    sizes = {g.shape[0] for g in given if g is not None}
    if len(sizes) != 1:
        raise RuntimeError(
            f"is_grads_batched=True: grad_outputs have different batch sizes {sorted(sizes)}"
        )
    count = sizes.pop()
    rows = [
        _core._run_backward(
            outs,
            tuple(None if g is None else g[i] for g in given),
            keep or i + 1 < count,
            create_graph,
            ins,
            unused_fine,
            False,
        )
        for i in range(count)
    ]
    return tuple(
        None if column[0] is None else _core.stack(column) for column in zip(*rows, strict=True)
    )


def _tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """``Tensor.backward`` with arguments."""
    grads = None if gradient is None else (gradient,)
    backward((self,), grads, retain_graph, create_graph, inputs=inputs)
