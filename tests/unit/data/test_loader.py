"""DataLoader: the same batches with and without workers, and workers that leave nothing behind."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import adjoint as ad
from adjoint.utils import data
from tests.children import ENVIRONMENT

MAP = data.TensorDataset(ad.arange(23), ad.arange(46).reshape(23, 2).float())


class Ranges(data.IterableDataset):
    """Numbers, shared out among the workers."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __iter__(self):
        info = data.get_worker_info()
        step = 1 if info is None else info.num_workers
        return iter(range(0 if info is None else info.id, self.size, step))

    def __len__(self) -> int:
        return self.size


class Seeds(data.Dataset):
    """What generators give in the process that reads."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int):
        info = data.get_worker_info()
        drawn = ad.rand(1).item(), random.random(), np.random.rand()  # noqa: NPY002
        return (*drawn, info.seed if info else -1, info.id if info else -1, ad.get_num_threads())


class Failing(data.Dataset):
    """Raises where it is told to."""

    def __init__(self, error: Exception, at: int = 3) -> None:
        self.error, self.at = error, at

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int):
        if index == self.at:
            raise self.error
        return index


def _lists(loader) -> list[object]:
    return [
        [t.tolist() for t in batch] if isinstance(batch, list) else batch.tolist()
        for batch in loader
    ]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 4},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": 5, "shuffle": True},
        {"batch_size": None},
        {"batch_sampler": [[3, 1], [2], [22, 0, 9]]},
        {"sampler": [5, 4, 22]},
    ],
    ids=str,
)
def test_batches_and_what_is_drawn_are_pytorchs(options, workers: int) -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.utils.data.TensorDataset(
        torch.arange(23), torch.arange(46).reshape(23, 2).float()
    )
    found = []
    for lib, dataset in ((ad, MAP), (torch, theirs)):
        lib.manual_seed(11)
        number = workers if lib is ad else 0
        loader = lib.utils.data.DataLoader(dataset, num_workers=number, **options)
        batches = [_lists(loader), _lists(loader)]
        found.append(([[list(b) for b in e] for e in batches], len(loader), lib.rand(1).item()))
    assert found[0] == found[1]


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_workers_started_in_any_way_give_the_same(context: str) -> None:
    loader = data.DataLoader(MAP, 5, num_workers=2, multiprocessing_context=context)
    assert _lists(loader) == _lists(data.DataLoader(MAP, 5))


def test_an_iterable_is_shared_out() -> None:
    assert _lists(data.DataLoader(Ranges(10), 4)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    loader = data.DataLoader(Ranges(11), 2, num_workers=2)
    assert _lists(loader) == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
    assert len(loader) == 6
    dropping = data.DataLoader(Ranges(11), 2, num_workers=2, drop_last=True)
    assert _lists(dropping) == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10]] and len(dropping) == 5
    assert list(data.DataLoader(Ranges(5), None, num_workers=2)) == [0, 1, 2, 3, 4]


def test_more_samples_than_promised_are_told() -> None:
    dataset = Ranges(3)
    loader = data.DataLoader(dataset, None)
    assert len(loader) == 3
    dataset.size = 5
    with pytest.warns(UserWarning, match="was reported to be 3"):
        list(loader)


def test_workers_have_pytorchs_seeds() -> None:
    torch = pytest.importorskip("torch")
    ad.manual_seed(5)
    rows = list(data.DataLoader(Seeds(), None, num_workers=2))
    torch.manual_seed(5)
    base = torch.empty((), dtype=torch.int64).random_().item()
    assert [(row[3], row[4], row[5]) for row in rows] == [
        (base + i % 2, i % 2, 1) for i in range(4)
    ]
    from torch.utils.data._utils.worker import _generate_state

    for worker in (0, 1):
        torch.manual_seed(base + worker)
        np.random.seed(_generate_state(base, worker))  # noqa: NPY002
        random.seed(base + worker)
        expected = torch.rand(1).item(), random.random(), np.random.rand()  # noqa: NPY002
        assert tuple(rows[worker][:3]) == expected


def _first(worker: int) -> None:
    info = data.get_worker_info()
    assert info.id == worker
    info.dataset.error = ValueError(f"from worker {worker}")


def test_workers_are_initialised() -> None:
    loader = data.DataLoader(Failing(KeyError("x"), 1), num_workers=2, worker_init_fn=_first)
    with pytest.raises(ValueError, match="from worker 1"):
        list(loader)


class Peculiar(Exception):
    """Cannot be made from a text."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(a, b)


@pytest.mark.parametrize(
    "error",
    [ValueError("bad sample"), KeyError("key"), Peculiar(1, 2)],
    ids=repr,
)
def test_errors_of_workers_come_with_their_traceback(error: Exception) -> None:
    seen = []
    expected = RuntimeError if isinstance(error, Peculiar) else type(error)
    with pytest.raises(expected) as caught:
        for batch in data.DataLoader(Failing(error), num_workers=2):
            seen += batch.tolist()
    text = str(caught.value)
    assert seen == [0, 1, 2]
    assert f"Caught {type(error).__name__} in DataLoader worker process 1." in text
    assert "raise self.error" in text and "\n" in text


