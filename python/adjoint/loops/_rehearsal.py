"""Steps and branches that are called to be recorded, and run again if they could not be.

What they do to Python objects the walk of the recording around them sees, and takes back. What they
write into tensors is kept here as it was before, since nobody knows beforehand what they reach.
"""

from __future__ import annotations

from typing import Any

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["Rehearsal"]


class Rehearsal:
    """For the length of a ``with`` block, notes what tensors were before they are changed."""

    def __enter__(self) -> Rehearsal:
        self._state: Any = None
        self._outer = _core._watch_changes(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        _core._watch_changes(self._outer)

    def _note(self, tensor: Tensor) -> None:
        if self._outer is not None:
            self._outer(tensor)
        if self._state is None:
            self._state = _core._keep_state([])
        _core._keep_memory(self._state, tensor)

    def undo(self) -> None:
        """Make the tensors what they were."""
        if self._state is not None:
            _core._put_back(self._state)
            self._state = None
