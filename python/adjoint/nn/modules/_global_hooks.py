"""Hooks on every module there is: `register_module_*`.

The tables of the hooks around a call are names of `module.py`, where PyTorch has them, since
programs clear them by assigning new ones; those for what modules take in are here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from adjoint.utils.hooks import RemovableHandle

__all__ = [
    "register_module_backward_hook",
    "register_module_buffer_registration_hook",
    "register_module_forward_hook",
    "register_module_forward_pre_hook",
    "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]

Table = OrderedDict[int, Callable[..., Any]]

_registration: dict[str, Table] = {
    "parameter": OrderedDict(),
    "buffer": OrderedDict(),
    "module": OrderedDict(),
}


def passed(kind: str, module: object, name: str, value: Any) -> Any:
    """``value`` after the hooks have seen that ``module`` takes it in; they may replace it."""
    for hook in tuple(_registration[kind].values()):
        returned = hook(module, name, value)
        if returned is not None:
            value = returned
    return value


def _add(table: Any, hook: Callable[..., Any], *marks: Any) -> RemovableHandle:
    handle = RemovableHandle(table, *marks)
    table[handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    return handle


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, param)`` when any module takes in a parameter."""
    return _add(_registration["parameter"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when any module takes in a buffer."""
    return _add(_registration["buffer"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when any module takes in a child."""
    return _add(_registration["module"], hook)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before every forward of every module."""
    from adjoint.nn.modules import module

    return _add(module._global_forward_pre_hooks, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after every forward of every module.

    Parameters
    ----------
    hook : callable
        May return another output.
    with_kwargs : bool, default False
        Whether the hook is given the keyword arguments too, before the output.
    always_call : bool, default False
        Whether it is called after a forward that raised as well.
    """
    from adjoint.nn.modules import module

    marks = []
    if with_kwargs:
        marks.append(module._global_forward_hooks_with_kwargs)
    if always_call:
        marks.append(module._global_forward_hooks_always_called)
    return _add(module._global_forward_hooks, hook, *marks)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the gradients of any module are computed."""
    from adjoint.nn.modules import module

    return _add(module._global_backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` when gradients of any module are known."""
    return _register_backward(hook, full=True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` of the last op of any module.

    Kept for old programs; `register_module_full_backward_hook` is what is meant nearly always.
    """
    return _register_backward(hook, full=False)


def _register_backward(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    from adjoint.nn.modules import module

    if module._global_is_full_backward_hook is (not full):
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    module._global_is_full_backward_hook = full
    return _add(module._global_backward_hooks, hook)
