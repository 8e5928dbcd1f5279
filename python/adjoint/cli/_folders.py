"""The folders in which ranks meet: who is noted there, and what stays behind when all are killed.

`_ranks.py` and `_peers.py` say what else is noted. A launcher that is killed cannot remove its
folder, nor MPI's shared memory that is listed there: the next launch does.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import signal
import stat
import tempfile
from functools import cache
from typing import Any

__all__ = [
    "LAUNCH",
    "clear",
    "end_session",
    "identity",
    "is_alive",
    "note",
    "read",
    "remove_shared",
    "started",
    "sweep",
]

LAUNCH = "adjoint-launch-"  # how the names of the launcher's folders begin


def note(folder: str, name: str, content: dict[str, object]) -> None:
    """Write it down for the others, complete or not at all."""
    path = os.path.join(folder, name)
    try:
        with open(f"{path}.new", "w") as file:
            json.dump(content, file)
        os.rename(f"{path}.new", path)
    except OSError:  # the launcher is gone, and has taken its folder along
        return


def read(folder: str, name: str) -> dict[str, Any] | None:
    """A note; None if it is not there, or not complete yet."""
    with contextlib.suppress(OSError, ValueError), open(os.path.join(folder, name)) as file:
        found: dict[str, Any] = json.load(file)
        return found
    return None


# --- processes ------------------------------------------------------------------------------------


def identity() -> dict[str, object]:
    """Who this process is: no later one is taken for it."""
    return {"pid": os.getpid(), "start": _process_start(os.getpid()), "kernel": _kernel()}


def is_alive(process: dict[str, Any]) -> bool:
    """Whether a process of this machine is still there."""
    return bool(_process_start(process["pid"]) == process["start"])


def _process_start(pid: int) -> str | None:
    """When a process began, as the kernel counts: with its number this is one process forever."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def end_session(leader: dict[str, Any]) -> None:
    """End what a rank has started and not ended: it has begun a session, which they are in."""
    if _process_start(leader["pid"]) not in (None, leader["start"]):
        return  # another process has its number, so nothing is left
    with contextlib.suppress(OSError):
        os.killpg(leader["pid"], signal.SIGKILL)


@cache
def _kernel() -> str:
    """Whose numbers processes have here: of this start of this machine, in this container."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


# --- what stays behind ----------------------------------------------------------------------------


def sweep(beginning: str) -> None:
    """Remove this user's folders of such a name whose processes have all been killed."""
    for folder in glob.glob(os.path.join(tempfile.gettempdir(), f"{beginning}*")):
        names = ["launcher", *(f"started-{rank}" for rank in started(folder))]
        processes = [found for name in names if (found := read(folder, name))]
        if processes and _is_own(folder) and all(map(_has_ended, processes)):
            clear(folder)


def _is_own(folder: str) -> bool:
    with contextlib.suppress(OSError):
        found = os.lstat(folder)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _has_ended(process: dict[str, Any]) -> bool:
    """Whether it is gone for certain: another container may share the folder, or a machine."""
    return process.get("kernel") == _kernel() != "" and not is_alive(process)


def clear(folder: str) -> None:
    """Remove a folder, and shared memory of MPI's if it was not left to end."""
    all_ended = all(read(folder, f"ended-{rank}") for rank in started(folder))
    if not all_ended or read(folder, "failed") is not None:
        remove_shared(folder)  # otherwise MPI does, after this
    shutil.rmtree(folder, ignore_errors=True)


def remove_shared(folder: str) -> None:
    """Remove shared memory of MPI's that ranks could not."""
    for path in glob.glob(f"{glob.escape(folder)}/shared-*"):
        with contextlib.suppress(OSError), open(path) as file:  # or another rank's turn to remove
            for shared in file.read().splitlines():
                with contextlib.suppress(OSError):  # the rule: MPI has removed it
                    os.unlink(shared)


def started(folder: str) -> list[int]:
    """The ranks that have begun."""
    notes = glob.glob(f"{glob.escape(folder)}/started-*")
    return [int(each.rpartition("-")[2]) for each in notes if not each.endswith(".new")]
