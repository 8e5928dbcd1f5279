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


def numpy(self: Tensor, *, force: bool = False) -> Any:
    """A NumPy array on the same memory.

    Parameters
    ----------
    force
        Take a tensor that requires grad too, as ``detach().numpy()`` does.

    Raises
    ------
    RuntimeError
        The tensor requires grad, so what NumPy does to it would not be recorded.
    """
    import numpy as np

    if self.requires_grad and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    if self.dtype is _core.bfloat16:
        raise TypeError(
            "Got unsupported ScalarType BFloat16: NumPy has no such dtype; use .float()"
        )
    return np.asarray(memoryview(self.detach()))


METHODS: dict[str, Any] = {
    "numpy": numpy,
    "register_hook": register_hook,
    "register_post_accumulate_grad_hook": register_post_accumulate_grad_hook,
    "device": property(lambda self: _CPU, doc="The CPU: adjoint computes nowhere else."),
}
