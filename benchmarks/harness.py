"""How two libraries are compared: the same work, alternating, in two processes.

Each library has a process of its own (worker.py), because two thread pools in one process disturb
each other by factors. The processes take turns: while one runs a round the other sleeps. Before
anything is timed, the results of both (values and gradients) are compared. What counts is the
ratio of the best rounds: on a shared machine, noise only ever adds time.

Where a library compiles, the first call counts too (the time on the wall, in the best of a few new
processes with empty caches), and so does the memory: what a process takes at most beyond what it
has after the import.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FIRST_CALLS = 3  # new processes in which a first call is timed
ROOT = Path(__file__).resolve().parent.parent

# setup(lib) prepares the inputs and returns work(); work() returns the tensors to be compared.
Setup = Callable[[Any], Callable[[], Any]]


@dataclass(frozen=True)
class Mark:
    """What the subject has to reach: seconds per call, a speed relative to the peer, or both."""

    seconds: float | None = None
    speedup: float | None = None

    def met(self, seconds: float, speedup: float | None) -> bool | None:
        if self.seconds is not None and seconds > self.seconds:
            return False
        if self.speedup is not None:
            return None if speedup is None else speedup >= self.speedup
        return None if self.seconds is None else True


@dataclass(frozen=True)
class Workload:
    """One line of the table. `calls` is how many measured calls one work() makes.

    The peer does the same work, unless `peer_setup` says how it does it; `peer` names another
    library than the one that everything is compared with.
    """

    name: str
    setup: Setup
    mark: Mark = Mark()
    calls: int = 1
    threads: tuple[int, ...] = (1,)
    tolerance: float = 1e-4
    peer: str | None = None
    peer_setup: Setup | None = None
    slow_start: bool = False  # the peer takes a minute to get ready: not for smoke runs
    first_call: bool = False  # whether the first call and the memory are reported


@dataclass
class Timing:
    """Seconds per call, one entry per round; of first calls, one per process; bytes at most."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    peak: float | None = None

    def first_call(self) -> float | None:
        return min(self.first, default=None)

    def best(self, threads: int) -> float:
        # With one thread the process's CPU time leaves out what other processes took; with more it
        # would count every thread, so the clock on the wall decides.
        return min(self.cpu if threads == 1 else self.wall)

    def median(self, threads: int) -> float:
        return statistics.median(self.cpu if threads == 1 else self.wall)


@dataclass
class Comparison:
    workload: Workload
    threads: int
    subject: Timing
    peer: Timing | None

    @property
    def seconds(self) -> float:
        return self.subject.best(self.threads)

    @property
    def speedup(self) -> float | None:
        return None if self.peer is None else self.peer.best(self.threads) / self.seconds

    @property
    def met(self) -> bool | None:
        return self.workload.mark.met(self.seconds, self.speedup)


class Worker:
    """A process that runs one library; see worker.py for the other end of the pipe."""

    def __init__(self, lib: str, workload: str, threads: int, role: str) -> None:
        environment = dict(os.environ, OMP_NUM_THREADS=str(threads), PYTHONHASHSEED="0")
        # torch.compile keeps its results on disk: a first call must not find them.
        self._caches = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        environment["TORCHINDUCTOR_CACHE_DIR"] = self._caches.name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", lib, workload, str(threads), role],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the worker ended with status {self._process.wait()} while asked {request}; "
                "its own message is above"
            )
        return json.loads(line)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._caches.cleanup()


@contextmanager
def worker(lib: str, workload: str, threads: int, role: str) -> Iterator[Worker]:
    process = Worker(lib, workload, threads, role)
    try:
        yield process
    finally:
        process.close()


def check_results(a: Worker, b: Worker, workload: Workload) -> None:
    """Raise AssertionError unless both libraries compute the same values and gradients."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{name}.npz" for name in "ab"]
        for process, path in zip((a, b), paths, strict=True):
            process.ask(save=path)
        first, second = (np.load(path) for path in paths)
        assert first.files == second.files, (first.files, second.files)
        for key in first.files:
            scale = float(np.abs(second[key]).max(initial=0.0)) or 1.0
            np.testing.assert_allclose(
                first[key] / scale,
                second[key] / scale,
                rtol=workload.tolerance,
                atol=workload.tolerance,
                err_msg=f"{workload.name}: result {key} differs",
            )


def compare(
    workload: Workload, threads: int, subject: str, peer: str | None, rounds: int, seconds: float
) -> Comparison:
    """Check, warm up, then time `rounds` rounds of about `seconds` each, taking turns."""
    roles = [(subject, "subject")] + ([(workload.peer or peer, "peer")] if peer else [])
    firsts = first_calls(workload, threads, roles, rounds) if workload.first_call else []
    with ExitStack() as stack:
        processes = [
            stack.enter_context(worker(lib, workload.name, threads, role)) for lib, role in roles
        ]
        if peer is not None:
            check_results(*processes, workload)
        timings = _time(processes, rounds, seconds)
    for timing, (first, peak) in zip(timings, firsts, strict=False):
        timing.first, timing.peak = first, peak
    return Comparison(workload, threads, timings[0], timings[1] if peer else None)


def first_calls(
    workload: Workload, threads: int, roles: list[tuple[str, str]], rounds: int
) -> list[tuple[list[float], float]]:
    """By role: seconds of the first call in new processes, and bytes at most, of the least."""
    times = 1 if workload.slow_start else min(rounds, FIRST_CALLS)
    found: list[list[dict[str, float]]] = [[] for _ in roles]
    for _ in range(times):
        for (lib, role), answers in zip(roles, found, strict=True):
            with worker(lib, workload.name, threads, role) as process:
                answers.append(process.ask(first=True))
    return [([a["wall"] for a in some], min(a["peak"] for a in some)) for some in found]


def _time(processes: list[Worker], rounds: int, seconds: float) -> list[Timing]:
    timings = [Timing() for _ in processes]
    for process in processes:
        process.ask(seconds=seconds / 2)  # warm up
    for _ in range(rounds):
        for process, timing in zip(processes, timings, strict=True):
            answer = process.ask(seconds=seconds)
            timing.wall.append(answer["wall"])
            timing.cpu.append(answer["cpu"])
    return timings
