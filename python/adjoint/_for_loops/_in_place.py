"""Tensors that a step changes in place: a scan carries them on as copies.

The tensor has a variable of its own, and its memory was made in the call. So the body sees it by
that name alone; it gets a copy, changes that, and the copy is handed on. When the scan is over, the
tensor itself gets the last values (`_change_frame`): whoever has it, or a view of it, sees them.
What must not be is that two of the tensors of a step share memory, of which one is changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["can_be_carried", "copies", "outdate"]


def can_be_carried(t: Tensor) -> bool:
    """Whether a tensor that steps change can be handed from one to the next."""

    def asked() -> bool:
        own = not (t._is_view() or (t.requires_grad and t.is_leaf) or t._backward_hooks)
        plain = t.is_contiguous() and not (t.is_conj() or t.is_neg()) and t.numel() > 0
        return own and plain and not t.retains_grad and not _core._dict_of(t)

    return type(t) is Tensor and _core._is_made_here(t) and _core._unrecorded(asked)


def copies(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors of which steps can change the memory."""
    return [t.clone() for t in tensors]


def outdate(tensors: Sequence[Tensor]) -> None:
    """Let what the graph has kept of them be of no use: the next step will change them."""

    def done() -> None:
        for t in tensors:
            _core._increment_version(t)

    _core._unrecorded(done)
