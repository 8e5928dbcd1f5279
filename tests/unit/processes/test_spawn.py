"""`multiprocessing.spawn`: results in shared memory, and the error of the first that fails."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import time
from typing import Any

import pytest

import adjoint as ad
import adjoint.multiprocessing as mp


def note(i: int, x: Any) -> None:
    x[i] = i + 1.0


def fails(i: int) -> None:
    if i == 1:
        raise ValueError("no luck" + "!" * 200_000)
    time.sleep(60)


def leaves(i: int) -> None:
    sys.exit(7)


def dies(i: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_tensors_are_shared() -> None:
    x = ad.zeros(3)
    assert mp.spawn(note, (x,), nprocs=3) is None
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_an_exception_ends_the_others_and_is_told() -> None:
    start = time.monotonic()
    with pytest.raises(mp.ProcessRaisedException, match=r"no luck|!!!") as caught:
        mp.start_processes(fails, nprocs=2, start_method="fork")
    assert caught.value.error_index == 1 and time.monotonic() - start < 50
    assert "-- Process 1 terminated with the following error:" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.pid == caught.value.pid == again.error_pid and str(again) == str(caught.value)


def test_exit_codes_and_signals_are_told() -> None:
    with pytest.raises(mp.ProcessExitedException, match=r"terminated with exit code 7$") as c:
        mp.start_processes(leaves, start_method="fork")
    assert c.value.exit_code == 7 and c.value.signal_name is None
    with pytest.raises(mp.ProcessExitedException, match="terminated with signal SIGKILL") as c:
        mp.start_processes(dies, start_method="fork")
    assert c.value.exit_code == -9 and c.value.signal_name == "SIGKILL"
    assert pickle.loads(pickle.dumps(c.value)).signal_name == "SIGKILL"


def test_processes_can_be_joined_later() -> None:
    x = ad.zeros(2).share_memory_()
    context = mp.start_processes(note, (x,), nprocs=2, join=False, start_method="fork")
    assert context is not None and len(context.pids()) == 2
    while not context.join(timeout=60):
        pass
    assert context.join() and x.tolist() == [1.0, 2.0]


def test_spawn_only_spawns() -> None:
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"):
        mp.spawn(note, (ad.zeros(1),), start_method="fork")


def test_the_names_are_those_of_the_standard_library() -> None:
    for name in (
        "Process",
        "Queue",
        "Pool",
        "get_context",
        "Lock",
        "cpu_count",
        "set_start_method",
    ):
        assert getattr(mp, name) == getattr(multiprocessing, name)
    assert set(multiprocessing.__all__) <= set(mp.__all__)
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(ValueError, match="unknown sharing strategy 'shm'; there are file_desc"):
        mp.set_sharing_strategy("shm")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mp.nothing
