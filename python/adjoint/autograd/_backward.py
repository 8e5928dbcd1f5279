"""``backward`` and ``grad``: arguments are made regular here, the engine does the rest."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from adjoint import _core
from adjoint._core import Tensor

if TYPE_CHECKING:
    from .graph import GradientEdge

TensorOrEdge = Any  # a Tensor or a graph.GradientEdge
C = TypeVar("C")  # a composite

_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter "
    "and its gradient which can cause a memory leak. We recommend using autograd.grad when "
    "creating the graph to avoid this. If you have to use this function, make sure to reset the "
    ".grad fields of your parameters to None after use to break the cycle and avoid the leak. "
    "(Python's garbage collector frees such a cycle in adjoint; until it runs, the memory is held.)"
)


def _as_tuple(value: Any, what: str) -> tuple[Any, ...]:
    """One item or a sequence of them as a tuple; a GradientEdge is one item."""
    if isinstance(value, Tensor) or _is_edge(value):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise TypeError(
            f"{what} must be a Tensor, a GradientEdge or a sequence of them, "
            f"not {type(value).__name__}"
        ) from None


def _is_edge(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) >= 2 and isinstance(value[0], _core.Node)


def is_composite(value: Any) -> bool:
    """Whether an argument is a structure, and no tensor, edge or flat series of them."""
    if value is None or isinstance(value, Tensor):
        return False
    if type(value) in (tuple, list):
        return any(map(_is_part, value))
    return _is_part(value)


def _is_part(value: Any) -> bool:
    if value is None or isinstance(value, Tensor) or _is_edge(value):
        return False
    from adjoint import _tree

    return _tree.is_structure(value)


def _flat(
    outputs: Any, grads: Any, function: str, names: tuple[str, str], batched: bool = False
) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
    """Outputs and their gradients as tuples."""
    if is_composite(outputs) or is_composite(grads):
        from adjoint.composite._gradients import flat_outputs

        return flat_outputs(outputs, grads, function, names[1], batched)
    return _as_tuple(outputs, names[0]), grads


def _grads_for(outputs: tuple[Any, ...], grads: Any, what: str) -> tuple[Any, ...]:
    if grads is None:
        return (None,) * len(outputs)
    given = _as_tuple(grads, what)
    if len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    return given


def _inputs_of(inputs: Any, function: str) -> tuple[Any, ...]:
    if is_composite(inputs):
        from adjoint.composite._gradients import wanted_inputs

        return wanted_inputs(inputs, function)
    wanted = _as_tuple(inputs.values() if isinstance(inputs, Mapping) else inputs, "inputs")
    if not wanted:
        raise RuntimeError(f"`inputs` argument to `{function}()` cannot be empty.")
    return wanted


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
        What to differentiate: one tensor or several, or a composite.
    grad_tensors
        The gradient of some scalar with respect to each of ``tensors``; may be left out (or None)
        for tensors of one element, where it is 1.
    retain_graph
        Keep the values saved for backward, so that the graph can be run again. Default:
        ``create_graph``.
    create_graph
        Record the backward pass itself, for higher derivatives.
    inputs
        Only these tensors get a gradient; also one that is not a leaf, in its ``.grad``. One, a
        sequence, or a composite of them.

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
    outputs, grad_tensors = _flat(tensors, grad_tensors, "backward", ("tensors", "grad_tensors"))
    wanted = () if inputs is None else _inputs_of(inputs, "backward")
    if create_graph:
        warnings.warn(_CYCLE, UserWarning, stacklevel=_caller_level())
    keep = create_graph if retain_graph is None else retain_graph
    grads = _grads_for(outputs, grad_tensors, "grad_tensors")
    _core._run_backward(outputs, grads, keep, create_graph, wanted, True, True)


def _caller_level() -> int:
    """The stack level, for warnings, of the user's line that called ``backward``."""
    frame, level = sys._getframe(1), 1
    while frame is not None and frame.f_globals.get("__name__", "").startswith("adjoint."):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


