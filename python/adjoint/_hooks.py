"""Handles for hooks: what ``register_hook`` returns."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

_ids = count()


class RemovableHandle:
    """Removes a hook when asked to, or at the end of a ``with`` block."""

    def __init__(self, hooks: dict[int, Callable[..., Any]], key: int) -> None:
        self._hooks = hooks
        self.id = key

    def remove(self) -> None:
        """Remove the hook; removing it twice does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add(hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> RemovableHandle:
    """Put ``hook`` into a dict of hooks."""
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    key = next(_ids)
    hooks[key] = hook
    return RemovableHandle(hooks, key)
