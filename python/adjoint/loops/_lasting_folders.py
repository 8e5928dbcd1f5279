"""Folders that outlive a process, each named by what a loop does.

The process that uses one has a lock on it, which the system takes away when the process ends,
however it ends. So nobody takes a folder over that is in use, and one without an owner is known.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil

__all__ = ["claim", "remove_unclaimed"]

_PREFIX = "adjoint-resume-"
_LOCK = "lock"


def claim(folder: str, name: str) -> tuple[str, int] | None:
    """The folder of a name and the lock on it; None where somebody uses it."""
    path = os.path.join(folder, _PREFIX + name)
    while True:
        os.makedirs(path, exist_ok=True)
        try:
            lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        except FileNotFoundError:  # its last owner has removed it
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(os.path.join(path, _LOCK)), os.fstat(lock)):
                return path, lock
        os.close(lock)


def remove_unclaimed(folder: str) -> None:
    """Remove the folders that nobody uses."""
    for name in os.listdir(folder):
        if name.startswith(_PREFIX):
            found = claim(folder, name.removeprefix(_PREFIX))
            if found is not None:
                path, lock = found
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)
