"""Collective operations that put tensors of ranks together or take them apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import adjoint as ad
from adjoint import Tensor
from adjoint.distributed._group import ANY_SIZE, ProcessGroup
from adjoint.distributed._memory import (
    MOST,
    Memory,
    check_list,
    check_tensor,
    divide_after,
    flat_of,
    readable,
    spread,
    writable,
)
from adjoint.distributed._reduce_op import ReduceOp, checked_op
from adjoint.distributed._types import datatype, operation
from adjoint.distributed._work import Work
from adjoint.distributed._world import group_of, root_of

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_to_all",
    "all_to_all_single",
    "gather",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "scatter",
]


class _Counts:
    """Numbers of elements per rank and where each part begins, as C's ints."""

    def __init__(self, counts: Sequence[int]) -> None:
        begins = [0, *itertools.accumulate(counts)]
        _check_count(begins[-1])
        self._arrays = np.array([counts, begins[:-1]], dtype=np.int32)
        self.counts = int(self._arrays[0].ctypes.data)
        self.begins = int(self._arrays[1].ctypes.data)


def _check_count(count: int) -> None:
    if count > MOST:
        raise ValueError(f"{count} elements in one call; MPI takes up to {MOST}: split the tensor")


def _check_parts(parts: Any, name: str, size: int, dtype: Any) -> None:
    check_list(parts, name)
    if len(parts) != size:
        raise RuntimeError(f"`{name}` has {len(parts)} tensors, for {size} ranks")
    if any(part.dtype != dtype for part in parts):
        raise ValueError(f"Invalid usage of tensors with different dtypes: `{name}`, {dtype}")


