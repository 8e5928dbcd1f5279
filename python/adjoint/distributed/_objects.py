"""Any Python objects between ranks, as pickles.

A pickle runs what it says: ranks of one program trust each other, and only they can send.
"""

from __future__ import annotations

import pickle
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.distributed._collectives import broadcast
from adjoint.distributed._gathering import all_gather, gather, scatter
from adjoint.distributed._messages import recv, send
from adjoint.distributed._world import get_world_size, group_of, root_of

__all__ = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def _to_tensor(value: Any) -> Tensor:
    return ad.frombuffer(bytearray(pickle.dumps(value)), dtype=ad.uint8)


def _to_object(tensor: Tensor) -> Any:
    return pickle.loads(tensor.numpy().tobytes())


def _sizes(own: int, group: Any) -> list[int]:
    ranks = get_world_size(group)
    sizes = [ad.zeros(1, dtype=ad.int64) for _ in range(ranks)]
    all_gather(sizes, ad.tensor([own]), group)
    return [int(size) for size in sizes]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Give all ranks the objects of all, in the list."""
    if group_of(group) is None:
        return
    own = _to_tensor(obj)
    parts = [ad.empty(size, dtype=ad.uint8) for size in _sizes(own.numel(), group)]
    all_gather(parts, own, group)
    for i, part in enumerate(parts):
        object_list[i] = _to_object(part)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Give rank `dst` the objects of all ranks, in its list."""
    which = group_of(group)
    if which is None:
        return
    root = root_of(which, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    is_root = which.rank() == root
    if is_root and not object_gather_list:
        raise ValueError("Argument object_gather_list must be specified on the destination rank.")
    own = _to_tensor(obj)
    sizes = _sizes(own.numel(), which)
    padded = ad.zeros(max(sizes), dtype=ad.uint8)
    padded[: own.numel()] = own
    parts = [ad.empty_like(padded) for _ in sizes] if is_root else None
    gather(padded, parts, group=which, group_dst=root)
    if parts is not None and object_gather_list is not None:
        for i, (part, size) in enumerate(zip(parts, sizes, strict=True)):
            object_gather_list[i] = _to_object(part[:size])


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Give all ranks the objects of rank `src`, in place of those of their lists."""
    which = group_of(group)
    if which is None:
        return
    root = root_of(which, 0 if src is None and group_src is None else src, group_src, "src")
    sending = which.rank() == root
    data = _to_tensor(object_list) if sending else None
    size = ad.tensor([0 if data is None else data.numel()])
    broadcast(size, group=which, group_src=root)
    if data is None:
        data = ad.empty(int(size), dtype=ad.uint8)
    broadcast(data, group=which, group_src=root)
    if not sending:
        received = _to_object(data)
        if len(received) != len(object_list):
            raise ValueError(f"{len(received)} objects came, object_list has {len(object_list)}")
        object_list[:] = received


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Give rank i object i of the list of rank `src`, as the first of its list."""
    which = group_of(group)
    if which is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    root = root_of(which, 0 if src is None and group_src is None else src, group_src, "src")
    parts: list[Tensor] | None = None
    sizes = ad.zeros(which.size(), dtype=ad.int64)
    if which.rank() == root:
        given = scatter_object_input_list or []
        if len(given) != which.size():
            raise ValueError(f"{len(given)} objects in the input list, for {which.size()} ranks")
        flat = [_to_tensor(value) for value in given]
        sizes = ad.tensor([part.numel() for part in flat])
        parts = [ad.zeros(int(sizes.max()), dtype=ad.uint8) for _ in flat]
        for part, data in zip(parts, flat, strict=True):
            part[: data.numel()] = data
    broadcast(sizes, group=which, group_src=root)
    own = ad.empty(int(sizes.max()), dtype=ad.uint8)
    scatter(own, parts, group=which, group_src=root)
    scatter_object_output_list[0] = _to_object(own[: int(sizes[which.rank()])])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send objects to a rank."""
    data = _to_tensor(object_list)
    send(ad.tensor([data.numel()]), dst, group, group_dst=group_dst)
    send(data, dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive objects from a rank, in place of those of the list; return which rank."""
    size = ad.zeros(1, dtype=ad.int64)
    source = recv(size, src, group, group_src=group_src)
    data = ad.empty(int(size), dtype=ad.uint8)
    recv(data, source, group)
    object_list[:] = _to_object(data)
    return source
