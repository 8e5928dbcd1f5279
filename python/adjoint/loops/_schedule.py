"""Which steps of a long loop are kept, and which are run again: binomial checkpointing.

To run `n` steps backward, the state at the start of each is needed, the last one first. With the
state at the start and room for `s` states in all, the steps in between are run again. How often is
decided by where states are kept; the least there can be is known (Griewank and Walther, 2000,
"Revolve"): with ``r`` the smallest number for which ``beta(s, r) = (s + r)! / (s! r!)`` reaches
``n``, it is ``r n - beta(s + 1, r - 1)``, the way from the start to the last step included.
"""

from __future__ import annotations

from functools import cache
from math import comb

__all__ = ["beta", "fewest_steps", "first_sweep", "repetitions", "split"]


def beta(snapshots: int, repeats: int) -> int:
    """How many steps can be run backward if none is run forward more than so many times."""
    return 0 if repeats < 0 else comb(snapshots + repeats, snapshots)


def repetitions(steps: int, snapshots: int) -> int:
    """How often the step that is run most often has to be."""
    repeats = 0
    while beta(snapshots, repeats) < steps:
        repeats += 1
    return repeats


def fewest_steps(steps: int, snapshots: int) -> int:
    """The least number of steps forward, besides the one of each step that is differentiated."""
    if steps <= 1:
        return 0
    r = repetitions(steps, snapshots)
    return r * steps - beta(snapshots + 1, r - 1)


@cache
def split(steps: int, snapshots: int) -> int:
    """After how many steps the next state is kept, if there is room for one more than the first.

    Parameters
    ----------
    steps
        At least two: how many are to be run backward from here.
    snapshots
        At least two: the states there is room for, that at the start included.
    """
    r = repetitions(steps, snapshots)
    # At most beta(s, r - 1) steps are run once more than the others, which must suffice for those
    # behind the state with a state less.
    return min(beta(snapshots, r - 1), steps - beta(snapshots - 1, r - 1))


def first_sweep(steps: int, snapshots: int) -> list[int]:
    """The states to keep on the way to the end, that at the start included."""
    kept, at = [0], 0
    while snapshots > 1 and steps - at > 1:
        at += split(steps - at, snapshots)
        kept.append(at)
        snapshots -= 1
    return kept
