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

from adjoint import Tensor, is_grad_enabled, zeros
from adjoint.autograd.function import Function
from adjoint.utils.hooks import RemovableHandle, _WrappedHook

if TYPE_CHECKING:
    from adjoint.nn.modules.module import Module

Grads = tuple[Tensor | None, ...]


class BackwardHookFunction(Function):
    """The identity, whose node a hook can hold on to."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Aliases of the tensors."""
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


_NO_INPUTS = (
    "Full backward hook is firing when gradients are computed with respect to module outputs since "
    "no inputs require gradients. See "
    "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module."
    "register_full_backward_hook for more details."
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

    def __init__(self, module: Module, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_outputs: Grads | None = None
        self.inputs_total = 0
        self.has_inputs = False

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        passed, node, places = _through_boundary(args)
        self.inputs_total = total = len(args)
        if node is not None:
            self.has_inputs = True

            shapes = [(v.shape, v.dtype) if isinstance(v, Tensor) else None for v in args]

            def after(grad_inputs: Grads, _: Grads) -> Grads | None:
                if self.grad_outputs is None:
                    return None  # the outputs took no part in this pass
                # Hooks see None for what is not a tensor only: zeros, where no gradient came.
                spread = tuple(
                    zeros(shape[0], dtype=shape[1]) if grad is None and shape else grad
                    for grad, shape in zip(_spread(grad_inputs, places, total), shapes, strict=True)
                )
                return self._run_hooks(spread, places)

            node.register_hook(after)
        return passed

    def outputs(self, result: Any) -> Any:
        is_tuple = isinstance(result, tuple)
        if not is_tuple and not isinstance(result, Tensor):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of "
                f"Tensors but received {type(result)}",
                stacklevel=5,
            )
        values = result if is_tuple else (result,)
        passed, node, places = _through_boundary(values)
        if node is not None:
            total = len(values)

            def before(grad_outputs: Grads) -> Grads:
                grads = _spread(grad_outputs, places, total)
                for hook in self.pre_hooks:
                    grads = _replaced(hook(self.module, grads), grads, "pre hook", "grad_output")
                self.grad_outputs = grads
                if not self.has_inputs and self.hooks:
                    warnings.warn(_NO_INPUTS, stacklevel=2)
                    self._run_hooks((None,) * self.inputs_total, ())
                return tuple(grads[i] for i in places)

            node.register_prehook(before)
        return passed if is_tuple else passed[0]

    def _run_hooks(self, grad_inputs: Grads, places: tuple[int, ...]) -> Grads:
        for hook in self.hooks:
            returned = hook(self.module, grad_inputs, self.grad_outputs)
            if not self.has_inputs and not _is_nothing(returned):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
            grad_inputs = _replaced(returned, grad_inputs, "hook", "grad_input")
        self.grad_outputs = None
        return tuple(grad_inputs[i] for i in places)


def _is_nothing(returned: Any) -> bool:
    return returned is None or (
        isinstance(returned, tuple) and all(grad is None for grad in returned)
    )


def _through_boundary(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any, tuple[int, ...]]:
    """The values with aliases of those that require grad, their node, and where they stand."""
    places = tuple(i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad)
    if not is_grad_enabled() or not places:
        return values, None, ()
    aliases = BackwardHookFunction.apply(*(values[i] for i in places))
    passed = list(values)
    for i, alias in zip(places, aliases, strict=True):
        passed[i] = alias
    node = next(alias.grad_fn for alias in aliases if alias.grad_fn is not None)
    # A named tuple stays one; its class takes the values one by one.
    same = tuple(passed) if type(values) is tuple else type(values)(*passed)
    return same, node, places


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
    """``forward(*args, **kwargs)`` with the hooks on backward around it, the global ones first."""
    from adjoint.nn.modules import module as everywhere

    full: list[Any] = []
    plain: list[Any] = []
    for hooks, is_full in (
        (everywhere._global_backward_hooks, everywhere._global_is_full_backward_hook),
        (module._backward_hooks, module._is_full_backward_hook),
    ):
        (plain if is_full is False else full).extend(hooks.values())
    pre = [*everywhere._global_backward_pre_hooks.values(), *module._backward_pre_hooks.values()]
    if full or pre:
        this = _Pass(module, full, pre)
        args = this.inputs(args)
        result = this.outputs(forward(*args, **kwargs))
    else:
        result = forward(*args, **kwargs)
    if plain:
        _hook_last_node(module, plain, args, result)
    return result


def _hook_last_node(module: Module, hooks: list[Any], args: tuple[Any, ...], result: Any) -> None:
    first = result
    while not isinstance(first, Tensor):
        if isinstance(first, dict):
            first = next(v for v in first.values() if isinstance(v, Tensor))
        else:
            first = first[0]
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(_WrappedHook(hook, module))
    reason = _why_incomplete(args, result, node)
    if reason is not None:
        when, lost = reason
        warnings.warn(
            f"Using {when} is deprecated and will be removed in future versions. This hook will be "
            f"missing {lost}. Please use register_full_backward_hook to get the documented "
            "behavior.",
            FutureWarning,
            stacklevel=5,
        )


def _why_incomplete(args: tuple[Any, ...], result: Any, node: Any) -> tuple[str, str] | None:
    """Why a hook on the last node sees less than the gradients of the module, if so."""
    results = result if isinstance(result, tuple) else (result,)
    if not all(isinstance(r, Tensor) for r in results):
        what = "does not return a single Tensor or a tuple of Tensors"
        return f"non-full backward hooks on a Module that {what}", "some of the grad_output"
    if not all(isinstance(a, Tensor) for a in args):
        what = "does not take as input a single Tensor or a tuple of Tensors"
        return f"non-full backward hooks on a Module that {what}", "some of the grad_input"
    made_by = [r.grad_fn for r in results if r.grad_fn is not None]
    when = "a non-full backward hook when"
    if not made_by or not any(n is node or n == node for n in made_by):
        return f"{when} outputs are nested in python data structure", "some grad_output"
    if len(set(made_by)) > 1:
        return f"{when} outputs are generated by different autograd Nodes", "some grad_output"
    came_from = {a.grad_fn for a in args if a.grad_fn is not None}
    if came_from != {below for below, _ in node.next_functions}:
        return f"{when} the forward contains multiple autograd Nodes", "some grad_input"
    return None
