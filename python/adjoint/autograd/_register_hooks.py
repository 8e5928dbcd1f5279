"""Registering hooks on tensors and nodes.

The engine runs them (``src/bindings/autograd/hooks.cpp``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint.utils.hooks import RemovableHandle

Hook = Callable[..., Any]


def add(hooks: OrderedDict[int, Hook], hook: Hook) -> RemovableHandle:
    """Put ``hook`` into a table of hooks."""
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def add_to_node(node: _core.Node, hook: Hook) -> RemovableHandle:
    """Run ``hook(grad_inputs, grad_outputs)`` after the node."""
    return add(_core._node_hooks(node), hook)


def add_before_node(node: _core.Node, hook: Hook) -> RemovableHandle:
    """Run ``hook(grad_outputs)`` before the node."""
    return add(_core._node_pre_hooks(node), hook)
