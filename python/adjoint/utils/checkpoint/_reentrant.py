"""Checkpoints as one node: its backward runs the function again and then a pass of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from adjoint import _core, _tree
from adjoint._core import Tensor
from adjoint._surroundings import Surroundings
from adjoint.autograd import Function, backward
from adjoint.autograd.grad_mode import enable_grad, no_grad

from . import _rng


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same tensors as leaves; what is not a tensor as it is."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: ",
            type(inputs).__name__,
        )
    return tuple(
        item.detach().requires_grad_(item.requires_grad) if isinstance(item, Tensor) else item
        for item in inputs
    )


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn when no input requires a gradient: nothing would get one."""
    if not any(item.requires_grad for item in inputs if isinstance(item, Tensor)):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=4
        )


class CheckpointFunction(Function):
    """The node of a reentrant checkpoint."""

    allow_hidden_tensors = True  # backward differentiates whatever the function reads

    @staticmethod
    def forward(
        ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any
    ) -> Any:
        """Run the function without recording."""
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.rng_state = _rng.current(preserve_rng_state)
        ctx.surroundings = Surroundings()
        ctx.plain = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.places = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.save_for_backward(*[arg for arg in args if isinstance(arg, Tensor)])
        with no_grad():
            return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Run the function again, recorded, and differentiate that."""
        if _core._current_pass_has_inputs():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or "
                "passing an `inputs` parameter to .backward(). To resolve this error, you can "
                "either set use_reentrant=False, or call .backward() without passing the `inputs` "
                "argument."
            )
        inputs = list(ctx.plain)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            inputs[place] = tensor
        detached = detach_variable(tuple(inputs))
        with _rng.as_it_was(ctx.rng_state), enable_grad(), ctx.surroundings.again():
            outputs = ctx.run_function(*detached)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        pairs = [
            (out, grad)
            for out, grad in zip(outputs, grads, strict=True)
            if isinstance(out, Tensor) and out.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return (None, None, *(t.grad if isinstance(t, Tensor) else None for t in detached))


def run_reentrant(
    function: Callable[..., Any], preserve_rng_state: bool, args: tuple[Any, ...]
) -> Any:
    """Call ``function`` as one node, on the leaves of its arguments and of its result."""
    if not any(map(_tree.is_structure, args)):
        # A bound method or a partial may hold tensors: the backward pass inside reaches them, so
        # they are not lost, as custom functions would take them to be.
        return CheckpointFunction.apply(lambda *xs: function(*xs), preserve_rng_state, *args)
    leaves, arguments = _tree.flatten(args)
    built: list[Any] = []

    def on_leaves(*flat: Any) -> tuple[Any, ...]:
        results, structure = _tree.flatten(function(*_tree.unflatten(arguments, flat)))
        built[:] = [structure]
        return tuple(results)

    flat = CheckpointFunction.apply(on_leaves, preserve_rng_state, *leaves)
    return _tree.unflatten(built[0], flat)
