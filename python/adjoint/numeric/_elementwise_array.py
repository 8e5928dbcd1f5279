"""Elementwise functions of one plain array, in the dtype of the array.

A large array costs little more than the evaluations: no vectors of coordinates in float64 are made.
Read _elementwise.py first, of which this is the short way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint import _core

from ._errors import EvaluationError
from ._step_choice import known_step
from ._steps import root_mean_square
from ._tiny_elements import agreement, lost_below, tiny_below

if TYPE_CHECKING:
    from ._plan import Plan

__all__ = ["quick_slopes"]

_ROUNDINGS, _WORSE = 16.0, 300.0  # as in _verification.py
_BLOCK = 8192  # elements whose steps are computed while they are in the cache

Evaluate = Callable[[Sequence[Any], Sequence[str]], list[Any]]  # arrays, and what messages say


def quick_slopes(plan: Plan, evaluate: Evaluate, name: str, x: Any, y: Any) -> Any:
    """The diagonal of the Jacobian of a function that has no settings of steps.

    Returns None for whatever is not plain (among it a value that is not finite): `elementwise` then
    says what is wrong.
    """
    if type(x) is not np.ndarray or x.shape != y.shape or x.dtype != y.dtype:
        return None
    if x.dtype not in (np.float64, np.float32) or plan.reuses:
        return None
    with np.errstate(all="ignore"):
        if not np.isfinite(y.sum()):
            return None
    noise = max(plan.noise or 0.0, float(np.finfo(y.dtype).eps))
    order, relative, size = known_step(plan, name, x.dtype, noise)
    flat = np.ascontiguousarray(x).reshape(-1)
    with np.errstate(all="ignore"):
        largest = max(float(flat.max(initial=0)), -float(flat.min(initial=0)))
        if size < largest / 10 or size > 10 * largest:
            return None  # another step has to be looked for
        ends = _moved(flat, x.dtype.type(relative), order)
        given = [end.reshape(x.shape) for end in ends]
        for array in given:
            array.flags.writeable = False  # what is divided by must be what was evaluated
        values = evaluate(given, [f"x {sign} steps in every element" for sign in "+-"])
        values += [y] * (2 - order)
        ends += [flat] * (2 - order)
        if any(type(v) is not np.ndarray for v in values):
            return None
        if np.may_share_memory(*values):  # the second call has overwritten the first one's result
            plan.reuses = True
            return None
        if any(v.shape != y.shape or v.dtype != y.dtype for v in values):
            return None
        slopes = _quotients([v.reshape(-1) for v in values], ends)
        if slopes is None or not _holds(plan, evaluate, flat, y, slopes, relative, order, noise):
            return None
        if not _recover(evaluate, (flat, y, slopes, largest), ends, noise, x.shape):
            return None
        return slopes.reshape(x.shape)


def _holds(
    plan: Plan,
    evaluate: Evaluate,
    flat: Any,
    y: Any,
    slopes: Any,
    relative: float,
    order: int,
    noise: float,
) -> bool:
    """Whether the slopes are those by shorter steps, with neighbours moved to opposite sides."""
    if not plan.verifies or flat.size < 2:
        return True
    step = flat.dtype.type(min(relative, noise ** (1 / 3)) / 3)
    ends = _moved(flat, step, 2)
    up, down = ends[0][1::2].copy(), ends[1][1::2]
    ends[0][1::2], ends[1][1::2] = down, up
    shape = y.shape
    values = evaluate([e.reshape(shape) for e in ends], ["steps in every element"] * 2)
    if any(getattr(v, "shape", None) != shape or v.dtype != y.dtype for v in values):
        return False
    if np.may_share_memory(*values):
        return False
    theirs = _quotients([v.reshape(-1) for v in values], ends)
    if theirs is None:
        return False
    # In place, block by block: the arrays may be large.
    worse = _WORSE * plan.method.error(noise)
    for start in range(0, flat.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        ours, width = slopes[part], np.abs(ends[0][part] - ends[1][part])
        gap = np.abs(ours - theirs[part]) * width
        rounding = 2 * _ROUNDINGS * noise * np.abs(y.reshape(-1)[part])
        if (gap > rounding + worse * np.abs(ours) * width).any():
            return False
    return True


def _recover(evaluate: Evaluate, arrays: Any, ends: list[Any], noise: float, shape: Any) -> bool:
    """Put right tiny elements as `elementwise` does; False if that has to say what is wrong.

    Looks at the array block by block, since there are few such elements.
    """
    flat, y, slopes, largest = arrays
    limit = tiny_below(noise) * (largest if largest >= tiny_below(noise) else 1.0)
    found = []
    buffer = np.empty(min(_BLOCK, flat.size), flat.dtype)
    for start in range(0, flat.size, _BLOCK):
        part = flat[start : start + _BLOCK]
        np.abs(part, out=buffer[: part.size])
        found.append(start + np.flatnonzero(buffer[: part.size] < limit))
    tiny = np.concatenate(found) if found else np.zeros(0, int)
    if largest >= tiny_below(noise):
        tiny = tiny[flat[tiny] != 0]
    if not tiny.size or largest == 0:
        return True
    width, size = np.abs(ends[0][tiny] - ends[1][tiny]), np.abs(y.reshape(-1)[tiny])
    bad = np.abs(slopes[tiny]) * width <= lost_below(noise) * noise * size
    if not bad.any():
        return True
    tiny, width, size = tiny[bad], width[bad], size[bad]
    typical = 1.0
    if largest >= tiny_below(noise):
        typical = root_mean_square(np.abs(flat[(flat != 0) & np.isfinite(flat)]).astype(float))
    step = flat.dtype.type(noise ** (1 / 3) * typical)
    moved = [flat.copy(), flat.copy()]
    moved[0][tiny] += step
    moved[1][tiny] -= step
    try:
        values = evaluate([m.reshape(shape) for m in moved], ["steps in tiny elements"] * 2)
    except EvaluationError:
        return False
    if any(getattr(v, "shape", None) != shape or v.dtype != y.dtype for v in values):
        return False
    if np.may_share_memory(*values):
        return False
    a, b = (v.reshape(-1)[tiny].astype(float) for v in values)
    again = (a - b) / (moved[0][tiny].astype(float) - moved[1][tiny])
    size = np.fmax(size, np.abs(again) * typical)
    take, unsure = agreement(slopes[tiny].astype(float), width, noise * size, again)
    slopes[tiny[take]] = again[take]
    return not unsure.any()


def _moved(flat: Any, relative: Any, order: int) -> list[Any]:
    """The array with every element moved by its step: outwards, and for order 2 inwards."""
    ends = [_buffer(flat) for _ in range(order)]
    for end, factor in zip(ends, (1 + relative, 1 - relative), strict=False):
        np.multiply(flat, factor, out=end)
    if not flat.all():
        used = flat[(flat != 0) & np.isfinite(flat)].astype(float)
        typical = np.sqrt(np.mean(used**2)) if used.size else 1.0
        for end, step in zip(ends, (relative, -relative), strict=False):
            end[flat == 0] = typical * step
    return ends


def _quotients(values: list[Any], ends: list[Any]) -> Any:
    (a, b), (up, down) = values, ends
    slopes = _buffer(up)
    width = np.empty(min(_BLOCK, up.size), up.dtype)
    for start in range(0, up.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        slope = slopes[part]
        np.subtract(up[part], down[part], out=width[: slope.size])
        np.subtract(a[part], b[part], out=slope)
        np.divide(slope, width[: slope.size], out=slope)
        if not np.isfinite(slope.sum()):
            return None
    return slopes


def _buffer(like: Any) -> Any:
    """An array in a tensor's memory, which comes from a cache and so needs no new pages."""
    memory: Any = _core.empty(like.size, dtype=_core.float64)
    return np.asarray(memoryview(memory)).view(like.dtype)[: like.size]
