"""Nodes on a line: checked, and found."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor

__all__ = ["anywhere", "as_float", "found", "nodes_of"]


def as_float(thing: Any) -> Tensor:
    """A tensor of floating-point numbers; Python's are float64."""
    if isinstance(thing, Tensor):
        return thing if thing.is_floating_point() or thing.is_complex() else thing.double()
    if isinstance(thing, (list, tuple)) and any(isinstance(t, Tensor) for t in thing):
        return ad.stack([as_float(t) for t in thing])
    array = np.asarray(thing)
    return ad.as_tensor(array if array.dtype.kind in "fc" else array.astype(np.float64))


def nodes_of(name: str, given: Any, least: int = 2) -> Tensor:
    """The nodes as a vector that increases."""
    x = as_float(given)
    if x.ndim != 1 or x.numel() < least:
        raise ValueError(
            f"{name}: expected at least {least} nodes in a vector, got {list(x.shape)}"
        )
    steps = x.detach().diff()
    if anywhere(~(steps > 0)):
        if _core._batch_level((x,)):
            raise ValueError(f"{name}: the nodes must increase, and in some sample they do not")
        k = int((~(steps > 0)).nonzero()[0, 0])
        raise ValueError(
            f"{name}: the nodes must increase, but x[{k + 1}] = {float(x[k + 1]):g} follows "
            f"x[{k}] = {float(x[k]):g}\n  fix: sort them, with the values: order = x.argsort()"
        )
    return x


def found(x: Tensor, at: Tensor) -> Tensor:
    """The number of the interval of each place; those outside have the nearest."""
    x, at = x.detach(), at.detach().to(x.dtype)
    if _core._batch_level((x, at)):  # counted, for all samples at once
        after = (at[..., None] >= x).sum(-1)
    else:
        after = ad.searchsorted(x, at.contiguous(), right=True)
    return (after - 1).clamp(0, x.numel() - 2)


def anywhere(condition: Tensor) -> bool:
    """Whether it is true of some element, in some sample of a vmap."""
    while level := _core._batch_level((condition,)):
        condition = _core._take_off(condition, level, _core._size_at(condition, level))
    return bool(condition.any())
