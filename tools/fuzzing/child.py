"""Child processes of the fuzzer: one runs steps and may die; its parent reads what it was doing.

A child writes each step to a file before it runs it, so that the file tells how it died.
Read next: fuzz.py, the command.
"""

from __future__ import annotations

import ast
import gc
import mmap
import os
import re
import resource
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.fuzzing.sanitized import SANITIZED
from tools.fuzzing.world import Step, Violation, World

# Beyond what a process has when it begins: more is refused, as on a machine that is full.
ALLOWANCE = 512 << 20
FOUND, RAN = 77, 0
# Seconds for a step on more elements than can be visited; it has to hear when they are over.
PATIENCE = 0.5
# No step may take longer, in seconds; sanitized ones are slower.
STALL = 60.0 if SANITIZED else 20.0


@dataclass
class Failure:
    """What went wrong, and the steps that led to it. ``kind`` tells kinds apart."""

    kind: str
    text: str
    steps: list[Step]
    sequence: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Two failures with one key are probably the same fault."""
        calls = re.findall(r"\.([A-Za-z]\w*)|(\[)", self.steps[-1].line) if self.steps else []
        return self.kind, next((name or index for name, index in calls if name != "func"), "")


class Log:
    """A file of steps and a few numbers that a child shares with its parent."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.numbers = mmap.mmap(-1, 16)  # steps done, sequences begun

    def begin(self) -> None:
        """Forget the steps of the last sequence."""
        os.ftruncate(self.file.fileno(), 0)
        os.lseek(self.file.fileno(), 0, os.SEEK_SET)

    def note(self, entry: Any) -> None:
        """Write a step, or what went wrong."""
        os.write(self.file.fileno(), repr(tuple(entry)).encode() + b"\n")

    @property
    def counts(self) -> tuple[int, int]:
        """Steps done and sequences begun."""
        steps, sequences = struct.unpack_from("<qq", self.numbers)
        return steps, sequences

    @counts.setter
    def counts(self, counts: tuple[int, int]) -> None:
        struct.pack_into("<qq", self.numbers, 0, *counts)

    def entries(self) -> list[tuple[Any, ...]]:
        """Everything that was written, as far as it is whole."""
        text = os.pread(self.file.fileno(), 1 << 26, 0)
        return [ast.literal_eval(line.decode()) for line in text.splitlines() if line[-1:] == b")"]

    def report(self) -> str:
        """What the child wrote to its standard error."""
        return os.pread(self.errors.fileno(), 1 << 24, 0).decode(errors="replace")


class Child:
    """A forked process that runs a function which fills a log."""

    def __init__(self, work: Callable[[Log], None], log: Log | None = None) -> None:
        self.log = log or Log()
        self.last, self.since, self.interrupted = (-1, -1), time.monotonic(), False
        self.before: float | None = None  # seconds of processors, soon after a step began
        self.stalled = False
        os.ftruncate(self.log.errors.fileno(), 0)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(work)

    def _run(self, work: Callable[[Log], None]) -> None:
        code = 1
        try:
            os.setsid()  # Ctrl-C is the parent's
            os.dup2(self.log.errors.fileno(), 2)
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGALRM, signal.default_int_handler)
            World.patience = PATIENCE
            warnings.simplefilter("ignore")
            gc.freeze()
            _limit_memory()
            work(self.log)
            code = RAN
        except Violation as violation:
            self.log.note(("violation", violation.kind, str(violation)))
            code = FOUND
        except KeyboardInterrupt:
            self.log.note(("violation", "deaf", "the step took long, and did not hear Ctrl-C"))
            code = FOUND
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def poll(self, stall: float = STALL) -> int | None:
        """How it ended (below zero: by which signal), or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        now, counts = time.monotonic(), self.log.counts
        if counts != self.last:
            self.last, self.since, self.interrupted = counts, now, False
            self.before = None
            return None
        if now - self.since < stall / 2:
            return None
        # On a machine with much else to do the clock says little; a step that waits uses no time.
        used = _seconds_used(self.pid)
        self.before = used if self.before is None else self.before
        taken = max(used - self.before + stall / 2, (now - self.since) / 10)
        if taken > stall and not self.interrupted:
            os.kill(self.pid, signal.SIGINT)
            self.interrupted = True
        elif taken > stall + 5:
            self.stalled = True
            os.kill(self.pid, signal.SIGKILL)
        return None

    def end(self) -> None:
        """Kill it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)

    def failure(self, code: int) -> Failure | None:
        """What went wrong, from how it ended and what it wrote."""
        if code == RAN:
            return None
        entries = self.log.entries()
        steps = [Step(*entry) for entry in entries if entry[0] != "violation"]
        if code == FOUND and entries[-1][0] == "violation":
            return Failure(*entries[-1][1:], steps)
        if self.stalled:
            return Failure("deaf", "the step does not end, and does not hear Ctrl-C", steps)
        report = self.log.report()
        told = re.search(r"(?:ERROR: AddressSanitizer|runtime error): ?[\w -]*", report)
        kind = told[0] if told else f"signal {-code}" if code < 0 else f"exit code {code}"
        if told is None and code < 0:
            kind = signal.Signals(-code).name
        if told is not None:  # from the line that says what it is
            report = report[report.rfind("\n", 0, told.start()) + 1 :]
        return Failure(kind.split(" on ")[0].strip(), report[:4000].strip() or kind, steps)


def _seconds_used(pid: int) -> float:
    """Of the processors, by all threads of a process."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not SANITIZED:  # which reserves terabytes, and has a limit of its own
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + ALLOWANCE
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


# --- fewer steps ----------------------------------------------------------------------------------
def outcome(
    run: Callable[[list[Step], Log], None], steps: list[Step], stall: float
) -> Failure | None:
    """What happens when these steps are run in a process of their own."""
    child = Child(lambda log: run(steps, log))
    while (code := child.poll(stall)) is None:
        time.sleep(0.002)
    return child.failure(code)


def shrunk(
    run: Callable[[list[Step], Log], None], failure: Failure, seconds: float = 60.0
) -> Failure:
    """The failure with as many steps dropped as its kind allows, within the time."""
    deadline = time.monotonic() + seconds
    stall = 3.0 if failure.kind in ("deaf", "slow") else STALL
    best = outcome(run, failure.steps, stall)
    if best is None or best.kind != failure.kind:
        return failure  # does not happen again
    best.sequence = failure.sequence
    size = max(1, len(best.steps) // 2)
    while size:
        for kept in _without(best.steps, size):
            if time.monotonic() > deadline:
                return best
            found = outcome(run, kept, stall)
            if found is not None and found.kind == failure.kind:
                found.sequence = failure.sequence
                best = found
                break
        else:
            size //= 2
            continue
        size = min(size, max(1, len(best.steps) // 2))
    return best


def _without(steps: list[Step], size: int) -> Iterator[list[Step]]:
    """The steps without one stretch of ``size``; later ones first, since they depend on others."""
    for end in range(len(steps), 0, -size):
        kept = steps[: max(0, end - size)] + steps[end:]
        if kept:
            yield kept