@overload
def grad(
    outputs: Any,
    inputs: Tensor | GradientEdge | Sequence[Tensor | GradientEdge],
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...
@overload
def grad(
    outputs: Any,
    inputs: C,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> C: ...


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of ``outputs`` with respect to ``inputs``, without touching any ``.grad``.

    Parameters
    ----------
    outputs, inputs
        Tensors or `graph.GradientEdge`, or sequences of them, or composites of tensors.
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
        One gradient per input; for a composite, the gradients in its structure instead of a tuple.

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
    names = ("outputs", "grad_outputs")
    outs, grad_outputs = _flat(outputs, grad_outputs, "grad", names, is_grads_batched)
    keep = create_graph if retain_graph is None else retain_graph

    def run(ins: tuple[Any, ...], unused_fine: bool) -> tuple[Tensor | None, ...]:
        if is_grads_batched:
            return _batched(outs, ins, grad_outputs, keep, create_graph, unused_fine)
        grads = _grads_for(outs, grad_outputs, "grad_outputs")
        return gradients(outs, grads, keep, create_graph, ins, unused_fine)

    if is_composite(inputs):
        from adjoint.composite._gradients import grad as grad_of_composite

        return grad_of_composite(
            lambda ins: run(ins, True), inputs, create_graph, bool(allow_unused), materialize_grads
        )
    ins = _inputs_of(inputs, "grad")
    results = run(ins, unused_fine)
    if materialize_grads:
        results = tuple(
            _zeros_for(t, create_graph) if r is None else r
            for r, t in zip(results, ins, strict=True)
        )
    if isinstance(inputs, Mapping):  # one that is not a dict, of which nothing else is known
        return dict(zip(inputs, results, strict=True))
    return results


def gradients(
    outs: tuple[Any, ...],
    grads: tuple[Any, ...],
    keep: bool,
    create_graph: bool,
    ins: tuple[Any, ...],
    unused_fine: bool,
    end_at_inputs: bool = False,
) -> tuple[Tensor | None, ...]:
    """The engine's answer; inside vmap, for all samples at once.

    With ``end_at_inputs`` no gradient goes through an input to another.

    Samples do not depend on one another, so the gradient of their batch holds the gradient of each
    (Note [Derivatives under vmap] in src/transforms/batched.h). An input that is not batched has a
    gradient per sample all the same: there the samples take turns.
    """
    level = _core._batch_level((*outs, *ins))
    if not level:
        return _core._run_backward(
            outs, grads, keep, create_graph, ins, unused_fine, False, end_at_inputs
        )
    size = max(_core._size_at(t, level) for t in (*outs, *ins))
    wide_outs = tuple(_core._take_off(y, level, size) for y in outs)
    wide_grads = tuple(
        _ones_for(y, w) if g is None else _core._take_off(g, level, size)
        for y, w, g in zip(outs, wide_outs, grads, strict=True)
    )
    shared = [_core._size_at(x, level) < 0 for x in ins]
    wide_ins = tuple(
        x if alone else _core._take_off(x, level, size)
        for x, alone in zip(ins, shared, strict=True)
    )
    if not any(shared):
        found = gradients(
            wide_outs, wide_grads, keep, create_graph, wide_ins, unused_fine, end_at_inputs
        )
    else:
        rows = []
        for b in range(size):
            turn = _core.zeros(size, dtype=_core.bool)
            turn[b] = True
            masked = tuple(
                g * turn.view(size, *([1] * (g.ndim - 1))).to(g.dtype) for g in wide_grads
            )
            kept = keep or b + 1 < size
            row = gradients(
                wide_outs, masked, kept, create_graph, wide_ins, unused_fine, end_at_inputs
            )
            rows.append(
                [g if g is None or alone else g[b] for g, alone in zip(row, shared, strict=True)]
            )
        found = tuple(
            None if column[0] is None else _core.stack(column) for column in zip(*rows, strict=True)
        )
    return tuple(None if g is None else _core._put_on(g, level) for g in found)


def gradients_between(
    results: Sequence[tuple[Tensor, Any]],
    inputs: Sequence[Tensor],
    keep: bool = False,
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of inputs, by the part of the graph that lies between them and results.

    ``results`` come with the gradients that have arrived at them. Where one input was computed from
    another no gradient goes on from it: the pass around this one does that. A result without a
    history (of a branch that reads no variable) has nothing between.
    """
    results = [pair for pair in results if pair[0].requires_grad]
    outs, grads = (tuple(pair[k] for pair in results) for k in (0, 1))
    return gradients(outs, grads, keep, create_graph, tuple(inputs), True, end_at_inputs=True)


def _ones_for(output: Tensor, wide: Tensor) -> Tensor:
    if output.numel() != 1:
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs: an output has shape "
            f"{list(output.shape)}"
        )
    return _core.ones_like(wide)


def _zeros_for(given: Any, create_graph: bool) -> Tensor:
    if not isinstance(given, Tensor):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge: "
            f"no gradient reached {given[0].name()}, and an edge does not say of what shape its "
            "zeros would be; pass the tensor instead"
        )
    return _core.zeros_like(given, requires_grad=create_graph)


def _check_batch(index: int, grad: Tensor, output: Any) -> None:
    """Refuse a gradient whose shape is not (batch, *output.shape)."""
    shape = output.shape if isinstance(output, Tensor) else _edge_shape(output)
    if tuple(grad.shape[1:]) == tuple(shape) and grad.ndim > 0:
        return
    raise RuntimeError(
        "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the "
        "batch dimension. The sizes of the remaining dimensions are expected to match the shape of "
        f"corresponding output, but a mismatch was detected: grad_output[{index}] has a shape of "
        f"torch.Size({list(grad.shape)}) and output[{index}] has a shape of "
        f"torch.Size({list(shape)}). If you only want some tensors in `grad_output` to be "
        "considered batched, consider using vmap."
    )


def _edge_shape(edge: Any) -> Sequence[int]:
    shape: Sequence[int] = edge[0]._input_metadata[edge[1]].shape
    return shape


def _batched(
    outs: tuple[Any, ...],
    ins: tuple[Any, ...],
    grad_outputs: Any,
    keep: bool,
    create_graph: bool,
    unused_fine: bool,
) -> tuple[Tensor | None, ...]:
    """One backward pass for all rows of ``grad_outputs``."""
    given = _grads_for(outs, grad_outputs, "grad_outputs")
    for index, (g, out) in enumerate(zip(given, outs, strict=True)):
        if g is not None:
            _check_batch(index, g, out)
    sizes = {g.shape[0] for g in given if g is not None}
    if len(sizes) != 1:
        raise RuntimeError(
            "is_grads_batched=True: grad_outputs must have one batch size, "
            f"but they have {sorted(sizes) or 'none'}"
        )
    if not sizes.pop():
        return tuple(_no_rows(t) for t in ins)
    return _rows_together(outs, ins, given, keep, create_graph, unused_fine)


def _rows_together(
    outs: tuple[Any, ...],
    ins: tuple[Any, ...],
    given: tuple[Any, ...],
    keep: bool,
    create_graph: bool,
    unused_fine: bool,
) -> tuple[Tensor | None, ...]:
    from adjoint.func import vmap

    there: list[bool] = []

    def one(*rows: Tensor) -> tuple[Tensor, ...]:
        each = iter(rows)
        grads = tuple(None if g is None else next(each) for g in given)
        found = gradients(outs, grads, keep, create_graph, ins, unused_fine)
        there[:] = [g is not None for g in found]
        return tuple(g for g in found if g is not None)

    results = iter(vmap(one)(*(g for g in given if g is not None)))
    return tuple(next(results) if found else None for found in there)


def _no_rows(given: Any) -> Tensor:
    """The gradients of an empty batch."""
    if isinstance(given, Tensor):
        return _core.zeros((0, *given.shape), dtype=given.dtype)
    metadata = given[0]._input_metadata[given[1]]
    return _core.zeros((0, *metadata.shape), dtype=metadata.dtype)


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
