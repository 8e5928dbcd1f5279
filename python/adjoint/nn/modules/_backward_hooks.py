"""Hooks on the backward pass of a module.

The inputs and outputs of a module pass through `BackwardHookFunction`, a function that changes
nothing: its nodes stand exactly at the module's edges, so that the gradients that arrive there are
those of the module as a whole, whatever it does inside. Read next: `module.py`, which calls `call`.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adjoint import Tensor, is_grad_enabled
from adjoint.autograd.function import Function
from adjoint.utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module

Grads = tuple[Tensor | None, ...]


class BackwardHookFunction(Function):
    """The identity, whose node a hook can hold on to."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Aliases of the tensors."""
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Grads:
        """The gradients as they came."""
        return grads


class BackwardHooks:
    """What a module needs to register hooks on its backward pass and to run them."""

    _backward_hooks: OrderedDict[int, Callable[..., Any]]
    _backward_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _is_full_backward_hook: bool | None

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when the module's gradients are known.

        It may return gradients that are used in place of ``grad_input``.
        """
        if self._is_full_backward_hook is False:
            raise RuntimeError(_MIXED)
        self._is_full_backward_hook = True
        return _register(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the module's gradients are computed.

        It may return gradients that are used in place of ``grad_output``.
        """
        return _register(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` of the last op (not the whole module).

        Kept for old programs; `register_full_backward_hook` is what is meant nearly always.
        """
        if self._is_full_backward_hook is True:
            raise RuntimeError(_MIXED)
        self._is_full_backward_hook = False
        return _register(self._backward_hooks, hook, False)


_MIXED = (
    "Cannot use both regular backward hooks and full backward hooks on a single Module. "
    "Please use only one of them."
)


def _register(
    table: OrderedDict[int, Callable[..., Any]], hook: Callable[..., Any], prepend: bool
) -> RemovableHandle:
    handle = RemovableHandle(table)
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)
    return handle


class _Pass:
    """One call of a module: what its hooks know about it until backward has run."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.hooks = list(module._backward_hooks.values())
        self.pre_hooks = list(module._backward_pre_hooks.values())
        self.grad_outputs: Grads | None = None
        self.has_inputs = False

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        passed, node, places = _through_boundary(args)
        if node is not None:
            self.has_inputs = True
            total = len(args)

            def after(grad_inputs: Grads, _: Grads) -> Grads | None:
                if self.grad_outputs is None:
                    return None  # the outputs took no part in this pass
                return self._run_hooks(_spread(grad_inputs, places, total), places)

            node.register_hook(after)
        return passed

    def outputs(self, result: Any) -> Any:
        is_tuple = isinstance(result, tuple)
        values = result if is_tuple else (result,)
        passed, node, places = _through_boundary(values)
        if node is not None:
            total = len(values)

            def before(grad_outputs: Grads) -> Grads:
                grads = _spread(grad_outputs, places, total)
                for hook in self.pre_hooks:
                    grads = _replaced(hook(self.module, grads), grads, "pre hook", "grad_output")
                self.grad_outputs = grads
                if not self.has_inputs:
                    self._run_hooks((), ())
                return tuple(grads[i] for i in places)

            node.register_prehook(before)
        return passed if is_tuple else passed[0]

    def _run_hooks(self, grad_inputs: Grads, places: tuple[int, ...]) -> Grads:
        for hook in self.hooks:
            returned = hook(self.module, grad_inputs, self.grad_outputs)
            if returned is not None and not self.has_inputs:
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
            grad_inputs = _replaced(returned, grad_inputs, "hook", "grad_input")
        self.grad_outputs = None
        return tuple(grad_inputs[i] for i in places)


def _through_boundary(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, tuple[int, ...]]:
    """The values with their tensors replaced by aliases, their node, and where they stand."""
    places = tuple(i for i, v in enumerate(values) if isinstance(v, Tensor))
    if not is_grad_enabled() or not any(values[i].requires_grad for i in places):
        return values, None, ()
    aliases = BackwardHookFunction.apply(*(values[i] for i in places))
    passed = list(values)
    for i, alias in zip(places, aliases, strict=True):
        passed[i] = alias
    node = next(alias.grad_fn for alias in aliases if alias.grad_fn is not None)
    return tuple(passed), node, places


def _spread(grads: Grads, places: tuple[int, ...], total: int) -> Grads:
    """Gradients at the places of their tensors among all arguments."""
    spread: list[Tensor | None] = [None] * total
    for i, grad in zip(places, grads, strict=True):
        spread[i] = grad
    return tuple(spread)


def _replaced(returned: Any, grads: Grads, kind: str, what: str) -> Grads:
    if returned is None:
        return grads
    new: Grads = returned if isinstance(returned, tuple) else (returned,)
    if len(new) != len(grads):
        raise RuntimeError(
            f"Backward {kind} returned an invalid number of {what}, got {len(new)}, "
            f"but expected {len(grads)}"
        )
    return new


def call(
    module: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """``forward(*args, **kwargs)`` with the module's backward hooks around it."""
    if module._is_full_backward_hook is False:
        return _call_with_plain_hooks(module, forward, args, kwargs)
    this = _Pass(module)
    return this.outputs(forward(*this.inputs(args), **kwargs))


def _call_with_plain_hooks(
    module: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    result = forward(*args, **kwargs)
    first = result
    while not isinstance(first, Tensor):
        if isinstance(first, dict):
            first = next((v for v in first.values() if isinstance(v, Tensor)), None)
        else:
            first = first[0]
        if first is None:
            return result
    node = first.grad_fn
    if node is not None:
        if len(node.next_functions) > 1 or not isinstance(result, Tensor):
            warnings.warn(
                "Using a non-full backward hook when the forward contains multiple autograd Nodes "
                "is deprecated and will be removed in future versions. This hook will be missing "
                "some grad_input. Please use register_full_backward_hook to get the documented "
                "behavior.",
                FutureWarning,
                stacklevel=4,
            )
        for hook in list(module._backward_hooks.values()):
            node.register_hook(lambda grads, outs, hook=hook: hook(module, grads, outs))
    return result
