"""What goes wrong in evaluations: each fault is one clear error, and nothing of it stays behind.

After each, no worker and no program runs, and no file is left: the folder for temporary files is
the test's own, so that everything an external made would be seen in it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.external import _journal
from tests.children import ENVIRONMENT


def eventually(true: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether it comes true soon: a process that was ended takes a moment to go."""
    deadline = time.perf_counter() + seconds
    while not true() and time.perf_counter() < deadline:
        gc.collect()
        time.sleep(0.02)
    return true()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def workers() -> set[int]:
    return {p.pid for p in multiprocessing.active_children() if p.pid is not None}


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; checks that nothing stays in it, nor any worker."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    before = workers()
    yield folder
    assert eventually(lambda: workers() <= before)
    assert eventually(lambda: not list(folder.iterdir())), list(folder.rglob("*"))


# A program that returns its numbers; above 1 it notes its own id and goes wrong.
PROGRAM = """
import os, signal, sys, time
values = [float(line) for line in open(sys.argv[1])]
if max(values) > 1:
    with open(sys.argv[3], "a") as mark:
        mark.write(f"{os.getpid()}\\n")
    FAULT
with open(sys.argv[2], "w") as output:
    output.writelines(f"{value!r}\\n" for value in values)
"""
FAULTS = {
    "exit": "sys.exit('no convergence')",
    "hang": "time.sleep(100)",
    "kill": "os.kill(os.getppid(), signal.SIGKILL); time.sleep(100)",
    "crash": "os.kill(os.getpid(), signal.SIGSEGV)",
    "nan": "values = [float('nan')]",
    "silence": "sys.exit()",
}


def program(fault: str, mark: Path) -> list[str]:
    path = mark.with_suffix(".py")
    path.write_text(PROGRAM.replace("FAULT", FAULTS[fault]))
    return [sys.executable, "-IS", str(path), "{input}", "{output}", str(mark)]


def model(fault: str, mark: Path, folder: Path, **options: Any) -> Any:
    command = ad.command(program(fault, mark), format="text", scratch=folder)
    return ad.external(command, name="model", step=1e-3, **options)


