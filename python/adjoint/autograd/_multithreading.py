"""PyTorch's switch for several threads in one backward pass, kept for programs that set it.

A pass of adjoint runs its nodes in one thread, while kernels use all cores.
"""

from __future__ import annotations

import threading

from adjoint._tensor.arguments import require_flag

__all__ = ["is_multithreading_enabled", "set_multithreading_enabled"]


class _State(threading.local):
    enabled = True


_state = _State()


def is_multithreading_enabled() -> bool:
    """What `set_multithreading_enabled` was last given in this thread."""
    return _state.enabled


class set_multithreading_enabled:
    """Accepted, without effect on results: at once, and until the end of a ``with`` block."""

    def __init__(self, mode: bool) -> None:
        require_flag("set_multithreading_enabled", "mode", 1, mode)
        self.prev = _state.enabled
        self.mode = mode
        _state.enabled = mode

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _state.enabled = self.prev

    def clone(self) -> set_multithreading_enabled:
        """A fresh switch with the same setting."""
        return type(self)(self.mode)
