"""Messages from one rank to another: `send`, `recv` and their asynchronous forms."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from adjoint import Tensor
from adjoint.distributed._errors import DistBackendError
from adjoint.distributed._group import ProcessGroup
from adjoint.distributed._library import give_up_finalizing, mpi
from adjoint.distributed._memory import MOST, Memory, check_tensor, readable, writable
from adjoint.distributed._types import datatype
from adjoint.distributed._work import Received, Work
from adjoint.distributed._world import group_of, root_of

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]


def _words(memory: Memory, other: int, tag: int) -> tuple[int, ...]:
    if memory.count > MOST:
        raise ValueError(f"{memory.count} elements in one message; MPI takes up to {MOST}")
    return memory.address, memory.count, datatype(memory.tensor.dtype), other, tag


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Start sending a tensor to a rank; leave it unchanged until the `Work` is done."""
    return _send(tensor, dst, group, tag, group_dst, True)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to a rank."""
    work = _send(tensor, dst, group, tag, group_dst, False)
    if work is not None:
        work.wait()


def _send(
    tensor: Tensor, dst: int | None, group: Any, tag: int, group_dst: int | None, aside: bool
) -> Work | None:
    check_tensor(tensor)
    which = group_of(group)
    if which is None:
        return None
    other = root_of(which, dst, group_dst, "dst")
    _refuse_self(which, other, "destination")
    memory = readable(tensor)
    return which.start("Isend", _words(memory, other, tag), memory, aside)


def _refuse_self(group: ProcessGroup, other: int, name: str) -> None:
    if other == group.rank():
        raise ValueError(
            f"Invalid {name} rank: {name} rank should not be the same as the rank of the current "
            "process."
        )


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Start receiving a tensor from a rank."""
    return _receive(tensor, src, group, tag, group_src, True)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from a rank, any by default; return which. -1 outside the group."""
    work = _receive(tensor, src, group, tag, group_src, False)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


def _receive(
    tensor: Tensor, src: int | None, group: Any, tag: int, group_src: int | None, aside: bool
) -> Work | None:
    check_tensor(tensor)
    which = group_of(group)
    if which is None:
        return None
    anyone = src is None and group_src is None
    other = _first_sender(which, tag) if anyone else root_of(which, src, group_src, "src")
    _refuse_self(which, other, "source")
    memory = writable(tensor, read=False)
    work = which.start("Irecv", _words(memory, other, tag), memory, aside, Received)
    assert isinstance(work, Received)
    work.source = which._ranks[other]
    return work


def _first_sender(group: ProcessGroup, tag: int) -> int:
    """Wait until there is a message from anybody; the rank that sent it."""
    library = mpi()
    status = library.Status()
    end = time.monotonic() + group._seconds
    while not group._comm.Iprobe(library.ANY_SOURCE, tag, status):
        if time.monotonic() > end:
            give_up_finalizing()
            raise DistBackendError(
                f"recv on rank {group.rank()} waited {group._seconds:g} s for a message from any "
                f"of {group.size()} ranks.\n  fix: let one of them send to rank {group.rank()}, or "
                "raise timeout= of init_process_group"
            )
        time.sleep(20e-6)
    return int(status.Get_source())


class P2POp:
    """One of the messages that `batch_isend_irecv` starts together."""

    def __init__(
        self,
        op: Callable[..., Work | None],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        check_tensor(tensor)
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Start several messages; those to be received first, so that none waits for another."""
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(f"Invalid ``p2p_op_list``. Expected a list of P2POp, got {p2p_op_list}")
    works: dict[int, Work | None] = {}
    for i, op in sorted(enumerate(p2p_op_list), key=lambda pair: pair[1].op is isend):
        works[i] = op.op(op.tensor, op.peer, op.group, op.tag, op.group_peer)
    return [work for i in range(len(p2p_op_list)) if (work := works[i]) is not None]