@pytest.mark.parametrize(
    ("fault", "options", "message"),
    [
        ("exit", {}, r"model failed at input \+ 0.001(.|\n)*code 1(.|\n)*no convergence"),
        ("hang", {"timeout": 5}, r"model did not return within timeout=5 s at input \+ 0.001"),
        ("kill", {}, "a worker process died while model was evaluated at input"),
        ("crash", {}, r"model failed at input \+ 0.001(.|\n)*ended by SIGSEGV"),
        ("nan", {}, r"model returned nan for output at input \+ 0.001"),
        ("silence", {}, r"model failed at input \+ 0.001(.|\n)*wrote no output.txt"),
    ],
)
def test_a_program_on_workers(
    fault: str, options: Any, message: str, temporary: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "pids"
    f = model(fault, mark, temporary, workers=2, **options)
    x = ad.tensor(1.0, dtype=ad.float64, requires_grad=True)
    y = f(x)
    with pytest.raises(ad.external.EvaluationError, match=message) as caught:
        y.backward()
    assert x.grad is None and caught.value.where.startswith("input")
    f.close()
    pids = [int(line) for line in mark.read_text().split()]
    assert pids and eventually(lambda: not any(alive(pid) for pid in pids))


RESULTS: dict[str, tuple[Any, str]] = {
    "nan": (lambda x: x * np.nan, r"returned nan for output\[0\] at x\[1\] \+ 0.001"),
    "shape": (lambda x: x[:1], r"returned output of shape \[1\] at x\[1\] \+ 0.001, but of shape"),
    "dtype": (lambda x: x.astype("f4"), r"returned output of dtype float32 at x\[1\] \+ 0.001"),
    "form": (lambda x: (x, x), r"returned a result of another form at x\[1\] \+ 0.001"),
}


@pytest.mark.parametrize("kind", RESULTS)
@pytest.mark.parametrize("count", [None, 2])
def test_a_result_that_is_wrong(kind: str, count: int | None, temporary: Path) -> None:
    wrong, message = RESULTS[kind]
    f = ad.external(lambda x: wrong(x) if x[1] > 1 else x, workers=count, step=1e-3)
    x = ad.tensor([0.5, 1.0], dtype=ad.float64, requires_grad=True)
    y = f(x)
    with pytest.raises(ad.external.EvaluationError, match=message):
        y.sum().backward()
    assert x.grad is None
    f.close()


def test_a_pool_is_there_again_after_a_fault(temporary: Path, tmp_path: Path) -> None:
    f = model("kill", tmp_path / "pids", temporary, workers=1)
    with pytest.raises(ad.external.EvaluationError):
        f(ad.tensor(1.0, dtype=ad.float64, requires_grad=True)).backward()
    x = ad.tensor(0.5, dtype=ad.float64, requires_grad=True)
    f(x).backward()
    assert x.grad is not None and abs(x.grad.item() - 1) < 1e-9
    f.close()


def test_a_worker_killed_before_it_could_note_what_it_started(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, parent = tmp_path / "pids", os.getpid()

    def killed(*_: Any) -> None:
        """What a worker does once its program runs."""
        if os.getpid() != parent:
            assert eventually(mark.exists, 60)
            os.kill(os.getpid(), signal.SIGKILL)

    f = model("hang", mark, temporary, workers=1)
    y = f(ad.tensor(1.0, dtype=ad.float64, requires_grad=True))
    monkeypatch.setattr(_journal.Note, "group", killed)
    with pytest.raises(ad.external.EvaluationError, match="a worker process died"):
        y.backward()
    f.close()
    pids = [int(line) for line in mark.read_text().split()]
    assert pids and eventually(lambda: not any(alive(pid) for pid in pids))


def note_something(journal: str, folder: str) -> None:
    """What a worker does first, and for each program."""
    _journal.keep_journal(journal)
    note = _journal.Note(folder)
    with note.starting():
        pass
    note.close()


def test_a_lock_that_was_held_at_the_fork_is_not_held_in_the_worker(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    folder = tmp_path / "journal"
    folder.mkdir()
    worker = context.Process(target=note_something, args=(str(folder), str(tmp_path)))
    with _journal._starting:  # as by another thread that is just starting a program
        worker.start()
        worker.join(30)
    code = worker.exitcode
    worker.kill()
    worker.join()
    worker.close()
    assert code == 0


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal of this process, as if it were a worker."""
    folder = tmp_path / "journal"
    folder.mkdir()
    for name in ("_journal", "_starting"):  # put back afterwards
        monkeypatch.setattr(_journal, name, getattr(_journal, name))
    _journal.keep_journal(str(folder))
    return folder


def fail(*_: Any) -> int:
    raise OSError("no space")


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_scratch_folder_that_is_somebody_elses_is_left_alone(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, files = os.mkdir, open_files()

    def taken(path: str, mode: int) -> None:
        make(path, mode)
        Path(path, "theirs").write_text("kept")
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", taken)
    with pytest.raises(FileExistsError):
        _journal.Note(str(tmp_path))
    assert len(list(tmp_path.glob("adjoint-*/theirs"))) == 1
    assert not list(journal.iterdir()) and not _journal._open and open_files() == files


def test_a_note_that_cannot_be_written_leaves_nothing(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = open_files()
    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(OSError, match="no space"):
        _journal.Note(str(tmp_path))
    assert not list(journal.iterdir()) and not _journal._open and open_files() == files
    assert not list(tmp_path.glob("adjoint-*"))


ABANDONED = """
import adjoint as ad, os, sys
command = ad.command(sys.argv[2:], format="text")
parent = os.getpid()

def f(x):
    if os.getpid() != parent:
        with open(sys.argv[1], "a") as mark:
            mark.write(f"{os.getpid()}\\n")
    return command(x)

x = ad.ones(4, dtype=ad.float64, requires_grad=True)
ad.external(f, workers=2, step=1e-3, noise=1e-9)(x).sum().backward()  # no evaluation here
"""


def test_workers_end_with_a_program_that_is_killed(tmp_path: Path) -> None:
    mark, others, folder = tmp_path / "pids", tmp_path / "workers", tmp_path / "temporary"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", ABANDONED, str(others), *program("hang", mark)],
        env=ENVIRONMENT | {"TMPDIR": str(folder)},
    ) as process:
        assert eventually(lambda: mark.exists() and mark.read_text().count("\n") >= 2, 60)
        process.kill()
    pids = [int(line) for file in (mark, others) for line in file.read_text().split()]
    assert len(pids) >= 4 and eventually(lambda: not any(alive(pid) for pid in pids), 60)
    assert eventually(lambda: not list(folder.iterdir())), list(folder.rglob("*"))


# --- a full disk ----------------------------------------------------------------------------------


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk of 64 KB, where mounting one is allowed."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("mounting a small disk needs root")
    command = [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("count", [None, 2])
def test_a_full_disk_for_the_scratch_folder(tiny_disk: Path, count: int | None) -> None:
    f = ad.external(ad.command(["cp", "{input}", "{output}"], scratch=tiny_disk), workers=count)
    with pytest.raises(ad.external.CommandError, match=r"No space left on device(.|\n)*scratch="):
        f(ad.ones(20000))
    assert not list(tiny_disk.iterdir())
    # The input fits, the output does not: the program says so.
    with pytest.raises(ad.external.CommandError, match=r"cp exited with code 1(.|\n)*No space"):
        f(ad.ones(10000))
    assert not list(tiny_disk.iterdir())
    assert f(ad.ones(100)).sum() == 100


def test_a_file_that_may_not_grow(temporary: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    f = ad.external(ad.command(["cp", "{input}", "{output}"], scratch=temporary))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(ad.external.CommandError, match=r"File too large(.|\n)*scratch="):
            f(ad.ones(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


# --- Ctrl-C ---------------------------------------------------------------------------------------

INTERRUPTED = """
import adjoint as ad, sys
f = ad.external(ad.command(sys.argv[2:], format="text"), workers=eval(sys.argv[1]), step=1e-3)
x = ad.ones(4, dtype=ad.float64, requires_grad=True)
y = f(x)
try:
    y.sum().backward()
except KeyboardInterrupt:
    print("stopped", x.grad, flush=True)
"""


@pytest.mark.parametrize("count", [None, 2])
def test_ctrl_c_ends_the_programs_and_leaves_no_file(count: int | None, tmp_path: Path) -> None:
    mark, folder = tmp_path / "pids", tmp_path / "temporary"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, repr(count), *program("hang", mark)],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT | {"TMPDIR": str(folder)},
        start_new_session=True,
    ) as process:
        started = count or 1
        assert eventually(lambda: mark.exists() and mark.read_text().count("\n") >= started, 60)
        os.killpg(process.pid, signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
    assert printed == "stopped None\n" and process.returncode == 0
    pids = [int(line) for line in mark.read_text().split()]
    assert eventually(lambda: not any(alive(pid) for pid in pids))
    assert not list(folder.iterdir())
