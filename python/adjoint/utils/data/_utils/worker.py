"""What a worker process does: it gets the indices of batches, and sends batches."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import Any

import adjoint as ad
from adjoint._utils import ExceptionWrapper

__all__ = ["WorkerInfo", "get_worker_info"]


@dataclass(frozen=True, slots=True)
class _RNG:
    """Generators of a worker that is a thread; processes have the global ones."""

    random_generator: random.Random
    torch_generator: ad.Generator
    numpy_generator: object | None = None


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What `get_worker_info` returns in a worker.

    Attributes
    ----------
    id, num_workers : int
        Which worker this is, of how many.
    seed : int
        The seed of its generators.
    dataset : Dataset
        Its copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: _RNG | None = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a `DataLoader` what it has to know of itself, elsewhere None."""
    return _worker_info


# --- messages: (number, indices) or one of these; answers are (number, batch) ---------------------
@dataclass(frozen=True)
class _IterableDatasetStopIteration:
    """The answer of a worker that has no more samples."""

    worker_id: int


@dataclass(frozen=True)
class _ResumeIteration:
    """Begin anew; the answer is the same message."""

    seed: int | None = None


@dataclass(frozen=True)
class Work:
    """What a worker is started with."""

    kind: int
    dataset: Any
    auto_collation: bool
    collate_fn: Any
    drop_last: bool
    base_seed: int
    init_fn: Any
    num_workers: int

    def fetcher(self) -> Any:
        """A new pass over the dataset."""
        from adjoint.utils.data.dataloader import _DatasetKind

        return _DatasetKind.create_fetcher(
            self.kind, self.dataset, self.auto_collation, self.collate_fn, self.drop_last
        )


def _worker_loop(work: Work, worker_id: int, connection: Any) -> None:
    from adjoint._sharing.channel import Channel

    try:
        channel = Channel(connection)
        _settle(work, worker_id)
        _serve(channel, work, worker_id)
    except (KeyboardInterrupt, EOFError, ConnectionError):
        pass  # the loader has ended, or is about to


def _settle(work: Work, worker_id: int) -> None:
    """Generators with seeds of their own, and one thread: there are other workers."""
    global _worker_info
    import numpy as np

    ad.set_num_threads(1)
    seed = work.base_seed + worker_id
    random.seed(seed)
    ad.manual_seed(seed)
    parts = [worker_id, work.base_seed & 0xFFFFFFFF, work.base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(parts).generate_state(4))  # noqa: NPY002
    _worker_info = WorkerInfo(worker_id, work.num_workers, seed, work.dataset)


def _serve(channel: Any, work: Work, worker_id: int) -> None:
    where = f"in DataLoader worker process {worker_id}"

    def attempt(function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except Exception:
            return ExceptionWrapper(where=where)

    def start() -> Any:
        if work.init_fn is not None:
            work.init_fn(worker_id)
        return work.fetcher()

    fetcher = attempt(start)
    ended = False
    for message in _messages(channel):
        if isinstance(message, _ResumeIteration):
            channel.send((message, None))
            ended, fetcher = False, attempt(work.fetcher)
            continue
        if ended:
            continue
        number, indices = message
        if isinstance(fetcher, ExceptionWrapper):
            answer: Any = fetcher
        else:
            answer = attempt(fetcher.fetch, indices)
            if (
                work.kind
                and isinstance(answer, ExceptionWrapper)
                and answer.exc_type is StopIteration
            ):
                answer, ended = _IterableDatasetStopIteration(worker_id), True
        _send(channel, number, answer, where)
        del message, indices, answer  # memory, while waiting for the next


def _send(channel: Any, number: int, answer: Any, where: str) -> None:
    try:
        channel.send((number, answer))
    except (EOFError, ConnectionError):
        raise
    except Exception:  # it cannot be pickled
        channel.send((number, ExceptionWrapper(where=where)))


def _messages(channel: Any) -> Any:
    """What arrives, as long as the process that started this one is there."""
    from adjoint.utils.data._utils import MP_STATUS_CHECK_INTERVAL

    parent = os.getppid()
    while True:
        while not channel.poll(MP_STATUS_CHECK_INTERVAL):
            if os.getppid() != parent:
                return
        yield channel.receive()
