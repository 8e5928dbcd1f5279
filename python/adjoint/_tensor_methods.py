"""Methods of ``Tensor`` that are written in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core, _hooks
from adjoint._core import Tensor
from adjoint._device import device

_CPU = device("cpu")


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> _hooks.RemovableHandle:
    """Call ``hook(grad)`` when the gradient of this tensor is complete; it may return another."""
    return _hooks.add(_core._tensor_hooks(self), hook)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> _hooks.RemovableHandle:
    """Call ``hook(leaf)`` after backward has added into ``leaf.grad``."""
    return _hooks.add(_core._post_accumulate_hooks(self), hook)


METHODS: dict[str, Any] = {
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "device": property(lambda self: _CPU, doc="The CPU: adjoint computes nowhere else."),
}
