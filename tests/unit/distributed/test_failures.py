"""One rank fails: one clear error, a status, no process left, and no wait for the others."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.children import WITH_CHECKOUT
from tests.unit.distributed.launching import command, launch


def assert_gone(output: str, count: int, seconds: float = 0) -> None:
    pids = [int(pid) for pid in re.findall(r"is process (\d+)", output)]
    assert len(pids) == count, output
    end = time.monotonic() + seconds
    while any(map(_is_running, pids)) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(map(_is_running, pids)), pids


def shared_by(output: str) -> list[str]:
    return re.findall(r"/dev/shm/\S+", output)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ("how", "status", "said"),
    [
        ("raise", 1, r"ValueError: the last rank has bad data\nadjoint launch: rank 1 failed"),
        ("exit", 7, "adjoint launch: rank 1 failed"),
        ("kill", 137, "adjoint launch: rank 1 was killed by SIGKILL; all 2 ranks were stopped"),
        ("quit", 3, "adjoint launch: rank 1 ended unexpectedly; all 2 ranks were stopped"),
        ("leave", 1, "all_reduce on rank 0 waited for rank 1, which has left"),
        ("leave the group", 1, "all_reduce on rank 0 waited for rank 1, which has left"),
        ("crash", 134, "adjoint launch: rank 1 was killed by SIGABRT"),
        ("never", 1, "all_reduce on rank 0 waited 1.5 s for 1 other rank"),
        ("never long", 1, "all_reduce on rank 0 waited 1.5 s for 1 other rank"),
        ("never message", 1, "recv on rank 0 waited 1.5 s"),
        ("different", 1, "all_reduce failed: the ranks gave tensors of different sizes"),
        ("never caught", 5, "adjoint launch: rank 0 failed"),
    ],
)
def test_one_error_is_shown_and_all_ranks_end(how: str, status: int, said: str) -> None:
    start = time.monotonic()
    done = launch(2, "failing.py", how)
    assert done.returncode == status, done.stderr
    assert re.search(said, done.stderr), done.stderr
    assert done.stderr.count("Traceback") == (
        1 if how.startswith(("raise", "never", "different", "leave")) and "caught" not in how else 0
    )
    assert done.stderr.count("adjoint launch: ") == 1
    assert_gone(done.stdout, 2)
    assert shared_by(done.stdout) and not any(map(os.path.exists, shared_by(done.stdout)))
    assert time.monotonic() - start < 30


def test_what_a_rank_has_started_ends_with_the_ranks() -> None:
    assert_gone(launch(2, "failing.py", "kill with a child").stdout, 3)


def test_the_same_error_of_all_ranks_is_shown_once() -> None:
    done = launch(4, "failing.py", "before")
    assert done.returncode == 1
    assert done.stderr.count("ImportError: nothing has begun") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_the_launcher_ends_all_ranks(number: int, tmp_path: Path) -> None:
    environment = WITH_CHECKOUT | {"TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command(3, "failing.py", "sleep"),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stdout is not None and running.stderr is not None
        printed = "".join(running.stdout.readline() for _ in range(3))
        os.kill(running.pid, number)
        errors = running.stderr.read()
        status = running.wait(30)
    if number == signal.SIGKILL:
        assert status == -signal.SIGKILL
        assert_gone(printed, 3, seconds=20)  # the kernel ends mpiexec, that its ranks
        noted = next(tmp_path.glob("adjoint-*/shared-*")).read_text().splitlines()
        Path(noted[0]).touch()  # what MPI leaves if it is too late to clear up
        assert launch(1, "failing.py", "end", environment=environment).returncode == 0
        assert not [*tmp_path.glob("adjoint-*")]  # the next launch clears up
        assert not os.path.exists(noted[0])
    else:
        word = "interrupted" if number == signal.SIGINT else "terminated"
        assert errors == f"adjoint launch: {word}; all 3 ranks were stopped\n"
        assert status == 128 + number
    assert_gone(printed, 3)
