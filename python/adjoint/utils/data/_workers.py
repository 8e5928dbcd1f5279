"""Batches from several processes.

A worker gets numbered lists of indices, in turn with the others and some ahead (`prefetch_factor`),
and sends numbered batches, over a socket of its own (`_sharing/channel.py`). Batches that come
before their turn wait. A socket that ends tells either side that the other is gone.
"""

from __future__ import annotations

import itertools
import os
import pickle
import select
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

from adjoint._utils import ExceptionWrapper
from adjoint.utils.data import _utils
from adjoint.utils.data._iterators import _BaseDataLoaderIter
from adjoint.utils.data._utils.worker import (
    Work,
    _IterableDatasetStopIteration,
    _ResumeIteration,
    _worker_loop,
)

if TYPE_CHECKING:
    from adjoint.utils.data.dataloader import DataLoader

__all__ = ["_MultiProcessingDataLoaderIter"]


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        self._prefetch_factor = loader.prefetch_factor or 0
        self._in_order = loader.in_order
        if self._prefetch_factor <= 0:
            raise AssertionError(
                "prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter"
            )
        self._shutdown = False
        self._owner = os.getpid()
        self._workers: list[Any] = []
        self._channels: list[Any] = []
        work = Work(
            loader._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
            self._base_seed,
            loader.worker_init_fn,
            self._num_workers,
        )
        for number in range(self._num_workers):
            self._start(loader, work, number)
        self._poller = select.poll()
        self._places = {channel.fileno(): i for i, channel in enumerate(self._channels)}
        for channel in self._channels:
            self._poller.register(channel, select.POLLIN)
        self._reset(loader, first_iter=True)

    def _start(self, loader: DataLoader[Any], work: Work, number: int) -> None:
        import multiprocessing

        from adjoint._sharing.channel import Channel

        context: Any = loader.multiprocessing_context or multiprocessing
        here, there = context.Pipe()
        worker = context.Process(target=_worker_loop, args=(work, number, there), daemon=True)
        self._channels.append(Channel(here))
        try:
            worker.start()
        except (TypeError, AttributeError, pickle.PicklingError):
            warnings.warn(
                "Got pickle error when attempting to start a worker Process. This might be because "
                "the worker Process arguments are not picklable. Python 3.14+ changed the "
                "multiprocessing start method in non-Mac POSIX platforms to 'forkserver', which "
                "requires the worker Process arguments to be picklable. You can also try "
                "multiprocessing.set_start_method('fork').",
                stacklevel=5,
            )
            raise
        finally:
            there.close()
        self._workers.append(worker)

    def _reset(self, loader: DataLoader[Any], first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._sent = 0  # batches asked for
        self._due = 0  # the number of the next one to return
        self._asked: dict[int, int] = {}  # of a batch that has not come: its worker
        self._come: dict[int, Any] = {}  # batches before their turn
        self._working = [True] * self._num_workers
        self._load = [0] * self._num_workers  # batches that a worker still has to send
        self._turns = itertools.cycle(range(self._num_workers))
        if not first_iter:
            self._resume()
        for _ in range(self._prefetch_factor * self._num_workers):
            self._ask()

    def _resume(self) -> None:
        """Let the workers begin anew; batches that nobody took come first."""
        for channel in self._channels:
            channel.send(_ResumeIteration())
        waiting = self._num_workers
        while waiting:
            number, _ = self._next_message()
            waiting -= isinstance(number, _ResumeIteration)

    # -- asking ----------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Ask the next worker for the next batch, if there is one."""
        try:
            indices = self._next_index()
        except StopIteration:
            return
        worker = self._next_worker()
        if worker is None:
            return
        try:
            self._channels[worker].send((self._sent, indices))
        except ConnectionError:
            self._refuse_lost_workers(worker)
        self._asked[self._sent] = worker
        self._load[worker] += 1
        self._sent += 1

    def _next_worker(self) -> int | None:
        busy = self._prefetch_factor * self._num_workers // max(1, sum(self._working))
        for worker in itertools.islice(self._turns, self._num_workers):
            if self._working[worker] and (self._in_order or self._load[worker] < busy):
                return worker
        return None

    # -- returning -------------------------------------------------------------------------------

    def _next_data(self) -> Any:
        while True:
            # A worker that has no more samples does not send what it was asked for besides.
            while self._due < self._sent and not self._will_come(self._due):
                self._asked.pop(self._due, None)
                self._due += 1
            if self._due == self._sent:
                if not self._persistent_workers:
                    self._shutdown_workers()
                raise StopIteration
            if self._due in self._come:
                data = self._come.pop(self._due)
                self._due += 1
                return self._opened(data)
            number, data = self._next_message()
            if isinstance(number, _ResumeIteration):
                continue
            worker = self._asked.pop(number)
            self._load[worker] -= 1
            if isinstance(data, _IterableDatasetStopIteration):
                self._working[worker] = False
                self._ask()
            elif number == self._due or not self._in_order:
                self._due += number == self._due
                return self._opened(data)
            else:
                self._come[number] = data

    def _will_come(self, number: int) -> bool:
        if number in self._come:
            return True
        worker = self._asked.get(number)
        return worker is not None and self._working[worker]

    def _opened(self, data: Any) -> Any:
        self._ask()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    def _next_message(self) -> Any:
        """The next of what the workers send, whichever comes first."""
        for channel in self._channels:
            if channel.waiting:
                return channel.receive()
        deadline = time.monotonic() + self._timeout
        while True:
            patience = _utils.MP_STATUS_CHECK_INTERVAL
            if self._timeout > 0:
                patience = min(patience, max(0.0, deadline - time.monotonic()))
            for place, _ in self._poller.poll(patience * 1000):
                try:
                    return self._channels[self._places[place]].receive()
                except (EOFError, ConnectionError):
                    self._refuse_lost_workers(self._places[place])
            if self._timeout > 0 and time.monotonic() >= deadline:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            self._refuse_lost_workers()

    def _refuse_lost_workers(self, closed: int | None = None) -> None:
        """Raise if a worker has ended that was not asked to."""
        if closed is not None:
            self._workers[closed].join(_utils.MP_STATUS_CHECK_INTERVAL)
        lost = [worker for worker in self._workers if not worker.is_alive()]
        if not lost:
            return
        self._shutdown_workers()
        ends = ", ".join(_end_of(worker) for worker in lost)
        pids = ", ".join(str(worker.pid) for worker in lost)
        raise RuntimeError(f"DataLoader worker (pid(s) {pids}) exited unexpectedly: {ends}")

    # -- the end ---------------------------------------------------------------------------------

    def _shutdown_workers(self) -> None:
        """Let the workers end, by closing their sockets, and wait for them."""
        if self._shutdown or sys is None or sys.is_finalizing():
            return  # at the end of Python, multiprocessing ends them
        if os.getpid() != self._owner:
            return  # a copy of this object in a forked process: the workers are not its own
        self._shutdown = True
        for channel in self._channels:
            channel.close()
        for worker in self._workers:
            worker.join(_utils.MP_STATUS_CHECK_INTERVAL)
        for worker in self._workers:
            if worker.is_alive():
                worker.terminate()
                worker.join(_utils.MP_STATUS_CHECK_INTERVAL)

    def __del__(self) -> None:
        if hasattr(self, "_channels"):
            self._shutdown_workers()


def _end_of(worker: Any) -> str:
    import signal

    code = worker.exitcode
    if code is not None and code < 0:
        return f"killed by signal {signal.Signals(-code).name}"
    return f"exit code {code}"
