"""The gradients of a `DistributedDataParallel`: which are reduced together, and how.

Parameters are taken from the last to the first, as backward reaches them, until a bucket is full. A
large one is a bucket of its own, reduced in the gradient's own memory without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint import distributed as dist

__all__ = ["Bucket", "buckets_of"]

_made_names: Any = ad  # `_foreach_...` are made when they are asked for

# Each reduction waits for all ranks, milliseconds where they share cores with other work: gradients
# of a few megabytes are reduced at once. Of more, a small first bucket lets the reduction begin
# early.
_FIRST_BYTES = 4 * 1024 * 1024
_ALONE_BYTES = 4 * 1024 * 1024  # from here on, copies cost more than a call of its own


class Bucket:
    """Some parameters whose gradients are reduced in one call."""

    def __init__(self, index: int, parameters: Sequence[Tensor], sparse: bool = False) -> None:
        self.index = index
        self.parameters = list(parameters)
        self.sparse = sparse
        self.left = 0  # gradients that this pass has not brought yet
        self.work: Any = None
        self._flat: Tensor | None = None
        self._views: list[Tensor] = []

    @property
    def is_alone(self) -> bool:
        """Whether the gradient's own memory is reduced."""
        return len(self.parameters) == 1

    @property
    def nbytes(self) -> int:
        """Bytes of all gradients."""
        return sum(p.numel() * p.element_size() for p in self.parameters)

    def views(self) -> list[Tensor]:
        """The places of the gradients in one row of memory."""
        if self._flat is None:
            total = sum(p.numel() for p in self.parameters)
            self._flat = ad.zeros(total, dtype=self.parameters[0].dtype)
            begin = 0
            for p in self.parameters:
                self._views.append(self._flat[begin : begin + p.numel()].view(p.shape))
                begin += p.numel()
        return self._views

    def collect(self, as_views: bool, factor: float) -> Tensor:
        """The memory to be reduced: all gradients, zeros for what has none, times a factor."""
        grads = [p.grad for p in self.parameters]
        if self.is_alone and not as_views and grads[0] is not None and grads[0].is_contiguous():
            return grads[0].mul_(factor) if factor != 1 else grads[0]
        self._copy_in(self.views(), grads, factor)
        assert self._flat is not None
        return self._flat

    @staticmethod
    def _copy_in(views: list[Tensor], grads: Sequence[Tensor | None], factor: float) -> None:
        for view, grad in zip(views, grads, strict=True):
            if grad is None:
                view.zero_()
            elif grad.data_ptr() == view.data_ptr() and grad.is_contiguous():
                view.mul_(factor)
            else:
                ad.mul(grad, factor, out=view)  # in one go

    def give_back(self, flat: Tensor, as_views: bool, used: Sequence[bool]) -> None:
        """Put the reduced values where the gradients are; leave those that no rank has used."""
        own = self.parameters[0].grad if self.is_alone else None
        if own is not None and not as_views and flat.data_ptr() == own.data_ptr():
            return
        views = self.views()
        if self._flat is not None and flat.data_ptr() != self._flat.data_ptr():
            self._flat.copy_(flat.view(-1))
        places, values = [], []
        for p, view, is_used in zip(self.parameters, views, used, strict=True):
            if not is_used:
                continue
            if as_views:
                p.grad = view
            elif p.grad is None:
                p.grad = view.clone()
            else:
                places.append(p.grad)
                values.append(view)
        if places:
            _made_names._foreach_copy_(places, values)


def buckets_of(
    parameters: Sequence[Tensor], sparse: Sequence[bool], cap_bytes: int
) -> list[Bucket]:
    """Buckets in the order in which they are reduced."""
    buckets: list[Bucket] = []
    filling: list[Tensor] = []
    filled = 0

    def close() -> None:
        nonlocal filling, filled
        if filling:
            buckets.append(Bucket(len(buckets), filling))
        filling, filled = [], 0

    for p, is_sparse in reversed(list(zip(parameters, sparse, strict=True))):
        size = p.numel() * p.element_size()
        if is_sparse or size >= _ALONE_BYTES:
            close()
            buckets.append(Bucket(len(buckets), [p], is_sparse))
            continue
        if filling and (filling[0].dtype != p.dtype or filled + size > cap_bytes):
            close()
        filling.append(p)
        filled += size
        if filled >= (_FIRST_BYTES if not buckets else cap_bytes):
            close()
    close()
    return buckets


def reduce_sparse(grad: Tensor | None, like: Tensor, factor: float, group: Any) -> Tensor:
    """The sum of sparse gradients of all ranks: their entries, one rank's after the other's."""
    grad = ad.zeros_like(like).to_sparse() if grad is None else grad
    grad = (grad if grad.is_sparse else grad.to_sparse()).coalesce()
    ranks = dist.get_world_size(group)
    count = ad.tensor([grad.values().shape[0]])
    counts = [ad.zeros(1, dtype=ad.int64) for _ in range(ranks)]
    dist.all_gather(counts, count, group)
    sizes = [int(c) for c in counts]
    rows, values = grad.indices(), grad.values() * factor
    all_rows = [ad.empty(rows.shape[0], n, dtype=rows.dtype) for n in sizes]
    all_values = [ad.empty(n, *values.shape[1:], dtype=values.dtype) for n in sizes]
    dist.all_gather(all_rows, rows, group)
    dist.all_gather(all_values, values, group)
    size = tuple(like.shape)
    return ad.sparse_coo_tensor(ad.cat(all_rows, 1), ad.cat(all_values), size).coalesce()
