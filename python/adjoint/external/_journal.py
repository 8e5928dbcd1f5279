"""What the workers of a pool run, written down, so that a killed one leaves nothing behind.

Note [The journal of a pool]. A worker that is killed cleans nothing up, so it notes what there
would be: in a folder of its pool, each running program has a file with its scratch folder and its
process group. Who takes the pool down reads them. The worker may be killed after a program was
started and before its group was noted, so the program also inherits the open note: whoever holds
that is ended too. Read next: _command.py, _workers.py.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Note", "clean_up", "end_all", "keep_journal"]

_journal: Path | None = None  # None outside worker processes


def keep_journal(folder: str) -> None:
    """Note the programs that this process, a worker that was just forked, runs in a folder."""
    global _journal, _starting
    _journal = Path(folder)
    # What was inherited is the parent's: a lock that one of its threads held at the fork would stay
    # locked forever, as that thread is not here.
    _starting = threading.Lock()
    _open.clear()


class Note:
    """A scratch folder and the program that runs in it; written down in the processes of a pool."""

    def __init__(self, parent: str | None) -> None:
        self.inherited: tuple[int, ...] = ()  # what the program has to be given
        self.leader = 0
        self._path: Path | None = None
        if _journal is None:
            self.folder = os.path.abspath(tempfile.mkdtemp(prefix="adjoint-", dir=parent))
            return
        with _starting:
            # Written down before it is made: nothing is ever there that is not in the journal.
            file, name = tempfile.mkstemp(prefix="adjoint-", dir=_journal)
            self._path, self.inherited = Path(name), (file,)
            parent = os.path.abspath(parent or tempfile.gettempdir())
            self.folder = os.path.join(parent, self._path.name)
            try:
                os.write(file, f"{self.folder}\n".encode())
                _open.add(self)
                os.mkdir(self.folder, 0o700)
            except OSError:  # not made: a folder of that name is somebody else's
                self._forget()
                raise
            except BaseException:
                self.close()
                raise

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """Around the start of a program, until its id is known to who has to end it.

        Who ends this process waits for it, and so does Ctrl-C.
        """
        with _starting, _uninterrupted():
            yield

    def group(self, number: int) -> None:
        """Note the process group of the program."""
        self.leader = number
        for file in self.inherited:
            os.write(file, f"{number}\n".encode())

    def close(self) -> None:
        """Remove the folder and the entry: the program has ended."""
        remove(self.folder)
        self._forget()

    def _forget(self) -> None:
        for file in self.inherited:
            os.close(file)
        self.inherited = ()
        _open.discard(self)
        if self._path is not None:
            self._path.unlink(missing_ok=True)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let Ctrl-C, which only the main thread sees, wait until the end of the block."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[Any] = []
    signal.signal(signal.SIGINT, lambda *given: seen.append(given))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if seen:
            handler(*seen[0])


_open: set[Note] = set()  # of this process, if it belongs to a pool
_starting = threading.Lock()


def end_all() -> None:
    """End what this process runs; it starts nothing more and has to exit."""
    _starting.acquire()  # for good
    for note in list(_open):
        if note.leader:
            _kill_group(note.leader)
        remove(note.folder)


def clean_up(journal: str) -> None:
    """End the programs that killed workers left running, and remove their files and the journal."""
    for note in Path(journal).glob("adjoint-*"):
        with contextlib.suppress(OSError, ValueError):
            scratch, _, group = note.read_text().partition("\n")
            if Path(scratch).name == note.name:  # else it was not written to its end
                if group.endswith("\n"):
                    _kill_group(int(group))
                else:
                    _end_holders(note)
                remove(scratch)
    shutil.rmtree(journal, ignore_errors=True)


def _kill_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _end_holders(note: Path) -> None:
    """End the processes that hold an open note, where the system tells who does (Linux)."""
    name = str(note.resolve())
    for _ in range(100):
        found = [pid for pid in _processes() if _holds(pid, name)]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # A program that is only just starting is still in the group of its worker.
                leads = os.getpgid(pid) == pid
                (os.killpg if leads else os.kill)(pid, signal.SIGKILL)
        time.sleep(0.01)


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _holds(pid: int, name: str) -> bool:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for file in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(f"{folder}/{file}") == name:
                    return True
    return False


def remove(folder: str) -> None:
    """Remove a scratch folder, which a program that is being ended may still write to."""
    for _ in range(20):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.01)
