"""Conjugate and negative bits: tensors and what their memory holds.

`conj` computes nothing: its result shows the conjugate of what its memory holds. What reads memory
itself (files, copies, other processes) takes `unsigned(t)`, and makes a tensor like `t` of such
memory with `signed`.
"""

from __future__ import annotations

from adjoint._core import Tensor

__all__ = ["signed", "unsigned"]


def unsigned(t: Tensor) -> Tensor:
    """What the memory of ``t`` holds, in its shape: no copy, no history, no bits."""
    return signed(t.detach(), t.is_conj(), t.is_neg())


def signed(t: Tensor, conj: bool, neg: bool) -> Tensor:
    """The memory of ``t``, shown as its conjugate, its negative, or both: not a view of ``t``."""
    if conj:
        t = t.detach().conj().detach()
    if neg:
        t = t.detach()._neg_view().detach()
    return t
