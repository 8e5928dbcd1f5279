"""Solutions whose derivatives are not those of a trajectory: see ``_gradients.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import adjoint as ad
from adjoint import _tree
from adjoint._core import Tensor

from ._continuous import by_adjoint
from ._control import Plan
from ._forward import by_tangents
from ._gradients import Inputs
from ._problem import Problem
from ._system import System
from ._trajectory import follow, moved

__all__ = ["ByAdjoint", "ByTangents", "Path"]

Start = tuple[Tensor, Tensor, Tensor]  # the state at the beginning, and both ends


class Path(Protocol):
    """States over time."""

    @property
    def times(self) -> Tensor:
        """The ends of steps."""

    @property
    def states(self) -> Tensor:
        """The states there, in rows."""

    def at(self, t: Tensor) -> Tensor:
        """The state at a time, or in rows at several."""


class _Way:
    times: Tensor

    @property
    def states(self) -> Tensor:
        """The states at the ends of steps."""
        return self.at(self.times)

    def at(self, t: Tensor) -> Tensor:
        """The state at a time, or in rows at several."""
        return self._rows(t.reshape(-1)).reshape(*t.shape, -1)

    def _rows(self, t: Tensor) -> Tensor:
        raise NotImplementedError


class ByAdjoint(_Way):
    """Differentiated by the adjoint equation."""

    def __init__(self, problem: Problem, plan: Plan, start: Start, inputs: Inputs) -> None:
        self._problem, self._plan, self._start = problem, plan, start
        own = {id(t) for t in start}
        self._read = [t for t in (*inputs.given, *inputs.reached) if id(t) not in own]
        self.times = moved(plan, *start[1:])

    def _rows(self, t: Tensor) -> Tensor:
        return by_adjoint(self._problem, self._plan, (*self._start, t, *self._read))


class ByTangents(_Way):
    """Differentiated by tangents of all inputs."""

    def __init__(
        self,
        problem: Problem,
        plan: Plan,
        start: Start,
        leaves: list[Any],
        spec: _tree.Spec,
        system_of: Callable[[tuple[Any, ...]], System],
    ) -> None:
        self._problem, self._plan, self._start = problem, plan, start
        self._leaves, self._spec, self._system_of = leaves, spec, system_of
        self.times = moved(plan, *start[1:])

    def _rows(self, t: Tensor) -> Tensor:
        every = [*self._start, t, *self._leaves]
        places = [k for k, x in enumerate(every) if isinstance(x, Tensor) and x.requires_grad]

        def solution(*tensors: Tensor) -> Tensor:
            filled = [x.detach() if isinstance(x, Tensor) else x for x in every]
            for k, x in zip(places, tensors, strict=True):
                filled[k] = x
            y, begin, end, at, *leaves = filled
            system = self._system_of(_tree.unflatten(self._spec, leaves))
            method, plan = self._problem.method, self._plan
            return follow(method, system, plan, moved(plan, begin, end), y, {}).at(at)

        if not places:
            with ad.no_grad():
                return solution()
        return by_tangents(solution, [every[k] for k in places])
