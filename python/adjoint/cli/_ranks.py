"""The processes of `adjoint launch`, seen from the launcher: what they print, and how they end.

They meet in a folder. A rank writes there who it is, that it has ended, and, if it is the first to
fail, that it did. On the launcher's machine its output comes through two pipes with names there
rather than through mpiexec, which mixes the lines of ranks. Read next: _rank.py, the other side;
_folders.py, what stays behind when all are killed.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from types import FrameType
from typing import Any

from adjoint.cli._folders import (
    LAUNCH,
    end_session,
    identity,
    is_alive,
    note,
    read,
    remove_shared,
    sweep,
)

__all__ = ["Ranks"]

# How Open MPI and srun name a rank: one that was killed, one that ended.
_OF_RANK = rb"process rank (\d+)|Process name: \[\[\d+,\d+\],(\d+)\]|: task (\d+): (?!Exited)"
_GRACE = 2.0  # seconds in which mpiexec ends the other ranks by itself
_GRACE_TO_TELL = 10.0  # the same where it alone knows how a rank has ended: a busy machine is slow


class Ranks:
    """All ranks of one launch; a context, after which none of them is left."""

    def __init__(self, count: int, prefix: bool) -> None:
        self.count = count
        sweep(LAUNCH)
        self.folder = tempfile.mkdtemp(prefix=LAUNCH)
        note(self.folder, "launcher", identity())
        self._output = _Output(self.folder, count, prefix)
        self._process: subprocess.Popen[bytes] | None = None
        self._starter = "mpiexec"
        self._said = bytearray()  # by it
        self._signal = 0
        self._gone: list[int] = []  # ranks that had vanished when that was first seen

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        self._output.finish()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, command: list[str], environment: dict[str, str]) -> int:
        """Start them, wait for their end, and say what went wrong; the status."""
        from adjoint.cli.launch import start

        before = {s: signal.signal(s, self._take) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._starter = os.path.basename(command[0])
            self._process = start(command, environment)
            reader = threading.Thread(target=self._listen, args=(self._process,), daemon=True)
            reader.start()
            status = self._watch(self._process)
            self._stop()
            self._output.finish()
            reader.join(1)
            assert self._process.stdout is not None
            self._process.stdout.close()
            return self._verdict(status)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self._signal = number

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Take what mpiexec itself says, and ranks on other machines."""
        assert process.stdout is not None
        for line in process.stdout:
            if self._are_here():
                self._said += line  # ranks print through their pipes: this is mpiexec, for the end
            else:
                sys.stdout.buffer.write(line)
                sys.stdout.flush()

    def _are_here(self) -> bool:
        """Whether no rank has started, or all of them on this machine."""
        started = [os.path.exists(f"{self.folder}/started-{r}") for r in range(self.count)]
        return all(started) or not any(started) or self._process is None

    def _watch(self, process: subprocess.Popen[bytes]) -> int:
        """Wait until all have ended, or one has failed; mpiexec's status, or None's stand-in."""
        deadline = None
        while True:
            try:
                return process.wait(0.02)
            except subprocess.TimeoutExpired:
                pass
            if self._signal:
                return 128 + self._signal
            self._gone = self._gone or self._vanished()
            if deadline is None and (self._failed() or self._gone):
                grace = _GRACE if self._failed() else _GRACE_TO_TELL
                deadline = time.monotonic() + grace
            if deadline is not None and time.monotonic() > deadline:
                return 1

    # --- what ranks wrote ---------------------------------------------------------------------

    def _read(self, name: str) -> dict[str, Any] | None:
        return read(self.folder, name)

    def _failed(self) -> dict[str, Any] | None:
        return self._read("failed")

    def _vanished(self) -> list[int]:
        """Ranks of this machine that are gone without having said that they end."""
        gone = []
        for rank in range(self.count):
            started = self._read(f"started-{rank}")
            if started and not is_alive(started) and not self._read(f"ended-{rank}"):
                gone.append(rank)
        return gone

    # --- the end --------------------------------------------------------------------------------

    def _stop(self) -> None:
        """End mpiexec, gently at first, then whatever rank is left."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        has_failed = process.returncode != 0 or self._failed() is not None
        for rank in range(self.count):
            started = self._read(f"started-{rank}")
            if started and is_alive(started):
                os.kill(started["pid"], signal.SIGKILL)
            if started and has_failed:
                end_session(started)
        remove_shared(self.folder)

    def _verdict(self, status: int) -> int:
        """Say in one line why it ended, if not well."""
        if self._signal:
            name = "interrupted" if self._signal == signal.SIGINT else "terminated"
            _say(f"{name}; {self._ranks_text()} stopped")
            return 128 + self._signal
        failed = self._failed()
        if failed:
            _say(f"rank {failed['rank']} failed; {self._ranks_text()} stopped")
            return int(failed["status"])
        if status == 0:
            return 0
        return self._unexplained(status)

    def _unexplained(self, status: int) -> int:
        if _is_cancelled(bytes(self._said)):
            _say(f"Slurm has cancelled the step; {self._ranks_text()} stopped")
            return status or 1
        gone = self._gone or self._vanished()
        number = _signal_in(bytes(self._said))
        rank = self._rank_in(bytes(self._said))
        if len(gone) == 1 or (gone and rank is None):
            if rank != gone[0]:
                number = 0  # of one that was ended because of it
            rank = gone[0]
        if rank is not None:
            how = f"was killed by {signal.Signals(number).name}" if number else "ended unexpectedly"
            _say(f"rank {rank} {how}; {self._ranks_text()} stopped")
            return 128 + number if number else (status or 1)
        sys.stderr.write(self._said.decode(errors="replace"))
        _say(f"{self._starter} ended with status {status}")
        return status or 1

    def _rank_in(self, said: bytes) -> int | None:
        """The rank that was seen to end: Open MPI and srun say its number, MPICH its process."""
        if found := re.search(_OF_RANK, said):
            return int(next(number for number in found.groups() if number))
        pids = {int(pid) for pid in re.findall(rb"PID (\d+) RUNNING", said)}
        for rank in range(self.count):
            started = self._read(f"started-{rank}")
            if started and started["pid"] in pids:
                return rank
        return None

    def _ranks_text(self) -> str:
        return "it was" if self.count == 1 else f"all {self.count} ranks were"


def _say(text: str) -> None:
    print(f"adjoint launch: {text}", file=sys.stderr, flush=True)


def _signal_in(said: bytes) -> int:
    if by_srun := re.search(rb": task \d+: ([A-Z][^\n(]*)", said):
        name = by_srun.group(1).decode(errors="replace").strip()
        return next((s for s in signal.valid_signals() if signal.strsignal(s) == name), 0)
    found = re.search(rb"on\s+signal (\d+)|EXIT CODE: (\d+)", said)
    number = int(found.group(1) or found.group(2)) if found else 0
    return number if 0 < number < 65 else 0


def _is_cancelled(said: bytes) -> bool:
    """Whether Slurm has ended the ranks before one was lost, rather than since."""
    found = re.search(rb"CANCELLED AT|: task \d+: (?!Exited)", said)
    return found is not None and found.group().startswith(b"CANCELLED")


class _Output:
    """Copies what ranks print, line by line: a line of one rank is not cut by another's."""

    def __init__(self, folder: str, count: int, prefix: bool) -> None:
        self._prefix = prefix
        self._width = len(str(count - 1))
        self._pipes = selectors.DefaultSelector()
        self._parts: dict[int, bytearray] = {}
        for rank in range(count):
            for name in ("out", "err"):
                path = os.path.join(folder, f"{name}-{rank}")
                os.mkfifo(path, 0o600)
                pipe = os.open(
                    path, os.O_RDWR | os.O_NONBLOCK
                )  # RDWR: no end before the first writer
                self._pipes.register(pipe, selectors.EVENT_READ, (rank, name))
                self._parts[pipe] = bytearray()
        self._unfinished: dict[str, int | None] = {}  # whose line has no end yet, on each stream
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._copy, daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        while True:
            ending = self._ending.is_set()
            ready = self._pipes.select(0 if ending else 0.05)
            for key, _ in ready:
                self._take(key.fd, *key.data)
            if not ready:
                self._flush_parts()
                if ending:
                    return

    def _take(self, pipe: int, rank: int, name: str) -> None:
        try:
            data = os.read(pipe, 1 << 16)
        except OSError:
            return
        whole, end, rest = (bytes(self._parts[pipe]) + data).rpartition(b"\n")
        self._parts[pipe] = bytearray(rest)
        if end:
            self._write(whole + end, rank, name)

    def _flush_parts(self) -> None:
        """Show what ends in no newline, a progress bar or a question, when nothing else comes."""
        for pipe, part in self._parts.items():
            if part:
                rank, name = self._pipes.get_key(pipe).data
                self._write(bytes(part), rank, name)
                part.clear()

    def _write(self, data: bytes, rank: int, name: str) -> None:
        before, after = self._unfinished.get(name), None if data.endswith(b"\n") else rank
        self._unfinished[name] = after
        lines = data.splitlines(keepends=True)
        start = f"[{rank:>{self._width}}] ".encode() if self._prefix else b""
        text = b"".join(start + line for line in lines)
        if before == rank:  # the rest of the line that is there
            text = text[len(start) :]
        elif before is not None:
            text = b"\n" + text
        stream = sys.stdout if name == "out" else sys.stderr
        try:
            stream.buffer.write(text)
            stream.flush()
        except (BrokenPipeError, ValueError):  # nobody reads any more
            return

    def finish(self) -> None:
        """Copy what is left, and end."""
        if self._ending.is_set():
            return
        self._ending.set()
        self._thread.join(5)
        for key in list(self._pipes.get_map().values()):
            os.close(key.fd)
        self._pipes.close()
