"""`autograd.grad` and `autograd.backward` where an argument is a composite.

`adjoint.autograd._backward` comes here with such arguments; they are made flat, and the results are
given the structure of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import NoneType
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor

from ._functions import can_have_gradient
from ._structure import distinct, put_together, same, take_apart

__all__ = ["flat_hook", "flat_outputs", "grad", "wanted_inputs"]

_requires_grad = attrgetter("requires_grad")

Flat = tuple[tuple[Any, ...], tuple[Any, ...] | None]


def flat_outputs(outputs: Any, cotangents: Any, function: str, name: str, batched: bool) -> Flat:
    """The tensors of ``outputs`` that have a gradient, and the cotangent of each.

    Raises
    ------
    RuntimeError
        No output requires grad, or the cotangents do not fit; the message names the place.
    """
    tensors, structure = take_apart(outputs, function, "outputs")
    paths = structure.paths
    chosen = [i for i, t in enumerate(tensors) if t.requires_grad]
    if not chosen:
        what = f"{paths()[0]}, like all of it," if tensors else "an empty composite"
        raise RuntimeError(f"{function}(): {what} does not require grad and has no grad_fn")
    try:
        every = _tree.leaves_like(structure.spec, cotangents, structure.root)
    except ValueError as error:
        raise RuntimeError(f"{name} is not built like the outputs: {error}") from None
    given = every if structure.places is None else [every[i] for i in structure.places]
    if structure.places is not None and structure.leaves is not None and cotangents is not None:
        tensor_places = set(structure.places)
        for i, (ours, theirs) in enumerate(zip(structure.leaves, every, strict=True)):
            if i not in tensor_places and theirs is not None and not same(ours, theirs):
                where = _tree.paths(structure.spec, structure.root)[i]
                raise RuntimeError(
                    f"{name} does not fit: {where}: expected {ours!r}, got {theirs!r}"
                )
    for i in chosen:
        tensor, cotangent = tensors[i], given[i]
        if cotangent is None:
            if tensor.numel() != 1:
                raise RuntimeError(
                    f"grad can be implicitly created only for scalar outputs, and {paths()[i]} has "
                    f"shape {list(tensor.shape)}; give it a cotangent in {name}"
                )
            continue
        shape = list(cotangent.shape) if isinstance(cotangent, Tensor) else None
        if shape is None or (shape[1:] if batched else shape) != list(tensor.shape):
            wanted = ["batch", *tensor.shape] if batched else list(tensor.shape)
            listed = ", ".join(map(str, wanted))
            got = _tree.kind_of(cotangent) if shape is None else shape
            raise RuntimeError(f"{name} does not fit: {paths()[i]}: expected [{listed}], got {got}")
    cotangent_list = None if cotangents is None else tuple(given[i] for i in chosen)
    return tuple(tensors[i] for i in chosen), cotangent_list


def wanted_inputs(inputs: Any, function: str) -> tuple[Tensor, ...]:
    """The tensors of ``inputs`` that can have a gradient, each once."""
    tensors, structure = take_apart(inputs, function, "inputs")
    able = [t for t in distinct(tensors) if can_have_gradient(t)]
    if not able:
        raise RuntimeError(
            f"`inputs` argument to `{function}()` cannot be empty, and {structure.root} has no "
            "tensor of floating point or complex dtype"
        )
    return tuple(able)


def flat_hook(
    composite: Any, fn: Callable[[Any], None]
) -> tuple[list[Tensor], Callable[[Any], None]]:
    """The tensors of a composite that a hook can watch, and ``fn`` on a list of their gradients."""
    tensors, structure = take_apart(composite, "register_multi_grad_hook")
    watched = [t for t in distinct(tensors) if t.requires_grad]

    def on_all(gradients: Any) -> None:
        found = dict(zip(map(id, watched), gradients, strict=True))
        fn(put_together(structure, [found.get(id(t)) for t in tensors]))

    return watched, on_all


def grad(
    run: Callable[[tuple[Tensor, ...]], tuple[Any, ...]],
    inputs: Any,
    create_graph: bool,
    allow_unused: bool,
    materialize_grads: bool,
) -> Any:
    """The gradients with respect to ``inputs``, in its structure.

    ``run`` returns a gradient (or None) for each of some tensors. Integer and boolean tensors have
    None for a gradient; what is not a tensor is carried along.
    """
    tensors, structure = take_apart(inputs, "grad", "inputs")
    fine = allow_unused or materialize_grads
    simple = all(map(_requires_grad, tensors))
    if not fine and not simple:
        for i, tensor in enumerate(tensors):
            if can_have_gradient(tensor) and not tensor.requires_grad:
                raise RuntimeError(
                    "One of the differentiated Tensors does not require grad: "
                    f"{structure.paths()[i]}.\n  fix: adjoint.requires_grad({structure.root}) "
                    "before it is used, or allow_unused=True for a gradient of None"
                )
    each = tuple(distinct(tensors))
    if not simple:
        each = tuple(t for t in each if t.requires_grad)
    results = run(each) if each else ()
    if len(each) == len(tensors) and NoneType not in set(map(type, results)):
        return put_together(structure, results)
    found = dict(zip(map(id, each), results, strict=True))
    gradients: dict[int, Any] = {}
    for i, tensor in enumerate(tensors):
        gradient = found.get(id(tensor))
        if gradient is None and can_have_gradient(tensor):
            if materialize_grads:
                gradient = _core.zeros_like(tensor, requires_grad=create_graph)
            elif not fine:
                raise RuntimeError(
                    "One of the differentiated Tensors appears to not have been used in the "
                    f"graph: {structure.paths()[i]}. Set allow_unused=True if this is the desired "
                    "behavior."
                )
        gradients.setdefault(id(tensor), gradient)
    return put_together(structure, [gradients[id(t)] for t in tensors])
