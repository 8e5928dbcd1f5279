"""`ProcessGroup`: some ranks, their communicators, and how a call of MPI is made for them.

A short operation is started and asked about: it takes microseconds, and sees a timeout and Ctrl-C.
A long one goes to the group's queue, whose thread makes blocking calls in the order they were
given, or starts one and sleeps between its questions. The two do not match each other between
ranks, nor does MPI know an order between a thread's calls and another's: so each kind has a
communicator of its own, and which kind an operation is of depends on what is the same on all
ranks, the bytes of its result. A long all_reduce on one machine goes through shared memory
(_board.py), in the same queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjoint import _core
from adjoint.distributed._board import board_for
from adjoint.distributed._ends import leave
from adjoint.distributed._errors import DistBackendError
from adjoint.distributed._library import FEW, address, mpi
from adjoint.distributed._reduce_op import ReduceOp
from adjoint.distributed._work import Work

__all__ = ["ANY_SIZE", "ProcessGroup"]

# Bytes; above, an operation goes to the queue.
_LONG = 64 * 1024
# Up to here, and among few ranks, a reduction is not made by a blocking call: that asks without a
# pause, and of two ranks on a busy machine the one is off its core when the other is on. Beyond,
# blocking calls have the better algorithms.
_GENTLE = 4 * 1024 * 1024
ANY_SIZE = _LONG + 1  # of an operation whose size differs between ranks


class ProcessGroup:
    """Some of the ranks; made by ``init_process_group`` and ``new_group``."""

    def __init__(
        self, comm: Any, ranks: Sequence[int], seconds: float, backend: str, name: str
    ) -> None:
        self._comm = comm
        self._comm_of_queue = comm.Dup()
        self._handle = int(mpi()._handleof(comm))
        self._handle_of_queue = int(mpi()._handleof(self._comm_of_queue))
        self._ranks = list(ranks)
        self._rank = int(comm.Get_rank())
        self._seconds = seconds
        self._backend = backend
        self._broken = ""
        self._queue = _core._ForeignQueue(
            address("MPI_Ibarrier"), address("MPI_Test"), self._handle_of_queue
        )
        self._under_way: list[Work] = []
        self._number = 0  # of a group of all ranks: 1 for the first, 2 after it was destroyed
        self._operations = 0  # that were begun
        self._threads = mpi().Query_thread() == mpi().THREAD_MULTIPLE
        self._board = board_for(comm) if self._threads else None
        self.group_name = name
        self.group_desc = name

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """How many ranks there are."""
        return len(self._ranks)

    def name(self) -> str:
        """The name of the backend."""
        return self._backend

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name}: rank {self._rank} of {self.size()}>"

    def run(
        self,
        name: str,
        words: Sequence[tuple[int, ...]],
        memories: Sequence[Any],
        nbytes: int,
        result: list[Any],
        async_op: bool,
        held: Any = None,
    ) -> Work | None:
        """Make collective calls ``MPI_name(*words, comm)``; their `Work`, or wait for it.

        `nbytes` is the same on all ranks.
        """
        what = _TORCH_NAMES.get(name, name.lower())
        self._refuse_broken(what)
        self._forget_done()
        calls = [self._call(name, w, nbytes, async_op, i == 0) for i, w in enumerate(words)]
        self._operations += 1
        work = Work(what, self, calls, (memories, held), result, lambda: _bring_back(memories))
        work.operation = self._operations
        if async_op:
            self._under_way.append(work)
            return work
        work.wait()
        return None

    def _call(
        self, name: str, words: tuple[int, ...], nbytes: int, async_op: bool, is_first: bool
    ) -> _core._ForeignCall:
        if name == "shared all_reduce":
            assert self._board is not None
            return self._queue.submit(self._board.function, words, False, False)
        if nbytes > _LONG and self._threads:
            every = (*words, self._handle_of_queue)
            if name == "Allreduce" and nbytes <= _GENTLE and self.size() <= FEW:
                return self._queue.submit(address("MPI_Iallreduce"), every, False, True)
            return self._queue.submit(address(f"MPI_{name}"), every, is_first, False)
        function = address(f"MPI_I{name.lower()}")
        aside = async_op and self._threads
        return _core._foreign_start(function, (*words, self._handle), address("MPI_Test"), aside)

    def board(self, nbytes: int) -> int | None:
        """The first argument of ``"shared all_reduce"``; None where MPI's own is to be taken."""
        return self._board.address if self._board is not None and nbytes > _LONG else None

    def start(
        self,
        name: str,
        words: tuple[int, ...],
        memory: Any,
        aside: bool,
        kind: type[Work] = Work,
    ) -> Work:
        """Start ``MPI_Iname(*words, comm)``, a message from one rank to another."""
        what = name.removeprefix("I")
        self._refuse_broken(what)
        self._forget_done()
        every = (*words, self._handle)
        aside = aside and self._threads
        call = _core._foreign_start(address(f"MPI_{name}"), every, address("MPI_Test"), aside)
        work = kind(what, self, [call], memory, [memory.tensor], memory.back)
        if aside:
            self._under_way.append(work)
        return work

    def _refuse_broken(self, what: str) -> None:
        if self._broken:
            raise DistBackendError(f"{what} after a failure of this group: {self._broken}")

    def _forget_done(self) -> None:
        """Let go of the memory of what is done; until then MPI may write there."""
        if self._under_way:
            self._under_way = [work for work in self._under_way if not work._arrived()]

    def _leave(self) -> None:
        """Tell the others that this rank is done with the group, if it is that of all ranks."""
        if self._number:
            leave(self._number, self._rank, self._operations)

    def _free(self) -> None:
        """Give the communicators back."""
        self._leave()
        if not self._broken:
            for work in self._under_way:
                work.wait()
            if self._board is not None:
                self._board.free()
            self._comm_of_queue.Free()
            self._comm.Free()
        self._broken = "the group was destroyed"

    # PyTorch's groups have the operations as methods, too.
    def allreduce(self, tensor: Any, op: Any = None) -> Work:
        """Start an all_reduce of a tensor, or of the only one of a list."""
        from adjoint.distributed import _collectives

        only = tensor[0] if isinstance(tensor, list | tuple) else tensor
        op = getattr(op, "reduceOp", op)
        work = _collectives.all_reduce(only, ReduceOp.SUM if op is None else op, self, True)
        assert work is not None
        return work

    def broadcast(self, tensor: Any, root: int = 0) -> Work:
        """Start a broadcast of a tensor, or of the only one of a list."""
        from adjoint.distributed import _collectives

        only = tensor[0] if isinstance(tensor, list | tuple) else tensor
        root = getattr(root, "rootRank", root)
        work = _collectives.broadcast(only, group=self, async_op=True, group_src=root)
        assert work is not None
        return work

    def barrier(self, *_: Any) -> Work:
        """Start a barrier."""
        from adjoint.distributed import _collectives

        work = _collectives.barrier(self, async_op=True)
        assert work is not None
        return work


_TORCH_NAMES = {
    "Allreduce": "all_reduce",
    "shared all_reduce": "all_reduce",
    "Bcast": "broadcast",
    "Allgather": "all_gather",
    "Allgatherv": "all_gather",
    "Reduce_scatter_block": "reduce_scatter",
    "Reduce_scatter": "reduce_scatter",
    "Alltoall": "all_to_all",
    "Alltoallv": "all_to_all",
}


def _bring_back(memories: Sequence[Any]) -> None:
    """Copy results to where they belong, if that is not where MPI has put them."""
    for memory in memories:
        if memory.back is not None:
            memory.back()
