"""Nodes on a line: checked, and found."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import is_batched, must_hold

__all__ = ["as_float", "found", "moved", "nodes_of", "rows"]


def as_float(thing: Any) -> Tensor:
    """A tensor of floating-point numbers; Python's are float64."""
    if isinstance(thing, (dict, set, str)) or thing is None:
        raise TypeError(
            f"expected a tensor, an array or numbers, got {type(thing).__name__}\n"
            "  fix: interpolate each tensor of a structure by itself: ad.map(...)"
        )
    if isinstance(thing, Tensor):
        return thing if thing.is_floating_point() or thing.is_complex() else thing.double()
    if isinstance(thing, (list, tuple)) and any(isinstance(t, Tensor) for t in thing):
        return ad.stack([as_float(t) for t in thing])
    array = np.asarray(thing)
    if array.dtype.kind == "f" and isinstance(thing, (float, list, tuple)):
        return ad.tensor(array.tolist(), dtype=ad.float64)  # of a recording: a constant
    return ad.as_tensor(array if array.dtype.kind in "fc" else array.astype(np.float64))


def nodes_of(name: str, given: Any, least: int = 2) -> Tensor:
    """The nodes as a vector that increases."""
    x = as_float(given)
    if x.ndim != 1 or x.numel() < least:
        raise ValueError(
            f"{name}: expected at least {least} nodes in a vector, got {list(x.shape)}"
        )
    if x.is_complex():
        raise ValueError(f"{name}: the nodes must be real numbers, got {x.dtype}")
    must_hold(x.detach().diff() > 0, lambda rises, x: _falls(name, rises, x), x)
    return x


def _falls(name: str, rises: Tensor, x: Tensor) -> Exception:
    """That nodes do not increase."""
    if x.ndim > 1:
        return ValueError(f"{name}: the nodes must increase, and in some sample they do not")
    k = int((~rises).nonzero()[0, 0])
    return ValueError(
        f"{name}: the nodes must increase, but x[{k + 1}] = {float(x[k + 1]):g} follows "
        f"x[{k}] = {float(x[k]):g}\n  fix: sort them, with the values: order = x.argsort()"
    )


def found(x: Tensor, at: Tensor) -> Tensor:
    """The number of the interval of each place; those outside have the nearest."""
    x, at = x.detach(), at.detach().to(x.dtype)
    if is_batched(x, at):  # counted, for all samples at once
        after = (at[..., None] >= x).sum(-1)
    else:
        after = ad.searchsorted(x, at.contiguous(), right=True)
    return (after - 1).clamp(0, x.numel() - 2)


def rows(x: Tensor, k: Tensor) -> Tensor:
    """Rows by number; a number is not read, as ``x[k]`` would."""
    return x.index_select(0, k.reshape(-1)).reshape((*k.shape, *x.shape[1:]))


def moved(made: Tensor, places: int, axis: int) -> Tensor:
    """The axes of the places, which are in front, to where the nodes' axis was."""
    if places == 0 or axis == 0:
        return made
    return made.movedim(tuple(range(places)), tuple(range(axis, axis + places)))
