"""What derivatives by differences went into a value: for `check`, which allows for their errors."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

__all__ = ["DifferenceTally", "count_differences", "difference_tally"]


class DifferenceTally:
    """What became known of the Jacobians by differences that were computed meanwhile."""

    def __init__(self) -> None:
        self.error = 0.0  # the largest relative error to expect in one
        self._before: dict[Any, int] = {}

    def see(self, error: float, evaluator: Any) -> None:
        """Note one Jacobian, and the relative error to expect in it."""
        self.error = max(self.error, error)
        self._before.setdefault(evaluator, evaluator.count)

    @property
    def evaluations(self) -> int:
        """Of all functions concerned, since the first derivative of each."""
        return sum(e.count - before for e, before in self._before.items())


_tallies: list[DifferenceTally] = []


def count_differences(error: float, evaluator: Any) -> None:
    """Tell all who count that a Jacobian is computed."""
    for tally in _tallies:
        tally.see(error, evaluator)


@contextlib.contextmanager
def difference_tally() -> Iterator[DifferenceTally]:
    """Counts what is differenced meanwhile."""
    tally = DifferenceTally()
    _tallies.append(tally)
    try:
        yield tally
    finally:
        _tallies.remove(tally)
