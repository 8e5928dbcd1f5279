"""``segment_reduce``: one number for each of several runs of elements along an axis."""

from __future__ import annotations

import math
from typing import Any

from adjoint import _core
from adjoint._core import Tensor

__all__ = ["segment_reduce"]

# What PyTorch calls it, what scatter_reduce calls it, and what an empty segment has.
_KINDS = {
    "sum": ("sum", 0.0),
    "mean": ("sum", 0.0),
    "prod": ("prod", 1.0),
    "max": ("amax", -math.inf),
    "min": ("amin", math.inf),
}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """Reduce runs of elements along an axis.

    Parameters
    ----------
    data : Tensor
        The elements.
    reduce : {"sum", "mean", "max", "min", "prod"}
        What becomes of a run.
    lengths : Tensor, optional
        How long each run is, of shape ``data.shape[:axis] + (runs,)``.
    offsets : Tensor, optional
        Where each begins, and where the last one ends; instead of `lengths`.
    axis : int
        The axis of the runs: the last one of `lengths`.
    unsafe : bool
        Whether the sums of the lengths are not checked.
    initial : number, optional
        What each run begins with; an empty one is just that.

    Returns
    -------
    Tensor
        Of shape ``data.shape[:axis] + (runs,) + data.shape[axis + 1:]``.

    Examples
    --------
    >>> import adjoint as ad
    >>> ad.segment_reduce(ad.arange(5.0), "max", lengths=ad.tensor([2, 3]))
    tensor([1., 4.])
    """
    if reduce not in _KINDS:
        raise RuntimeError(f"unsupported reduction given: {reduce!r}; one of {', '.join(_KINDS)}")
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if offsets is not None:
        lengths = offsets.diff(dim=-1)
    if lengths is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    axis = axis + data.dim() if axis < 0 else axis
    if axis != lengths.dim() - 1 or lengths.shape[:-1] != data.shape[:axis]:
        raise RuntimeError(
            "segment_reduce(): Expected axis to be the last dimension of lengths, and the other "
            f"dimensions to be those of data: axis {axis}, lengths {list(lengths.shape)}, data "
            f"{list(data.shape)}"
        )
    if not unsafe:
        _check(lengths, data.shape[axis])
    return _reduced(data, reduce, lengths, axis, initial)


def _check(lengths: Tensor, size: int) -> None:
    if lengths.numel() and int(lengths.min()) < 0:
        raise RuntimeError("segment_reduce(): lengths contains negative value!")
    if not bool((lengths.sum(-1) == size).all()):
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to "
            "data.size(lengths.dim()-1) when !unsafe."
        )


def _reduced(data: Tensor, reduce: str, lengths: Tensor, axis: int, initial: Any) -> Tensor:
    runs, outer, inner = lengths.shape[-1], data.shape[:axis], data.shape[axis + 1 :]
    flat = lengths.reshape(-1).long()
    which = _core.arange(flat.numel()).repeat_interleave(flat)
    rows = data.reshape(-1, *inner)
    # Rows that the lengths leave out stand at the end of each batch.
    if which.numel() != rows.shape[0]:
        used = lengths.reshape(-1, runs).sum(-1)
        place = _core.arange(data.shape[axis]).expand(used.numel(), -1)
        rows = rows[(place < used[:, None]).reshape(-1)]
    kind, empty = _KINDS[reduce]
    start = empty if initial is None else initial
    target = _core.full((flat.numel(), *inner), start, dtype=data.dtype)
    index = which.reshape(-1, *(1 for _ in inner)).expand(rows.shape)
    if reduce in ("max", "min"):
        out = _extremes(target, index, rows, kind)
    else:
        out = target.scatter_reduce(0, index, rows, kind, include_self=True)
    if reduce == "mean":
        count = flat.reshape(-1, *(1 for _ in inner)).to(data.dtype)
        out = out / (count if initial is None else count.clamp(min=1))
    shaped: Tensor = out.reshape(*outer, runs, *inner)
    return shaped


def _extremes(target: Tensor, index: Tensor, rows: Tensor, kind: str) -> Tensor:
    """The largest or smallest of each run; equal ones, or several nan, share its gradient."""
    found = target.scatter_reduce(0, index, rows.detach(), kind, include_self=True)
    chosen = found.gather(0, index)
    mask = (rows == chosen) | (rows.isnan() & chosen.isnan())
    count = _core.zeros(target.shape, dtype=rows.dtype).scatter_add(0, index, mask.to(rows.dtype))
    shares = _core.where(mask, rows / count.gather(0, index), 0.0)
    summed = _core.zeros(target.shape, dtype=rows.dtype).scatter_add(0, index, shares)
    # What a run begins with is no element: it has no part in the gradient.
    out: Tensor = _core.where(count > 0, summed, found)
    return out


_segment_reduce = segment_reduce  # its older name