def test_an_error_does_not_end_a_loader() -> None:
    loader = iter(data.DataLoader(Failing(ValueError("x")), num_workers=2))
    seen, errors = [], 0
    while True:
        try:
            seen.append(next(loader).item())
        except ValueError:
            errors += 1
        except StopIteration:
            break
    assert (seen, errors) == ([0, 1, 2, 4, 5, 6, 7], 1)


def _lambda_batch(batch):
    return lambda: batch


def test_a_batch_that_cannot_be_sent_is_an_error() -> None:
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        list(data.DataLoader(MAP, collate_fn=_lambda_batch, num_workers=1))
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        list(data.DataLoader(MAP, collate_fn=_with_history, num_workers=1))


def _with_history(batch):
    return ad.ones(1, requires_grad=True) * 2


def _large(batch):
    whole = ad.arange(100_000.0)
    return (
        whole,
        whole[::2],
        whole.reshape(100, 1000).t(),
        ad.nn.Parameter(whole[:20_000]),
        len(batch),
    )


def test_large_tensors_come_in_shared_memory() -> None:
    first, *_ = data.DataLoader(MAP, 4, collate_fn=_large, num_workers=1)
    whole, half, matrix, parameter, count = first
    assert all(t.is_shared() for t in (whole, half, matrix, parameter))
    assert ad.equal(half, whole[::2]) and ad.equal(matrix.t().reshape(-1), whole) and count == 4
    assert matrix.stride() == (1, 1000)
    assert isinstance(parameter, ad.nn.Parameter) and parameter.requires_grad
    big = data.DataLoader(data.TensorDataset(ad.randn(8, 10_000)), 4, num_workers=1)
    batches = list(big)
    assert all(x.is_shared() for (x,) in batches)
    assert ad.equal(ad.cat([x for (x,) in batches]), big.dataset.tensors[0])


def _run(path: Path, code: str) -> subprocess.CompletedProcess[str]:
    program = path / "program.py"
    program.write_text(code, encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(program)], env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )


MANY = """
import resource
import adjoint as ad
from adjoint.utils.data import DataLoader
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
def collate(batch):
    return ad.full((5000,), float(batch[0]))
loader = DataLoader(range(300), collate_fn=collate, num_workers=2, multiprocessing_context="fork")
batches = list(loader)
print(sum(b[0].item() for b in batches), sum(b.is_shared() for b in batches) > 20)
"""


def test_very_many_batches_can_be_kept(tmp_path: Path) -> None:
    """Each in shared memory holds a descriptor, of which a process has 1024 by default."""
    done = _run(tmp_path, MANY)
    assert done.stdout.split() == ["44850.0", "True"], done.stderr


def test_persistent_workers_stay() -> None:
    loader = data.DataLoader(MAP, 4, num_workers=2, persistent_workers=True, shuffle=True)
    ad.manual_seed(0)
    first = _lists(loader)
    pids = [worker.pid for worker in loader._iterator._workers]
    iterator = iter(loader)
    next(iterator)  # and the rest is dropped
    second = _lists(loader)
    assert pids == [worker.pid for worker in loader._iterator._workers]
    assert sorted(i for b in first for i in b[0]) == sorted(i for b in second for i in b[0])
    iterable = data.DataLoader(Ranges(9), 2, num_workers=2, persistent_workers=True)
    assert _lists(iterable) == _lists(iterable) == [[0, 2], [1, 3], [4, 6], [5, 7], [8]]
    workers = loader._iterator._workers
    del loader, iterator
    assert not any(worker.is_alive() for worker in workers)


class Slow(data.Dataset):
    """One sample takes its time."""

    def __init__(self, seconds: float, at: int = 0) -> None:
        self.seconds, self.at = seconds, at

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        if index == self.at:
            time.sleep(self.seconds)
        return index


def test_batches_may_come_as_they_are_ready() -> None:
    loader = data.DataLoader(Slow(0.5), num_workers=2, in_order=False)
    found = _lists(loader)
    assert sorted(found) == [[i] for i in range(6)] and found[0] != [0]
    assert _lists(data.DataLoader(Slow(0.2), num_workers=2)) == [[i] for i in range(6)]


def test_a_slow_batch_times_out() -> None:
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.2 seconds"):
        list(data.DataLoader(Slow(1.0), num_workers=1, timeout=0.2))


class Deadly(data.Dataset):
    """The process that reads it is killed."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


def test_a_killed_worker_is_told_at_once() -> None:
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=r"pid\(s\) \d+\) exited unexpectedly: .*SIGKILL"):
        list(data.DataLoader(Deadly(), num_workers=2))
    assert time.monotonic() - begin < 4


def test_workers_end_with_their_iterator() -> None:
    iterator = iter(data.DataLoader(MAP, num_workers=2))
    next(iterator)
    workers = iterator._workers
    del iterator
    assert not any(worker.is_alive() for worker in workers)


def test_a_forked_copy_of_an_iterator_leaves_the_workers_alone() -> None:
    iterator = iter(data.DataLoader(MAP, num_workers=1))
    first = next(iterator)
    child = multiprocessing.get_context("fork").Process(target=iterator.__del__)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert len([first, *iterator]) == len(MAP)


ORPHANS = """
import os, signal, sys, time
from adjoint.utils.data import DataLoader, Dataset
class D(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, i):
        time.sleep(0.01)
        return i
