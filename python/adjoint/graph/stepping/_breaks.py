"""Where a pass stops by itself: at the node that makes a gradient NaN, zero or large."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from ._numbers import Numbers
from ._record import Step

Test = Callable[[Numbers], bool]


class Breaks:
    """The conditions, and which nodes have been told of before.

    A gradient that is NaN makes all that follow NaN: a node is only to blame if what it got was
    fine. What it got may have been spoiled on the way, by a hook or in a sum: that is told as well.
    """

    def __init__(self) -> None:
        self._tests: dict[str, Test] = {}
        self._where: Callable[[Step], bool] | None = None
        self._told: set[tuple[str, int]] = set()  # (condition, number of the node that got it)

    def set(
        self,
        nan: bool | None,
        zero: bool | None,
        norm: float | None,
        where: Callable[[Step], bool] | None,
    ) -> None:
        """Take the conditions that are given; see `Stepper.break_on`."""
        for name, wanted, test in (
            ("NaN", nan, lambda g: g.nans > 0),
            ("zero", zero, lambda g: g.is_zero),
        ):
            if wanted is not None:
                self._tests.pop(name, None)
                if wanted:
                    self._tests[name] = test
        if norm is not None:
            try:
                limit = float(norm)
            except (TypeError, ValueError):
                limit = math.nan
            if not limit >= 0:
                raise ValueError(f"break_on(): norm must be a number from 0 on, got {norm!r}")
            self._tests = {k: t for k, t in self._tests.items() if not k.startswith("of norm")}
            self._tests[f"of norm above {limit:g}"] = lambda g: not g.norm <= limit
        if where is not None:
            if not callable(where):
                raise TypeError(f"break_on(): where must be a function of a step, got {where!r}")
            self._where = where

    def judged(self, step: Step) -> Step:
        """The step, with the reasons to stop at it."""
        reasons = [r for what, test in self._tests.items() for r in self._reasons(step, what, test)]
        if self._where is not None and self._where(step):
            reasons.append("the given condition holds")
        return replace(step, breaks=tuple(reasons)) if reasons else step

    def _reasons(self, step: Step, what: str, test: Test) -> Iterable[str]:
        bad_before = _any(step.arrived, test)
        bad = _any(step.used, test)
        key = (what, step.node.index)
        if bad_before and key not in self._told:
            yield f"the gradient that arrived is {what}, though no node passed on such a one"
        elif bad and not bad_before:
            yield f"hooks made the gradient {what}"
        sent = [d for d in step.sent if d.gradient is not None and test(d.gradient)]
        self._told.update((what, d.node.index) for d in sent)
        if sent and not bad:
            yield f"`{step.node.op}` passes on a gradient that is {what}"


def _any(gradients: tuple[Numbers | None, ...], test: Test) -> bool:
    return any(g is not None and test(g) for g in gradients)
