"""The same input has to give the same output: differences of anything else are noise.

Looked at once per external and form of its inputs, before its first difference. Read next:
_methods.py.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ._coordinates import real_dtype
from ._errors import EvaluationError, ExternalError
from ._problem import Problem
from ._steps import Steps

if TYPE_CHECKING:
    from ._external import External

__all__ = ["looks_at_repeats", "verify_repeats"]

_FAR = 0.1  # of an input's size: how far away to look for the size of an output that is small here


def looks_at_repeats(external: External) -> bool:
    """Whether a function is differenced of which the user has not said that it is noisy."""
    return bool(external.differences and external.noise is None)


def verify_repeats(external: External, problem: Problem, steps: Steps) -> None:
    """Refuse a function that returns something else for the same input.

    Half of the digits may differ: sums that threads take in any order do that, an inner iteration
    from a random start does, and the choice of steps deals with it.
    """
    if not looks_at_repeats(external):
        return
    kinds = " ".join(map(str, problem.inputs.dtypes))
    key = f"repeats {' '.join(problem.inputs.names)} {kinds}"
    if key in external.verified:
        return
    # Evaluated here, also if there are workers: numbers drawn in a process that has just been
    # started may well be those that were drawn here at first.
    args, kwargs = problem.at(problem.x)
    again = problem.vector(external.evaluator.one(args, kwargs, _same()), _same)
    apart = _apart(problem, again)
    allowed = np.sqrt(_epsilon(problem))
    sizes = _sizes(problem, problem.y, again)
    if (apart > allowed * sizes).any():
        # An output near zero may be what two large numbers leave: its size is seen farther away.
        with contextlib.suppress(EvaluationError, ValueError), np.errstate(all="ignore"):
            far = problem.moved_all(steps.one_side(_FAR * steps.scale), lambda: "x + 10 %")
            for value in problem.values([far], 1):
                sizes = np.maximum(sizes, _sizes(problem, value))
        _judge(problem, again, apart, allowed * sizes, sizes)
    external.verified.add(key)


def _judge(problem: Problem, again: Any, apart: Any, allowed: Any, sizes: Any) -> None:
    bad = apart > allowed
    if not bad.any():
        return
    i = int(np.argmax(np.where(bad, apart / np.where(sizes > 0, sizes, 1.0), -1.0)))
    noise = apart[i] / sizes[i]
    given = f"noise={noise:.0e}" if noise < 0.5 else "noise="
    raise ExternalError(
        f"{problem.name} returned different values for the same input "
        f"({problem.y[i]:.6g} and {again[i]:.6g} for {problem.outputs.label(i)}): differences of "
        "it would be noise.\n"
        "  fix: seed it in each call, or make it deterministic; else tell how far it is off "
        f"({given}, relative; with derivative='spsa' for a rough gradient), or give vjp="
    )


def _same() -> str:
    return "the same input once more"


def _apart(problem: Problem, again: Any) -> Any:
    with np.errstate(invalid="ignore"):
        apart = np.abs(again - problem.y)
    return np.where(np.isfinite(apart), apart, 0.0)  # what is not finite is passed on


def _sizes(problem: Problem, *values: Any) -> Any:
    """The largest finite magnitude in the array that each output belongs to."""
    sizes = np.zeros(problem.outputs.size)
    for k in range(len(problem.outputs.shapes)):
        part = problem.outputs.part(k)
        found = np.abs(np.concatenate([v[part] for v in values]))
        sizes[part] = np.max(found, initial=0.0, where=np.isfinite(found))
    return sizes


def _epsilon(problem: Problem) -> float:
    """The rounding of inputs and outputs: a result may have been rounded to that of the inputs."""
    rounding = [float(np.finfo(real_dtype(d)).eps) for d in problem.inputs.dtypes]
    return max(problem.epsilon(), *rounding)