def all_gather(
    tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give all ranks the tensors of all, as a list; sizes may differ between ranks."""
    check_tensor(tensor)
    which = group_of(group)
    if which is None:
        return None
    _check_parts(tensor_list, "tensor_list", which.size(), tensor.dtype)
    sizes = [part.numel() for part in tensor_list]
    if sizes[which.rank()] != tensor.numel():
        raise RuntimeError(
            f"tensor has {tensor.numel()} elements, its place in tensor_list {sizes[which.rank()]}"
        )
    kind, source = datatype(tensor.dtype), readable(tensor)
    flat = ad.empty(sum(sizes), dtype=tensor.dtype)
    into = Memory(flat, lambda: spread(flat, tensor_list))
    counts = _Counts(sizes)
    words = (source.address, source.count, kind, into.address, counts.counts, counts.begins, kind)
    return which.run(
        "Allgatherv", [words], [source, into], into.nbytes, tensor_list, async_op, counts
    )


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give all ranks the tensors of all, one after the other in one tensor."""
    check_tensor(output_tensor, "output_tensor")
    check_tensor(input_tensor, "input_tensor")
    which = group_of(group)
    if which is None:
        return None
    _check_whole(output_tensor, input_tensor, which.size(), "output", "input")
    kind, source = datatype(input_tensor.dtype), readable(input_tensor)
    into = writable(output_tensor, read=False)
    source = _apart(source, into)
    words = (source.address, source.count, kind, into.address, source.count, kind)
    return which.run("Allgather", [words], [source, into], into.nbytes, [output_tensor], async_op)


def _apart(source: Memory, into: Memory) -> Memory:
    """The source, or a copy if it lies in the memory that is written."""
    begin, end = into.address, into.address + into.nbytes
    if source.nbytes and begin < source.address + source.nbytes and source.address < end:
        return Memory(source.tensor.clone())
    return source


def _check_whole(whole: Tensor, part: Tensor, ranks: int, one: str, other: str) -> None:
    if whole.dtype != part.dtype:
        raise TypeError(f"{one} tensor is {whole.dtype}, {other} tensor {part.dtype}")
    if whole.numel() != part.numel() * ranks:
        raise RuntimeError(
            f"{one} tensor size must be equal to world_size times {other} tensor size: "
            f"{list(whole.shape)}, {list(part.shape)} and {ranks} ranks"
        )
    _check_count(whole.numel())


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the tensors of all ranks to one; each rank gets its part of that."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    which = group_of(group)
    if which is None:
        return None
    _check_whole(input, output, which.size(), "input", "output")
    return _reduce_scatter(
        output, input.detach(), [output.numel()] * which.size(), op, which, async_op
    )


def reduce_scatter(
    output: Tensor,
    input_list: list[Tensor],
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Reduce the lists of all ranks to one; rank i gets tensor i of that."""
    check_tensor(output, "output")
    which = group_of(group)
    if which is None:
        return None
    _check_parts(input_list, "input_list", which.size(), output.dtype)
    sizes = [part.numel() for part in input_list]
    if sizes[which.rank()] != output.numel():
        raise ValueError(f"output has {output.numel()} elements, its input {sizes[which.rank()]}")
    return _reduce_scatter(output, flat_of(input_list), sizes, op, which, async_op)


def _reduce_scatter(
    output: Tensor, flat: Tensor, sizes: list[int], op: Any, group: ProcessGroup, async_op: bool
) -> Work | None:
    op = checked_op(op)
    kind, how = datatype(output.dtype), operation(op, output.dtype)
    into = writable(output, read=False)
    source = _apart(readable(flat), into)
    counts = _Counts(sizes)
    if op is ReduceOp.AVG:
        divide_after(into, group.size())
    words = (source.address, into.address, counts.counts, kind, how)
    return group.run(
        "Reduce_scatter", [words], [source, into], source.nbytes, [output], async_op, counts
    )


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send part j of the input to rank j; the output's part i is what rank i has sent."""
    check_tensor(output, "output")
    check_tensor(input, "input")
    which = group_of(group)
    if which is None:
        return None
    sent = _split_sizes(input, input_split_sizes, which.size(), "input")
    received = _split_sizes(output, output_split_sizes, which.size(), "output")
    return _all_to_all(
        readable(input), writable(output, read=False), sent, received, which, [output], async_op
    )


def _split_sizes(tensor: Tensor, sizes: Sequence[int] | None, ranks: int, name: str) -> list[int]:
    """Elements for each rank; sizes are of the first axis."""
    length = tensor.shape[0] if tensor.dim() else 0
    row = tensor.numel() // length if length else 0
    if sizes:
        if len(sizes) != ranks or sum(sizes) != length:
            raise RuntimeError(
                f"Split sizes doesn't match total dim 0 size: {list(sizes)} of the {name} of "
                f"{length} rows, for {ranks} ranks"
            )
        return [size * row for size in sizes]
    if length % ranks:
        raise RuntimeError(
            f"Tensor's dim 0 does not divide equally across group size: the {name} has {length} "
            f"rows, for {ranks} ranks"
        )
    return [length // ranks * row] * ranks


def all_to_all(
    output_tensor_list: list[Tensor],
    input_tensor_list: list[Tensor],
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Send tensor j of the input list to rank j; the output's tensor i is what rank i has sent."""
    which = group_of(group)
    if which is None:
        return None
    dtype = input_tensor_list[0].dtype if input_tensor_list else None
    _check_parts(input_tensor_list, "input_tensor_list", which.size(), dtype)
    _check_parts(output_tensor_list, "output_tensor_list", which.size(), dtype)
    sent = [part.numel() for part in input_tensor_list]
    received = [part.numel() for part in output_tensor_list]
    flat = ad.empty(sum(received), dtype=dtype)
    into = Memory(flat, lambda: spread(flat, output_tensor_list))
    return _all_to_all(
        Memory(flat_of(input_tensor_list)),
        into,
        sent,
        received,
        which,
        output_tensor_list,
        async_op,
    )


def _all_to_all(
    source: Memory,
    into: Memory,
    sent: list[int],
    received: list[int],
    group: ProcessGroup,
    result: list[Tensor],
    async_op: bool,
) -> Work | None:
    if source.tensor.dtype != into.tensor.dtype:
        raise TypeError(f"the input is {source.tensor.dtype}, the output {into.tensor.dtype}")
    kind = datatype(source.tensor.dtype)
    source = _apart(source, into)
    give, take = _Counts(sent), _Counts(received)
    words = (
        source.address,
        give.counts,
        give.begins,
        kind,
        into.address,
        take.counts,
        take.begins,
        kind,
    )
    return group.run("Alltoallv", [words], [source, into], ANY_SIZE, result, async_op, (give, take))


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Give rank `dst` the tensors of all ranks, as a list."""
    check_tensor(tensor)
    which = group_of(group)
    if which is None:
        return None
    root = root_of(which, 0 if dst is None and group_dst is None else dst, group_dst, "dst")
    kind, source = datatype(tensor.dtype), readable(tensor)
    parts = _parts_of_root(gather_list, "gather_list", tensor, which, root, "destination")
    if parts is None:
        words = (source.address, source.count, kind, 0, 0, kind, root)
        return which.run("Gather", [words], [source], source.nbytes, [], async_op)
    flat = ad.empty(tensor.numel() * which.size(), dtype=tensor.dtype)
    into = Memory(flat, lambda: spread(flat, parts))
    words = (source.address, source.count, kind, into.address, source.count, kind, root)
    return which.run("Gather", [words], [source, into], source.nbytes, parts, async_op)


def _parts_of_root(
    parts: list[Tensor] | None, name: str, tensor: Tensor, group: ProcessGroup, root: int, role: str
) -> list[Tensor] | None:
    """The list that one rank gives, with a tensor for each, checked; None on the others."""
    _check_count(tensor.numel() * group.size())
    if group.rank() != root:
        if parts:
            raise ValueError(f"Argument ``{name}`` must NOT be specified on non-{role} ranks.")
        return None
    if parts is None:
        raise ValueError(f"Argument ``{name}`` must be specified on {role} rank.")
    _check_parts(parts, name, group.size(), tensor.dtype)
    _check_equal(parts, tensor, name)
    return parts


def _check_equal(parts: Sequence[Tensor], tensor: Tensor, name: str) -> None:
    for part in parts:
        if part.numel() != tensor.numel():
            raise ValueError(
                f"`{name}` has a tensor of shape {list(part.shape)}; all must have the size of "
                f"{list(tensor.shape)}"
            )


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give rank i tensor i of the list of rank `src`."""
    check_tensor(tensor)
    which = group_of(group)
    if which is None:
        return None
    root = root_of(which, 0 if src is None and group_src is None else src, group_src, "src")
    kind, into = datatype(tensor.dtype), writable(tensor, read=False)
    parts = _parts_of_root(scatter_list, "scatter_list", tensor, which, root, "source")
    if parts is None:
        words = (0, 0, kind, into.address, into.count, kind, root)
        return which.run("Scatter", [words], [into], into.nbytes, [tensor], async_op)
    source = Memory(flat_of(parts))
    words = (source.address, into.count, kind, into.address, into.count, kind, root)
    return which.run("Scatter", [words], [source, into], into.nbytes, [tensor], async_op)
