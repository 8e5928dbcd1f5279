"""Memory that all ranks of a group see, if they are on one machine: long reductions go through it.

MPI makes it (``MPI_Win_allocate_shared``). Read next: src/bindings/interop/shared_reduction.cpp.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from adjoint import _core
from adjoint.distributed._library import FEW, address, mpi

__all__ = ["DIFFERENT", "Board", "board_for"]

DIFFERENT = -1  # what a reduction returns when the ranks do not call for the same one

_CHUNK = 512 * 1024  # bytes that stay in the cache while they are laid out, added and taken
_BYTES = 16 * 1024 * 1024  # of all places: who has the core goes on until its place is full
_LINES = 128  # bytes of two lines of the cache, where a board begins

_kept: list[Any] = []  # a call that never ends may read what a board is until the process ends


class Board:
    """The memory, and the call that reduces through it."""

    def __init__(self, window: Any, words: Any, function: int) -> None:
        self._window = window
        self._words = words
        self.function = function
        _kept.append(words)

    @property
    def address(self) -> int:
        """Of what the call reads first."""
        return int(self._words.ctypes.data)

    def free(self) -> None:
        """Give the memory back; all ranks do."""
        self._window.Free()


def board_for(comm: Any) -> Board | None:
    """The board of a communicator; None for one rank, for many, and on several machines."""
    library = mpi()
    ranks = comm.Get_size()
    if not 1 < ranks <= FEW:
        return None
    here = comm.Split_type(library.COMM_TYPE_SHARED)
    is_first = here.Get_rank() == 0
    if not comm.allreduce(here.Get_size() == ranks, library.LAND):
        here.Free()
        return None
    function, sign = _core._shared_all_reduce()
    buffers = _BYTES // ranks // _CHUNK
    size = ranks * (sign + buffers * _CHUNK)
    try:
        window = library.Win.Allocate_shared(size + _LINES if is_first else 0, 1, comm=here)
    except library.Exception:  # no room for it, or a library without
        window = None
    here.Free()
    if not comm.allreduce(window is not None, library.LAND):
        return None
    assert window is not None
    base = -(-window.Shared_query(0)[0].address // _LINES) * _LINES
    if is_first:
        ctypes.memset(base, 0, ranks * sign)
    comm.Barrier()
    words = [base, comm.Get_rank(), ranks, _CHUNK, buffers, address("MPI_Reduce_local"), 0]
    return Board(window, np.array(words, dtype=np.uint64), function)