if __name__ == "__main__":
    iterator = iter(DataLoader(D(), num_workers=2, multiprocessing_context=START))
    next(iterator)
    print(*[w.pid for w in iterator._workers], flush=True)
    END
"""


KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
INTERRUPTED = "os.kill(os.getpid(), signal.SIGINT)"


@pytest.mark.parametrize(
    ("start", "end"),
    [("fork", KILLED), ("fork", INTERRUPTED), ("fork", "sys.exit()"), ("spawn", KILLED)],
)
def test_no_worker_outlives_its_program(start: str, end: str, tmp_path: Path) -> None:
    done = _run(tmp_path, ORPHANS.replace("END", end).replace("START", repr(start)))
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    deadline = time.monotonic() + 20
    while any(_runs(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in pids)


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_long_lists_of_indices_do_not_block() -> None:
    """Both sides send more than a socket holds while neither reads."""
    dataset = data.TensorDataset(ad.arange(200_000))
    loader = data.DataLoader(dataset, 60_000, num_workers=1, prefetch_factor=4, collate_fn=_texts)
    assert sum(len(batch) for batch in loader) > 1_000_000


def _texts(batch):
    return "x" * 500_000


def test_pinned_memory_is_ignored_without_noise(recwarn) -> None:
    assert len(list(data.DataLoader(MAP, pin_memory=True, pin_memory_device="cuda"))) == 23
    assert not recwarn.list


def test_too_many_workers_are_told() -> None:
    with pytest.warns(UserWarning, match="will create 1000 worker processes in total"):
        data.DataLoader(MAP, num_workers=1000)


REFUSED = [
    (
        lambda: data.DataLoader(MAP, num_workers=-1),
        ValueError,
        "num_workers option should be non-n",
    ),
    (lambda: data.DataLoader(MAP, timeout=-1), ValueError, "timeout option should be non-negative"),
    (lambda: data.DataLoader(MAP, prefetch_factor=2), ValueError, "let num_workers > 0 to enable"),
    (
        lambda: data.DataLoader(MAP, num_workers=1, prefetch_factor=-1),
        ValueError,
        "prefetch_factor option should be non-negative",
    ),
    (
        lambda: iter(data.DataLoader(MAP, num_workers=1, prefetch_factor=0)),
        AssertionError,
        "prefetch_factor must be greater than 0",
    ),
    (lambda: data.DataLoader(MAP, persistent_workers=True), ValueError, "needs num_workers > 0"),
    (lambda: data.DataLoader(Ranges(1), shuffle=True), ValueError, "but got shuffle=True"),
    (lambda: data.DataLoader(Ranges(1), sampler=[1]), ValueError, r"but got sampler=\[1\]"),
    (lambda: data.DataLoader(Ranges(1), batch_sampler=[1]), ValueError, "got batch_sampler="),
    (lambda: data.DataLoader(MAP, shuffle=True, sampler=[1]), ValueError, "exclusive with shuffle"),
    (lambda: data.DataLoader(MAP, 2, batch_sampler=[[1]]), ValueError, "mutually exclusive with b"),
    (lambda: data.DataLoader(MAP, None, drop_last=True), ValueError, "disables auto-batching"),
    (
        lambda: data.DataLoader(MAP, multiprocessing_context="fork"),
        ValueError,
        "can only be used with multi-process loading",
    ),
    (
        lambda: data.DataLoader(MAP, num_workers=1, multiprocessing_context="x"),
        ValueError,
        "should specify a valid start method in",
    ),
    (
        lambda: data.DataLoader(MAP, num_workers=1, multiprocessing_context=3),
        TypeError,
        "should be a valid context object or a string",
    ),
    (
        lambda: setattr(data.DataLoader(MAP), "batch_size", 3),
        ValueError,
        "batch_size attribute should not be set after DataLoader is initialized",
    ),
    (lambda: iter(data.DataLoader(MAP, timeout=1)), AssertionError, "requires timeout == 0"),
    (lambda: iter(data.DataLoader(MAP)).__getstate__(), NotImplementedError, "cannot be pickled"),
]


@pytest.mark.parametrize("row", REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_what_is_refused(row) -> None:
    call, error, text = row
    with pytest.raises(error, match=text):
        call()


def test_what_spawned_workers_cannot_get_is_told() -> None:
    loader = data.DataLoader(
        MAP, num_workers=1, collate_fn=lambda b: b, multiprocessing_context="spawn"
    )
    with (
        pytest.warns(UserWarning, match="Got pickle error when attempting to start"),
        pytest.raises((AttributeError, pickle.PicklingError), match=r"pickle|local object"),
    ):
        iter(loader)
