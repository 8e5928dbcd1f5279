"""The ranks of ``srun -n 4 adjoint launch script.py``: without a launcher, they watch each other.

srun goes on when a process is killed, and MPI waits for it. The ranks of one machine meet in a
folder of their step with the notes that `_ranks.py` describes: the first to fail says so there, and
the others end without a word. Each looks whether the next one is still there.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import Any

from adjoint import _srun
from adjoint.cli import _rank
from adjoint.cli._folders import clear, identity, is_alive, note, read, started, sweep

__all__ = ["Peers"]

_PAUSE = 0.2  # seconds between two looks
_GRACE = 0.5  # seconds in which MPI ends the other ranks by itself


class Peers:
    """The ranks of this step that are on this machine."""

    def __init__(self, rank: int) -> None:
        sweep(_srun.prefix())
        self.folder = _srun.folder()
        self._rank = rank
        # MPI's shared memory is noted there, and who aborts leaves the word to the first to fail.
        os.environ["ADJOINT_LAUNCH_FOLDER"] = self.folder
        note(self.folder, f"started-{rank}", identity())
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(_PAUSE)
            failed = read(self.folder, "failed")
            if failed is None and (lost := self._lost_neighbour()) is not None:
                failed = self._say_lost(lost)
            if failed is not None and failed["rank"] != self._rank:
                _rank.wait_for(os.path.join(self.folder, "said"))
                time.sleep(_GRACE)
                self._end_with(int(failed["status"]))

    def _end_with(self, status: int) -> None:
        if read(self.folder, f"ended-{self._rank}"):
            return  # by itself, at this moment
        sys.stdout.flush()
        sys.stderr.flush()
        note(self.folder, f"ended-{self._rank}", {"status": status})
        self.leave()
        os._exit(status)

    def _lost_neighbour(self) -> int | None:
        """The next rank, if it is gone without having said that it ends."""
        ranks = sorted(started(self.folder))
        after = [rank for rank in ranks if rank > self._rank] or ranks
        if not after or after[0] == self._rank:
            return None
        has_ended = read(self.folder, f"ended-{after[0]}") is not None
        return None if has_ended or self._is_running(after[0]) else after[0]

    def _say_lost(self, lost: int) -> dict[str, Any] | None:
        """Note it for all; who is first says it."""
        if _rank.claim(self.folder, lost, 1, wait=False):
            text = f"rank {lost} ended unexpectedly; all {_srun.tasks()} ranks stop"
            print(f"adjoint launch: {text}", file=sys.stderr, flush=True)
            note(self.folder, "said", {})
        return read(self.folder, "failed")

    def leave(self) -> None:
        """Remove the folder, if this rank is the last to end."""
        all_came = len(started(self.folder)) == _srun.tasks()
        has_failed = read(self.folder, "failed") is not None
        is_over = all_came or has_failed or not _srun.is_on_one_machine()
        if is_over and not any(map(self._is_running, started(self.folder))):
            clear(self.folder)

    def _is_running(self, rank: int) -> bool:
        process = read(self.folder, f"started-{rank}")
        has_ended = read(self.folder, f"ended-{rank}") is not None
        return process is not None and not has_ended and is_alive(process)
