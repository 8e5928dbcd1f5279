"""Collective operations on tensors: reductions, broadcasts, barriers.

Read next: _gathering.py, those that take tensors apart or put them together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import adjoint as ad
from adjoint import Tensor
from adjoint.distributed._errors import DistBackendError
from adjoint.distributed._group import ProcessGroup
from adjoint.distributed._library import mpi
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
from adjoint.distributed._types import datatype, number, operation
from adjoint.distributed._work import Work
from adjoint.distributed._world import group_of, root_of

__all__ = [
    "all_reduce",
    "all_reduce_coalesced",
    "barrier",
    "broadcast",
    "monitored_barrier",
    "reduce",
]


# Bytes of a reduction that one call makes: all at once leaves the cache between sending and adding,
# and takes up to four times as long; in many calls the ranks wait for each other too often.
_STRETCH = 16 * 1024 * 1024


def pieces(memory: Memory, most: int = MOST) -> Iterator[tuple[int, int]]:
    """(address, count) of the parts that one call of MPI takes."""
    size = memory.tensor.element_size()
    for begin in range(0, max(memory.count, 1), most):
        yield memory.address + begin * size, min(most, memory.count - begin)


def _reduced_pieces(memory: Memory) -> Iterator[tuple[int, int]]:
    return pieces(memory, _STRETCH // memory.tensor.element_size())


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce the tensors of all ranks to one, which all get in place of theirs.

    Parameters
    ----------
    tensor : Tensor
        Read and written, in place.
    op : ReduceOp, default SUM
        How.
    group : ProcessGroup, optional
        Whose ranks; all by default.
    async_op : bool, default False
        Return a `Work` at once; it goes on while this process computes.
    """
    check_tensor(tensor)
    which = group_of(group)
    if which is None:
        return None
    return _reduced_in_place("Allreduce", tensor, op, which, async_op)


def _reduced_in_place(
    name: str, tensor: Tensor, op: Any, group: ProcessGroup, async_op: bool, *root: int
) -> Work | None:
    op = checked_op(op)
    kind, how = datatype(tensor.dtype), operation(op, tensor.dtype)
    memory = writable(tensor)
    in_place = int(mpi().IN_PLACE)
    words = [(in_place, at, count, kind, how, *root) for at, count in _reduced_pieces(memory)]
    board = group.board(memory.nbytes) if name == "Allreduce" else None
    if board is not None:
        name, item = "shared all_reduce", tensor.element_size()
        words = [(board, memory.address, memory.count, item, kind, how, number(op, tensor.dtype))]
    if op is ReduceOp.AVG:
        divide_after(memory, group.size())
    return group.run(name, words, [memory], memory.nbytes, [tensor], async_op)


def all_reduce_coalesced(
    tensors: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Reduce several tensors of one dtype at once."""
    check_list(tensors, "tensors")
    which = group_of(group)
    if which is None:
        return None
    if len({t.dtype for t in tensors}) != 1:
        raise ValueError("all tensors must have one dtype")
    flat = flat_of(tensors)
    work = all_reduce(flat, op, which, True)
    assert work is not None
    before = work._finish

    def finish() -> None:
        if before is not None:
            before()
        spread(flat, tensors)

    work._finish, work._result = finish, list(tensors)
    if async_op:
        return work
    work.wait()
    return None


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the tensors of all ranks to one, which rank `dst` gets in place of its own.

    The tensors of the other ranks stay as they are; in PyTorch they hold parts of sums after this.
    """
    check_tensor(tensor)
    which = group_of(group)
    if which is None:
        return None
    root = root_of(which, dst, group_dst, "dst")
    if which.rank() == root:
        return _reduced_in_place("Reduce", tensor, op, which, async_op, root)
    op = checked_op(op)
    kind, how = datatype(tensor.dtype), operation(op, tensor.dtype)
    memory = readable(tensor)
    words = [(at, 0, count, kind, how, root) for at, count in _reduced_pieces(memory)]
    return which.run("Reduce", words, [memory], memory.nbytes, [tensor], async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give all ranks the tensor of rank `src`, in place of theirs."""
    check_tensor(tensor)
    which = group_of(group)
    if which is None:
        return None
    root = root_of(which, src, group_src, "src")
    memory = readable(tensor) if which.rank() == root else writable(tensor, read=False)
    kind = datatype(tensor.dtype)
    words = [(at, count, kind, root) for at, count in pieces(memory)]
    return which.run("Bcast", words, [memory], memory.nbytes, [tensor], async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all ranks are here."""
    which = group_of(group)
    if which is None:
        return None
    return which.run("Barrier", [()], [], 0, [], async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Wait until all ranks are here; rank 0 names those that do not come in time."""
    which = group_of(group)
    if which is None:
        return
    seconds = which._seconds if timeout is None else timeout.total_seconds()
    note = readable(ad.zeros(1, dtype=ad.uint8))
    words = (note.address, 1, datatype(ad.uint8))
    tag = 32767
    if which.rank() != 0:
        which.start("Isend", (*words, 0, tag), note, False).wait(seconds)
        which.start("Irecv", (*words, 0, tag), note, False).wait(seconds)
        return
    end = time.monotonic() + seconds
    missing = []
    for rank in range(1, which.size()):
        try:
            left = max(end - time.monotonic(), 0.001)
            which.start("Irecv", (*words, rank, tag), note, False).wait(left)
        except DistBackendError:
            which._broken = ""
            missing.append(which._ranks[rank])
            if not wait_all_ranks:
                break
    if missing:
        which._broken = f"ranks {missing} did not come"
        raise RuntimeError(
            f"[Rank 0]: Ranks {', '.join(map(str, missing))} failed to pass monitoredBarrier in "
            f"{seconds * 1000:g} ms"
        )
    for rank in range(1, which.size()):
        which.start("Isend", (*words, rank, tag), note, False).wait(seconds)
