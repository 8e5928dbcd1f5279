"""What a loop keeps for its backward pass: how much, and where."""

from __future__ import annotations

import dataclasses
import math
import os
import re
from typing import Any

__all__ = ["Memory", "memory_of"]

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


@dataclasses.dataclass(frozen=True)
class Memory:
    """How much a loop may keep.

    Attributes
    ----------
    block
        How many steps are run backward together, with all that they save.
    states
        How many states are kept; None if everything that steps save is, 0 for as many as the root
        of the number of steps, when that is known.
    budget
        In bytes, from which the other two follow when a step is known.
    folder
        Where states are written to; None if they stay in memory.
    resume
        Whether they outlive the process, for another one that runs the same loop.
    beside
        Whether the folder is that of a loop which is resumed: what others have left there stays.
    """

    block: int = 1
    states: int | None = None
    budget: int | None = None
    folder: str | None = None
    resume: bool = False
    beside: bool = False

    def keeps_all(self) -> bool:
        """Whether nothing is computed again."""
        return self.states is None

    def for_step(self, steps: int, state: int, saved: int) -> Memory:
        """The same, where a state and what a step saves have so many bytes."""
        if self.budget is None:
            return self
        if steps * max(saved, 1) <= self.budget and self.folder is None:
            return Memory()
        half = self.budget // 2
        block = min(max(half // max(saved, 1), 1), steps)
        states = max(half // max(state, 1), 2)
        return dataclasses.replace(self, block=block, states=states, budget=None)

    def inside(self) -> Memory:
        """The same for a loop that another one consists of."""
        return dataclasses.replace(self, resume=False, beside=self.resume or self.beside)


def memory_of(
    memory: str, snapshots: int | None, disk: Any, steps: int | None, resume: bool = False
) -> Memory:
    """What the arguments of a loop ask for; the number of steps may not be known."""
    folder = None if disk is None else os.fspath(disk)
    if resume and folder is None:
        raise ValueError("resume=True needs a folder for the states; fix: give disk=")
    if folder is not None and not os.path.isdir(folder):
        raise FileNotFoundError(f"disk={folder!r}: there is no such folder")
    if snapshots is not None:
        if isinstance(snapshots, bool) or not isinstance(snapshots, int) or snapshots < 1:
            raise ValueError(f"snapshots={snapshots!r}: a number of states from 1 on is expected")
        if memory != "all":
            raise ValueError(f"snapshots={snapshots} and memory={memory!r}: give one of them")
        return Memory(1, snapshots, None, folder, bool(resume))
    if memory == "all" and folder is None:
        return Memory()
    if memory in ("sqrt", "all"):
        if steps is None:
            return Memory(1, 0, None, folder)
        root = max(math.isqrt(max(steps, 1)), 1)
        return Memory(root, -(-steps // root), None, folder, bool(resume))
    found = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?)i?B?\s*", str(memory), re.IGNORECASE)
    if found is None:
        raise ValueError(f'memory={memory!r}: "all", "sqrt" or a size such as "500MB" is expected')
    budget = int(float(found[1]) * _UNITS[found[2].upper()])
    return Memory(budget=budget, folder=folder, resume=bool(resume))
