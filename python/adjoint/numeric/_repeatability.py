"""The same input has to give the same output: differences of anything else are noise.

Looked at once per function and form of its inputs, before its first difference. Read next:
_plan.py.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ._coordinates import real_dtype
from ._errors import EvaluationError, ExternalError
from ._point import Point
from ._steps import Steps

if TYPE_CHECKING:
    from ._plan import Plan

__all__ = ["looks_at_repeats", "verify_repeats"]

_FAR = 0.1  # of an input's size: how far away to look for the size of an output that is small here


def looks_at_repeats(plan: Plan) -> bool:
    """Whether a function is differenced of which the user has not said that it is noisy."""
    return bool(plan.differences and plan.noise is None)


def verify_repeats(plan: Plan, point: Point, steps: Steps) -> None:
    """Refuse a function that returns something else for the same input.

    Half of the digits may differ: sums that threads take in any order do that, an inner iteration
    from a random start does, and the choice of steps deals with it.
    """
    if not looks_at_repeats(plan):
        return
    kinds = " ".join(map(str, point.inputs.dtypes))
    key = f"repeats {' '.join(point.inputs.names)} {kinds}"
    if key in plan.verified:
        return
    # Evaluated here, also if there are workers: numbers drawn in a process that has just been
    # started may well be those that were drawn here at first.
    again = point.again("the same input once more")
    apart = _apart(point, again)
    allowed = np.sqrt(_epsilon(point))
    sizes = _sizes(point, point.y, again)
    if (apart > allowed * sizes).any():
        # An output near zero may be what two large numbers leave: its size is seen farther away.
        with contextlib.suppress(EvaluationError, ValueError), np.errstate(all="ignore"):
            far = steps.one_side(_FAR * steps.scale)
            for value in point.values([(far, lambda: "x + 10 %")], 1):
                sizes = np.maximum(sizes, _sizes(point, value))
        _judge(point, again, apart, allowed * sizes, sizes)
    plan.verified.add(key)


def _judge(point: Point, again: Any, apart: Any, allowed: Any, sizes: Any) -> None:
    bad = apart > allowed
    if not bad.any():
        return
    i = int(np.argmax(np.where(bad, apart / np.where(sizes > 0, sizes, 1.0), -1.0)))
    noise = apart[i] / sizes[i]
    given = f"noise={noise:.0e}" if noise < 0.5 else "noise="
    raise ExternalError(
        f"{point.name} returned different values for the same input "
        f"({point.y[i]:.6g} and {again[i]:.6g} for {point.outputs.label(i)}): differences of "
        "it would be noise.\n"
        "  fix: seed it in each call, or make it deterministic; else tell how far it is off "
        f"({given}, relative; with derivative='spsa' for a rough gradient), or give vjp="
    )


def _apart(point: Point, again: Any) -> Any:
    with np.errstate(invalid="ignore"):
        apart = np.abs(again - point.y)
    return np.where(np.isfinite(apart), apart, 0.0)  # what is not finite is passed on


def _sizes(point: Point, *values: Any) -> Any:
    """The largest finite magnitude in the array that each output belongs to."""
    sizes = np.zeros(point.outputs.size)
    for k in range(len(point.outputs.shapes)):
        part = point.outputs.part(k)
        found = np.abs(np.concatenate([v[part] for v in values]))
        sizes[part] = np.max(found, initial=0.0, where=np.isfinite(found))
    return sizes


def _epsilon(point: Point) -> float:
    """The rounding of inputs and outputs: a result may have been rounded to that of the inputs."""
    rounding = [float(np.finfo(real_dtype(d)).eps) for d in point.inputs.dtypes]
    return max(point.epsilon(), *rounding)
