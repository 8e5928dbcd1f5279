"""Conjugate and negative bits: tensors and what their memory holds.

`conj` computes nothing: its result shows the conjugate of what its memory holds. What reads memory
itself (files, copies, other processes) takes `unsigned(t)`, and makes a tensor like `t` of such
memory with `signed`.
"""

from __future__ import annotations

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["may_have_bits", "signed", "unsigned"]

_WITHOUT_NEGATIVE = (_core.bool, _core.uint16, _core.uint32, _core.uint64)


def may_have_bits(t: Tensor, conj: bool, neg: bool) -> bool:
    """Whether tensors of this dtype can be shown with such bits."""
    return (t.is_complex() or not conj) and (t.dtype not in _WITHOUT_NEGATIVE or not neg)


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
