"""What a call runs in, for what runs a part of it once more, later.

A checkpoint recomputes, and a loop that is differentiated twice runs its step again, when the call
is over: autocast may be off by then, and `functional_call` has put a module's own tensors back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from adjoint import _core

from ._autocast import in_modes

__all__ = ["Surroundings", "stand_ins"]

#: Tensors in the place of a module's own right now: (module, name, tensor), the latest last.
stand_ins: ContextVar[tuple[tuple[Any, str, Any], ...]] = ContextVar("stand_ins", default=())


class Surroundings:
    """Those of the moment when it is made."""

    __slots__ = ("_autocast", "_dtype", "_stand_ins")

    def __init__(self) -> None:
        self._autocast = _core._autocast_modes()
        self._dtype = _core.get_default_dtype()
        self._stand_ins = stand_ins.get()

    @contextmanager
    def again(self) -> Iterator[None]:
        """Restore them for the length of a ``with`` block."""
        with ExitStack() as stack:
            stack.enter_context(in_modes(self._autocast))
            now = _core.get_default_dtype()
            if now != self._dtype:
                _core.set_default_dtype(self._dtype)
                stack.callback(_core.set_default_dtype, now)
            if self._stand_ins and stand_ins.get() is not self._stand_ins:
                from adjoint.nn.utils.stateless import put

                token = stand_ins.set(self._stand_ins)
                stack.callback(stand_ins.reset, token)
                for module, name, tensor in self._stand_ins:
                    stack.callback(put, module, name, put(module, name, tensor))
            yield
