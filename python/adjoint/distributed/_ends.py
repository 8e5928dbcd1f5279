"""Ranks that have left the group of all, and after how many operations: nobody need wait for them.

Whoever ends, or destroys the group, writes that down in the launcher's folder. A rank that waits
for an operation beyond what another has begun would do so until its time is over.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os

__all__ = ["leave", "who_left"]

_own: dict[str, int] = {}  # by the group's number: how many operations this rank has begun


def leave(world: int, rank: int, operations: int) -> None:
    """Tell the others that this rank begins no more operations in the group of all ranks."""
    folder = os.environ.get("ADJOINT_LAUNCH_FOLDER", "")
    _own[str(world)] = operations
    path = os.path.join(folder, f"left-{rank}")
    if folder:
        with contextlib.suppress(OSError):  # the launcher is gone
            with open(f"{path}.new", "w") as file:
                json.dump(_own, file)
            os.rename(f"{path}.new", path)


def who_left(world: int, operation: int) -> int | None:
    """A rank that has left and did not begin this operation."""
    folder = os.environ.get("ADJOINT_LAUNCH_FOLDER", "")
    for path in sorted(glob.glob(f"{glob.escape(folder)}/left-*[0-9]") if folder else ()):
        with contextlib.suppress(OSError), open(path) as file:
            if json.load(file).get(str(world), operation) < operation:
                return int(path.rpartition("-")[2])
    return None
