"""What `solve_ivp` returns inside a recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint.optimize._unknowns import Unknowns

from ._problem import OdeResult
from ._recorded import STEPS_DIFFER, Recorded
from ._result import as_trees, before_the_end, missed, nan_after

__all__ = ["recorded_result"]


class _OfSteps(NamedTuple):
    """The fields that are known where steps are."""

    t: Tensor
    y: Any
    nfev: int
    njev: int
    nlu: int
    rejected: int


class _OfEvents(OdeResult):
    """A result whose steps nobody has asked for yet, as their number depends on values."""

    def __missing__(self, name: str) -> Any:
        if name not in _OfSteps._fields:
            raise KeyError(name)
        _core._refuse_recording(STEPS_DIFFER)
        for key, value in self._eagerly().items():
            self.setdefault(key, value)
        return self[name]


def recorded_result(
    inside: Recorded,
    begin: Tensor,
    end: Tensor,
    unknowns: Unknowns,
    is_of_steps: bool,
    dense: bool,
    eagerly: Callable[[], OdeResult],
) -> OdeResult:
    """The result of a call that is a part of a program.

    Shapes do not depend on values there: what comes after the end of a solution is NaN. The states
    at the ends of steps are computed eagerly where somebody asks for them, and the program refused.
    """
    watcher, at = inside.watcher, inside.at
    found = None
    status: Any = 0
    if watcher is not None:
        states, found = inside.with_events(unknowns)
        if found.ended is not None:
            forward = end.detach() >= begin.detach()
            at, states = nan_after(at, states, before_the_end(at, found, forward))
            status = found.ended.to(ad.int64)
    elif not is_of_steps:
        states = inside.states()

    def sol(t: Any) -> Any:
        t = ad.as_tensor(t, dtype=unknowns.start.dtype)
        rows = inside.states_at(t.reshape(-1))
        return as_trees(rows if t.ndim else rows[0], unknowns)

    made = _OfEvents(
        sol=sol if dense else None,
        t_events=None if found is None else found.times,
        y_events=None if found is None else found.states,
        nsteps=inside.count,
        status=status,
        message="the end of the interval was reached, or that of an event",
        success=True,
        method=inside.method,
        gradient="discrete",
        gradient_reason="inside a recording the steps are what there is",
        events_missed=missed(watcher, inside.watch, None, None),
    )
    object.__setattr__(made, "_eagerly", eagerly)
    if not is_of_steps:
        made.update(t=at, y=as_trees(states, unknowns))
    return made
