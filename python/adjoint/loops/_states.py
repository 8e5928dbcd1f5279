"""States of a loop that are kept while others are computed again: in memory, or on disk.

States on disk are written by a thread of their own while the loop goes on, and read ahead of when
they are needed: the backward pass asks for them from the last to the first. Their folder is removed
when nobody can ask for one any more, after the backward pass or an error, and when Python ends;
folders that a killed process left are removed by the next loop that uses the same place (those to
be resumed by the next one that does not ask for that).
Read next: _resumed.py, for states that outlive a process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import tempfile
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import adjoint as ad
from adjoint._core import Tensor

from ._lasting_folders import remove_unclaimed
from ._memory import Memory

__all__ = ["DiskStates", "State", "States", "states_in"]

_PREFIX = "adjoint-loop-"


@dataclasses.dataclass
class State:
    """Where a loop can go on from.

    Attributes
    ----------
    carry
        The tensors.
    numbers
        The states of random number generators, if the step draws from some.
    """

    carry: list[Tensor]
    numbers: list[Tensor]


class States:
    """States by place, in memory."""

    def __init__(self) -> None:
        self._there: dict[int, Any] = {}

    def put(self, place: int, state: State) -> None:
        """Keep a state."""
        self._there[place] = state

    def get(self, place: int) -> State:
        """A state that is kept."""
        found: State = self._there[place]
        return found

    def drop(self, place: int) -> None:
        """Let go of it."""
        del self._there[place]

    def places(self) -> list[int]:
        """Where there are some, in order."""
        return sorted(self._there)

    def close(self) -> None:
        """Let go of all of them."""
        self._there.clear()

    def leave(self) -> None:
        """The same where the loop has failed."""
        self.close()

    def rename(self, every: int) -> None:
        """Count places in units of so many: all of them are multiples of it."""
        self._there = {place // every: state for place, state in self._there.items()}


class DiskStates(States):
    """States by place, in files.

    Parameters
    ----------
    folder
        That of these states alone, which is removed with them.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self._thread = ThreadPoolExecutor(1, "adjoint-states")
        self._ahead: dict[int, Future[State]] = {}
        self._files = 0
        self._end: weakref.finalize[..., Any] = weakref.finalize(
            self, _end, self._folder, self._thread
        )

    def put(self, place: int, state: State) -> None:
        """Write a state, while the loop goes on."""
        path = os.path.join(self._folder, f"{self._files}.pt")
        self._files += 1
        self._there[place] = path, self._thread.submit(_write, path, state)

    def get(self, place: int) -> State:
        """Read a state, and the one before it for the next time."""
        found = self._read(place).result()
        before = [p for p in self._there if p < place]
        if before:
            self._read(max(before))
        return found

    def _read(self, place: int) -> Future[State]:
        future = self._ahead.get(place)
        if future is None:
            path, written = self._there[place]
            future = self._ahead[place] = self._thread.submit(_read, path, written)
        return future

    def drop(self, place: int) -> None:
        """Remove a file."""
        path, _ = self._there.pop(place)
        self._ahead.pop(place, None)
        self._thread.submit(_remove, path)

    def close(self) -> None:
        """Remove the folder."""
        super().close()
        self._ahead.clear()
        self._end()

    def rename(self, every: int) -> None:
        """Count places in units of so many."""
        super().rename(every)
        self._ahead.clear()


def states_in(memory: Memory) -> States:
    """Room for states: in memory, or below a folder."""
    folder = memory.folder
    if folder is None:
        return States()
    _remove_left_behind(folder)
    if not memory.resume and not memory.beside:
        remove_unclaimed(folder)
    return DiskStates(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=folder))


def _write(path: str, state: State) -> None:
    ad.save({"carry": [t.detach() for t in state.carry], "numbers": state.numbers}, path)


def _read(path: str, written: Future[None]) -> State:
    written.result()  # which raises what writing has raised
    found = ad.load(path)
    return State(found["carry"], found["numbers"])


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)


def _end(folder: str, thread: ThreadPoolExecutor) -> None:
    thread.shutdown(wait=True, cancel_futures=True)
    shutil.rmtree(folder, ignore_errors=True)


def _remove_left_behind(folder: str) -> None:
    """Remove the folders of processes that are gone."""
    for name in os.listdir(folder):
        process = name.removeprefix(_PREFIX).partition("-")[0]
        if name.startswith(_PREFIX) and process.isdigit() and not _runs(int(process)):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
