"""Where generators were before steps drew from them, so that the steps can draw the same again."""

from __future__ import annotations

from typing import Any

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["DrawnNumbers"]


class DrawnNumbers:
    """For the length of a ``with`` block, notes where the generators are that steps draw from.

    The default one is noted at the start, others when they are named first.
    """

    def __init__(self) -> None:
        self._before: dict[int, tuple[Any, Tensor]] = {}
        self._add(_core.default_generator)

    def __enter__(self) -> DrawnNumbers:
        self._outer = _core._watch_generators(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        _core._watch_generators(self._outer)

    def _note(self, generator: Any) -> None:
        if self._outer is not None:
            self._outer(generator)
        self._add(generator)

    def _add(self, generator: Any) -> None:
        if id(generator) not in self._before:
            state = _core._unrecorded(generator.get_state)
            self._before[id(generator)] = generator, state

    def put_back(self) -> None:
        """Let all of them draw the same numbers again."""

        def done() -> None:
            for generator, state in self._before.values():
                generator.set_state(state)

        _core._unrecorded(done)
