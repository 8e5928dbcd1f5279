"""A problem with all that is chosen for it, and its solution: a plan, and the steps of the plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import adjoint as ad
from adjoint._core import Tensor
from adjoint._samples import largest_value, must_hold
from adjoint.optimize import ConvergenceError, OptimizeResult

from ._control import Control, Plan, plan_steps
from ._methods import Method
from ._system import System
from ._tolerance import Tolerance
from ._trajectory import Trajectory, follow, kept, moved
from ._watch import Watcher

__all__ = [
    "OdeResult",
    "Problem",
    "check_start",
    "followed",
    "planned",
    "raise_unless_right",
    "raise_unless_solved",
    "solved",
    "stopped",
]


_MOST = 100_000  # steps, unless users say otherwise


class OdeResult(OptimizeResult):
    """The solution of an initial value problem, with SciPy's names."""

    def explain(self) -> str:
        """How it was solved, and how its gradient is computed and why."""
        steps = f"{self.method}: {self.nsteps} steps"
        if self.get("rejected") is not None:
            steps += f", and {self.rejected} that were rejected"
        return f"{steps}\ngradient: {self.gradient}, since {self.gradient_reason}"

    def event(self, which: int = 0, number: int = 0) -> Tensor:
        """The time of an event, of those that were given and of those that were met.

        Raises
        ------
        ConvergenceError
            If it was not met.
        """
        if self.t_events is None or not -len(self.t_events) <= which < len(self.t_events):
            raise IndexError(f"there is no event {which}: events= has the functions")
        times: Tensor = self.t_events[which]
        if not -len(times) <= number < len(times):
            raise ConvergenceError(
                f"solve_ivp(): {self.events_missed[which]}; it happened {len(times)} times\n"
                "  fix: a longer t_span, or another direction of the event",
                self,
            )
        found = times[number]

        def error(_: Tensor) -> ConvergenceError:
            return ConvergenceError(f"solve_ivp(): {self.events_missed[which]}", self)

        must_hold(~ad.isnan(found.detach()), error)
        return found


class Problem(NamedTuple):
    """What is solved, and how."""

    method: Method
    system: System
    tolerance: Tolerance
    first_step: float | None
    max_step: float
    max_steps: int | None

    def control(self, end: Tensor) -> Control:
        """What decides about steps toward an end."""
        system = self.system.without_history()
        return Control(self.method, system, self.tolerance, end.detach(), self.max_step)


def check_start(system: System, t: Tensor, y: Tensor) -> None:
    """Raise if the matrix that was given is not the slope's, or the state not a solution."""
    with ad.no_grad():
        if system.has_given_matrix:
            raise_unless_right(largest_value(system.matrix_error(t.detach(), y.detach())))
        if system.mass is not None:
            raise_unless_solved(
                largest_value(system.without_history().beside(t.detach(), y.detach()))
            )


def raise_unless_right(error: float) -> None:
    """Raise for an error of the matrix, relative to it."""
    if not error <= 1e-4:
        raise ValueError(
            "solve_ivp(): jac (or jac_sparsity) is not the derivative of fun at the beginning: it "
            f"is off by {error:.3g} of its size\n  fix: omit it, as derivatives are exact without "
            "it; or compare it with adjoint.func.jacfwd of fun"
        )


def raise_unless_solved(error: float) -> None:
    """Raise for an error of the equations that a singular mass matrix leaves."""
    if not error <= 1e-6:
        raise ValueError(
            "solve_ivp(): y0 does not satisfy the equations without a derivative that the "
            f"singular mass matrix leaves: they are off by {error:.3g}\n"
            "  fix: solve them for the beginning first, by optimize.root"
        )


def solved(
    problem: Problem, begin: Tensor, end: Tensor, y: Tensor, options: dict[str, Any]
) -> tuple[Plan, Trajectory]:
    """The steps, and the solution that they make."""
    plan = planned(problem, begin, end, y, None)
    return plan, followed(problem, plan, begin, end, y, options)


def followed(
    problem: Problem,
    plan: Plan,
    begin: Tensor,
    end: Tensor,
    y: Tensor,
    options: dict[str, Any],
) -> Trajectory:
    """The solution that the steps of a plan make."""
    if not problem.method.implicit and not ad.is_grad_enabled() and not _tangents():
        return kept(problem.method, plan, y)
    return follow(problem.method, problem.system, plan, moved(plan, begin, end), y, options)


def planned(
    problem: Problem, begin: Tensor, end: Tensor, y: Tensor, watcher: Watcher | None
) -> Plan:
    """The steps."""
    keep = not (problem.method.implicit or ad.is_grad_enabled() or _tangents())
    with ad.no_grad():
        start, first = begin.detach(), y.detach()
        plan = plan_steps(
            problem.control(end),
            start,
            first,
            problem.first_step,
            problem.max_steps or _MOST,
            keep,
            watcher,
        )
    if plan.status < 0:
        raise stopped(
            problem.method.name,
            problem.method.implicit,
            plan.times[-1],
            plan.steps,
            plan.rejected,
            plan.message,
            plan.times,
        )
    return plan


def _tangents() -> bool:
    return ad._core._current_dual_level() >= 0


def stopped(
    method: str,
    implicit: bool,
    t: float,
    steps: int,
    rejected: int | None,
    why: str,
    times: Any = None,
) -> ConvergenceError:
    """That a solution did not reach its end."""
    result = OdeResult(
        t=[t] if times is None else times,
        success=False,
        status=-1,
        message=why,
        nsteps=steps,
        rejected=rejected,
    )
    stiff = "" if implicit else " a stiff method (method='Radau'),"
    refused = "" if rejected is None else f" and {rejected} that were rejected"
    return ConvergenceError(
        f"solve_ivp() by {method} stopped at t = {t:.9g} after {steps} steps{refused}: {why}."
        f"\n  fix: try{stiff} larger tolerances, or look at the slope there",
        result,
    )
