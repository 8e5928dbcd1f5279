"""`Variable`, the name tensors with a gradient had in old programs, and the engine they met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["Variable"]


class ImperativeEngine:
    """The backward pass, as far as programs ask for it."""

    def queue_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback()`` at the end of the backward pass that is under way.

        Raises
        ------
        RuntimeError
            No pass is under way in this thread.
        """
        _core._queue_callback(callback)

    def is_checkpoint_valid(self) -> bool:
        """Whether the pass under way may run reentrant checkpoints."""
        return not _core._current_pass_has_inputs()


class _VariableMeta(type):
    def __instancecheck__(cls, other: object) -> bool:
        return isinstance(other, Tensor)

    def __subclasscheck__(cls, other: type) -> bool:
        return cls is other or issubclass(other, Tensor)


class Variable(metaclass=_VariableMeta):
    """A tensor: ``Variable(data, requires_grad)`` is a tensor on the memory of ``data``.

    ``isinstance(t, Variable)`` holds for every tensor.
    """

    _execution_engine = ImperativeEngine()

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = None) -> Any:
        """Return a tensor without history on the memory of ``data``."""
        if data is None:
            return _core.empty(0, requires_grad=requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
