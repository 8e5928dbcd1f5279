"""How the gradient of a solution is computed: which of three ways, and why.

*discrete*: the steps are differentiated as they are (``_trajectory.py``). *continuous*: the adjoint
equation is solved back in time along the stored solution (``_continuous.py``). *forward*: tangents
of all inputs go along with the steps (``_forward.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import adjoint as ad
from adjoint import _core
from adjoint._core import Tensor
from adjoint._samples import is_batched

from ._control import Plan
from ._problem import Problem

__all__ = ["Choice", "Inputs", "choose", "inputs_of"]

GRADIENTS = (None, "discrete", "continuous", "forward")
_BUDGET = 1 << 30  # bytes that a backward pass may keep, where nobody says otherwise
_FEW = 8  # inputs for which tangents are cheaper than running steps again
_SAVED = 8  # values that the backward pass reads, by element and slope: about


class Choice(NamedTuple):
    """A way, why it was taken, and what `adjoint.scan` is told about memory."""

    name: str
    reason: str
    options: dict[str, Any]


class Inputs(NamedTuple):
    """What a solution depends on: tensors that require gradients.

    Attributes
    ----------
    given
        The state at the beginning, both ends and the tensors of ``args``.
    reached
        What the slope reads besides.
    known
        Whether these are all, which only a call that can be recorded tells.
    """

    given: list[Tensor]
    reached: list[Tensor]
    known: bool

    @property
    def size(self) -> int:
        """How many numbers."""
        return sum(t.numel() for t in (*self.given, *self.reached))


def inputs_of(problem: Problem, t: Tensor, y: Tensor, given: list[Tensor]) -> Inputs:
    """What the solution depends on."""
    if not ad.is_grad_enabled():
        return Inputs([], [], True)
    recording = _core._Recording([])
    recording.start()
    try:
        problem.system.slope(t.detach(), y.detach())
        if problem.system.mass is not None:
            problem.system.massed(y.detach())
    finally:
        recording.stop()
    own = {id(x) for x in given}
    read = [x for x in recording.reached() if x.requires_grad and id(x) not in own]
    return Inputs([x for x in given if x.requires_grad], read, recording.refused() is None)


def check(gradient: Any) -> None:
    """Raise for a way that does not exist."""
    if gradient not in GRADIENTS:
        raise ValueError(
            f"solve_ivp(): there is no gradient {gradient!r}; there are 'discrete', 'continuous', "
            "'forward', and None for the one that suits"
        )


def choose(
    gradient: str | None,
    problem: Problem,
    plan: Plan,
    inputs: Inputs,
    y: Tensor,
    events: bool,
    options: dict[str, Any],
) -> Choice:
    """The way that was asked for, or that suits the problem."""
    inside = is_batched(y, *inputs.given, *inputs.reached) or _core._current_dual_level() >= 0
    if inside:
        return Choice(
            "discrete", "inside vmap and forward mode the steps are what there is", options
        )
    if not ad.is_grad_enabled() or (inputs.known and inputs.size == 0):
        return Choice("discrete", "nothing that it depends on requires a gradient", options)
    if gradient in ("continuous", "forward"):
        _check_possible(gradient, problem, inputs, events)
        return Choice(gradient, "it was asked for", options)
    if gradient == "discrete":
        return Choice("discrete", "it was asked for", options)
    return _suited(problem, plan, inputs, y, events, options)


def _suited(
    problem: Problem,
    plan: Plan,
    inputs: Inputs,
    y: Tensor,
    events: bool,
    options: dict[str, Any],
) -> Choice:
    slopes = max(problem.method.slopes, 1)
    tape = plan.steps * slopes * _SAVED * y.numel() * y.element_size()
    sizes = (
        f"{inputs.size} inputs, a state of {y.numel()} numbers and {plan.steps} steps, which keep "
        f"about {_bytes(tape)}"
    )
    bounded = options["memory"] != "all" or options["snapshots"] is not None
    if tape <= _BUDGET or bounded:
        limit = ", within the memory that was asked for" if bounded else ""
        return Choice(
            "discrete", f"it is exact for the steps that were taken: {sizes}{limit}", options
        )
    if inputs.known and inputs.size <= _FEW and not inputs.reached and not events:
        reason = f"tangents of few inputs keep nothing: {sizes}"
        return Choice("forward", reason, options)
    limited = {"memory": f"{_BUDGET >> 20}MB", "snapshots": None}
    reason = f"it is exact, and steps are run again to stay within {_bytes(_BUDGET)}: {sizes}"
    return Choice("discrete", reason, limited)


def _check_possible(gradient: str, problem: Problem, inputs: Inputs, events: bool) -> None:
    what = f"solve_ivp(): gradient={gradient!r} "
    fix = "\n  fix: gradient='discrete', which can do that"
    if events:
        raise ValueError(f"{what}has no derivative of event times{fix}")
    if not inputs.known:
        raise ValueError(f"{what}needs a slope that can be recorded, to see what it reads{fix}")
    if gradient == "continuous" and problem.system.mass is not None:
        raise ValueError(f"{what}has no adjoint equation for a mass matrix{fix}")
    if gradient == "forward" and inputs.reached:
        raise ValueError(
            f"{what}differentiates by y0 and args, and fun reads {len(inputs.reached)} other "
            "tensors that require gradients\n  fix: hand them over by args=, or gradient='discrete'"
        )


def _bytes(n: int) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n} {unit}"
        n //= 1000
    return f"{n} GB"
