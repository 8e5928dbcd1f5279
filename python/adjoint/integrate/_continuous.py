"""The continuous adjoint: ``λ' = -(∂f/∂y)ᵀ λ`` back in time, along the stored solution.

What is kept are the states at the ends of steps. The gradient is that of the equation, to the
tolerance, and not that of the steps; where it is differentiated again, the steps are.
"""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint._core import Tensor
from adjoint.autograd import Function
from adjoint.autograd._backward import gradients
from adjoint.func import vjp

from ._control import Plan
from ._problem import Problem, solved
from ._system import System
from ._trajectory import Trajectory, follow, moved

__all__ = ["by_adjoint"]

# Gauss, three points: nodes in [0, 1] and weights.
_NODES = (0.1127016653792583, 0.5, 0.8872983346207417)
_WEIGHTS = (5 / 18, 4 / 9, 5 / 18)


class _Adjoint(Function):
    @staticmethod
    def forward(run: Any, *tensors: Any) -> Tensor:
        states: Tensor = run.path.at(run.at.detach())
        return states

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.run, *tensors = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        tensors, run = ctx.saved_tensors, ctx.run
        needed = ctx.needs_input_grad[1:]
        wanted = [t for t, on in zip(tensors, needed, strict=True) if on]
        found = run.again(g, wanted) if ad.is_grad_enabled() else run.back(g, needed, wanted)
        each = iter(found)
        return None, *(next(each) if on else None for on in needed)


class _Run:
    """A solution with what its adjoint needs."""

    def __init__(
        self, problem: Problem, plan: Plan, path: Trajectory, inputs: tuple[Tensor, ...]
    ) -> None:
        self._problem, self._plan, self.path = problem, plan, path
        self._y, self._begin, self._end, self.at, *self._reached = inputs

    def again(self, g: Tensor, wanted: list[Tensor]) -> Any:
        """Gradients that can be differentiated: those of the steps."""
        with ad.enable_grad():
            times = moved(self._plan, self._begin, self._end)
            method, system = self._problem.method, self._problem.system
            path = follow(method, system, self._plan, times, self._y, {})
            states = path.at(self.at)
        return gradients((states,), (g,), True, True, tuple(wanted), True, end_at_inputs=True)

    def back(self, g: Tensor, needed: Any, wanted: list[Tensor]) -> list[Any]:
        """Gradients of the equation."""
        slope = self._problem.system.slope
        marks = self.at.detach()
        order = marks.argsort(descending=self.path.forward).tolist()
        stops, t = marks.tolist(), float(self.path.times[-1])
        first = float(self.path.times[0])
        with ad.no_grad():
            rows = g * ad.stack(
                [slope(s, y) for s, y in zip(marks, self.path.at(marks), strict=True)]
            )
            value = ad.zeros_like(self._y.detach())
            parts: list[Trajectory] = []
            for k in [*order, None]:
                stop = first if k is None else stops[k]
                if stop != t:
                    parts.append(self._segment(t, stop, value))
                    value, t = parts[-1].states[-1], stop
                if k is not None:
                    value = value + g[k]
            at_begin = slope(self.path.times[0], self.path.states[0])
        early = marks == first
        by_begin = -((value - g[early].sum(0)) * at_begin).sum()
        fixed = [value, by_begin, ad.zeros_like(by_begin), rows.sum(-1)]
        by_reached = self._by_reached(parts, wanted[sum(map(bool, needed[:4])) :])
        return [*(f for f, on in zip(fixed, needed[:4], strict=True) if on), *by_reached]

    def _segment(self, t: float, stop: float, value: Tensor) -> Trajectory:
        path, slope = self.path, self._problem.system.slope

        def adjoint(t: Tensor, v: Tensor) -> Tensor:
            _, pull = vjp(lambda y: slope(t, y), path.inside(t))
            pulled: Tensor = pull(v)[0]
            return -pulled

        def matrix(t: Tensor, v: Tensor) -> Tensor:
            return -self._problem.system.matrix(t, path.inside(t)).mT

        system = System(adjoint, None, matrix)
        problem = self._problem._replace(system=system, first_step=None)
        begin, end = (ad.tensor(s, dtype=value.dtype) for s in (t, stop))
        return solved(problem, begin, end, value, {})[1]

    def _by_reached(self, parts: list[Trajectory], reached: list[Tensor]) -> list[Any]:
        """The integral of ``λᵀ ∂f/∂p``, by Gauss' formula over each step of the adjoint."""
        if not reached:
            return []
        times, adjoints = [], []
        with ad.no_grad():
            for part in parts:
                a, h = part.times[:-1], part.times[1:] - part.times[:-1]
                for node, weight in zip(_NODES, _WEIGHTS, strict=True):
                    t = a + node * h
                    times.append(t)
                    adjoints.append(part.inside(t) * (-weight * h)[:, None])
        if not times:
            return [None] * len(reached)
        every = ad.cat(times)
        states = self.path.inside(every)
        slope = self._problem.system.slope

        def add(total: Tensor, row: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, None]:
            t, y, v = row
            return total + (v * slope(t, y)).sum(), None

        with ad.enable_grad():
            zero = ad.zeros((), dtype=every.dtype)
            total, _ = ad.scan(add, zero, (every, states, ad.cat(adjoints)))
        return list(
            gradients((total,), (None,), False, False, tuple(reached), True, end_at_inputs=True)
        )


def by_adjoint(problem: Problem, plan: Plan, inputs: tuple[Tensor, ...]) -> Tensor:
    """States with the gradient of the adjoint equation.

    Parameters
    ----------
    inputs
        The state at the beginning, both ends, the times of the states, and what the slope reads.
    """
    y, begin, end = inputs[:3]
    with ad.no_grad():
        times = moved(plan, begin.detach(), end.detach())
        path = follow(problem.method, problem.system, plan, times, y.detach(), {})
    run = _Run(problem, plan, path, inputs)
    states: Tensor = _Adjoint.apply(run, *inputs)
    return states
