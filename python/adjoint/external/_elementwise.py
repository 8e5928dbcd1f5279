"""Functions that act on every element alone: one pair of evaluations for the whole array.

That the function really is elementwise is verified at the first call: elements that were not
perturbed must not change. Read next: _methods.py.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from adjoint import _core

from ._errors import EvaluationError, ExternalError
from ._evaluate import Evaluator, Point
from ._jacobian import Diagonal
from ._problem import Problem
from ._steps import Steps, quotient, root_mean_square, slope
from ._tiny import agreement, attempts, lost, lost_below, tiny_below, warn, widened

__all__ = ["elementwise", "masks_needed", "quick_slopes", "verify_elementwise"]

_BLOCK = 8192  # elements whose steps are computed while they are in the cache


def elementwise(problem: Problem, steps: Steps, order: int) -> Diagonal:
    """One pair of evaluations (one for order 1) per input array."""
    _same_shapes(problem)
    if order == 1:
        first = steps.one_side(steps.sizes(1))
        second = None
    else:
        first, second = steps.both_sides(steps.sizes(2))
    values = iter(problem.values(_points(problem, first, second), _count(problem, second)))
    blocks: list[list[Any]] = [[] for _ in problem.outputs.shapes]
    for k in range(len(problem.inputs.shapes)):
        part = problem.inputs.part(k)
        x = problem.x[part]
        a = next(values)
        if second is None:
            for o, row in enumerate(blocks):
                out = problem.outputs.part(o)
                row.append((a[out] - problem.y[out]) / (first[part] - x))
            continue
        b = next(values)
        weights = slope(x, first[part], second[part])
        for o, row in enumerate(blocks):
            out = problem.outputs.part(o)
            row.append(quotient(weights, a[out], b[out], problem.y[out]))
    next(values, None)  # lets the evaluations finish
    _recover(problem, steps, blocks, np.abs(first - (problem.x if second is None else second)))
    return Diagonal(blocks, problem.inputs, problem.outputs)


def _recover(problem: Problem, steps: Steps, blocks: list[list[Any]], width: Any) -> None:
    """Put right tiny elements whose differences are lost in rounding (_tiny.py)."""
    wide = widened(steps)
    if wide is None:
        return
    tiny = wide.scale != steps.scale
    for k in range(len(problem.inputs.shapes)):
        part = problem.inputs.part(k)
        outs = [problem.outputs.part(o) for o in range(len(blocks))]
        sizes = [np.abs(problem.y[out]) for out in outs]
        bad = [
            tiny[part] & lost(steps, row[k], width[part], size)
            for row, size in zip(blocks, sizes, strict=True)
        ]
        moves = np.any(bad, axis=0)
        if not moves.any():
            continue
        x = problem.x[part]
        ends = np.where(moves, [end[part] for end in wide.both_sides(wide.sizes(2))], x)

        def make(j: int, part: slice = part, ends: Any = ends) -> Point:
            moved = problem.x.copy()
            moved[part] = ends[j]
            return problem.moved_all(moved, lambda: "steps in tiny elements")

        a, b = attempts(problem, make, 2)
        for row, out, size, mask in zip(blocks, outs, sizes, bad, strict=True):
            again = np.full(x.shape, np.nan)
            if a is not None and b is not None:
                with np.errstate(all="ignore"):
                    again = quotient(slope(x, *ends), a[out], b[out], problem.y[out])
            size = np.fmax(size, np.abs(again) * wide.scale[part])
            take, unsure = agreement(row[k], width[part], steps.rounding * size, again)
            unsure &= mask
            i = part.start + int(np.argmax(unsure))
            rows = np.arange(problem.outputs.size) == out.start + int(np.argmax(unsure))
            warn(problem, i, rows & unsure.any(), wide.sizes(2)[i])
            row[k][mask & take] = again[mask & take]


def quick_slopes(
    evaluator: Evaluator,
    rebuild: Any,
    x: Any,
    y: Any,
    noise: float,
    known: tuple[int, float, float],
) -> Any:
    """The same for one array of plain floats without options, in the dtype of the array.

    A large array costs little more than the evaluations. Returns None for whatever is not plain
    (among it a value that is not finite): `elementwise` then says what is wrong.
    """
    if type(x) is not np.ndarray or x.shape != y.shape or x.dtype != y.dtype:
        return None
    if x.dtype not in (np.float64, np.float32) or evaluator.reuses:
        return None
    flat = np.ascontiguousarray(x).reshape(-1)
    with np.errstate(all="ignore"):
        order, relative, size = known
        largest = max(float(flat.max(initial=0)), -float(flat.min(initial=0)))
        if size < largest / 10 or size > 10 * largest:
            return None  # another step has to be looked for
        ends = _moved(flat, x.dtype.type(relative), order)
        where = "x {} steps in every element".format
        given = [end.reshape(x.shape) for end in ends]
        for array in given:
            array.flags.writeable = False  # what is divided by must be what was evaluated
        points = [
            (*rebuild(array), functools.partial(where, sign))
            for array, sign in zip(given, "+-", strict=False)
        ]
        values = list(evaluator.many(points, order))
        values += [y] * (2 - order)
        ends += [flat] * (2 - order)
        if any(type(v) is not np.ndarray for v in values):
            return None
        if np.may_share_memory(*values):  # the second call has overwritten the first one's result
            evaluator.reuses = True
            return None
        if any(v.shape != y.shape or v.dtype != y.dtype for v in values):
            return None
        slopes = _quotients([v.reshape(-1) for v in values], ends)
        if slopes is None or not _quick_recover(
            evaluator, rebuild, (flat, y, slopes, largest), ends, noise, x.shape
        ):
            return None
        return slopes.reshape(x.shape)


def _quick_recover(
    evaluator: Evaluator, rebuild: Any, arrays: Any, ends: list[Any], noise: float, shape: Any
) -> bool:
    """Put right tiny elements as `_recover` does; False if `elementwise` has to say what is wrong.

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
    points = [(*rebuild(m.reshape(shape)), lambda: "steps in tiny elements") for m in moved]
    try:
        values = list(evaluator.many(points, 2))
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


def _count(problem: Problem, second: Any) -> int:
    return len(problem.inputs.shapes) * (1 if second is None else 2)


def _points(problem: Problem, first: Any, second: Any) -> Any:
    for k, name in enumerate(problem.inputs.names):
        part = problem.inputs.part(k)
        for moved in (first, second):
            if moved is None:
                continue
            x = problem.x.copy()
            x[part] = moved[part]
            yield problem.moved_all(
                x, functools.partial("{} + steps in every element".format, name)
            )


def _same_shapes(problem: Problem) -> None:
    for name, shape, dtype in zip(
        problem.inputs.names, problem.inputs.shapes, problem.inputs.dtypes, strict=True
    ):
        for other, out, kind in zip(
            problem.outputs.names, problem.outputs.shapes, problem.outputs.dtypes, strict=True
        ):
            if dtype.kind == "c" or kind.kind == "c":
                raise TypeError(f"elementwise=True is for real numbers; {name} is {dtype}")
            if shape != out:
                raise ExternalError(
                    f"elementwise=True: {problem.name} takes {name} of shape {list(shape)} but "
                    f"returns {other} of shape {list(out)}; an elementwise function keeps the shape"
                )


def masks_needed(n: int) -> int:
    """How many sets of elements tell every pair apart: about log2(n) + 3."""
    if n < 2:
        return 0
    return next(m for m in range(2, 64) if math.comb(m, m // 2) >= n)


def _masks(n: int) -> list[Any]:
    """Sets of elements to perturb: of any two elements, each is in a set without the other.

    Each element has a word of its own with half of the bits set, so that no word is in another.
    """
    count = masks_needed(n)
    weights = np.zeros(1, np.uint8)
    for _ in range(count):
        weights = np.concatenate([weights, weights + 1])
    words = np.flatnonzero(weights == count // 2)[:n]
    return [(words >> b) & 1 == 1 for b in range(count)]


def verify_elementwise(problem: Problem, steps: Steps) -> None:
    """Perturb some elements; the others must not change."""
    _same_shapes(problem)
    far = max(1e-3, steps.noise ** (1 / 3))  # well beyond what noise may change
    first, _ = steps.both_sides(far * steps.scale)
    for k, name in enumerate(problem.inputs.names):
        part = problem.inputs.part(k)
        for mask in _masks(problem.inputs.sizes[k]):
            x = problem.x.copy()
            x[part] = np.where(mask, first[part], x[part])
            point = problem.moved_all(
                x, functools.partial("{} with some elements moved".format, name)
            )
            (value,) = problem.values([point], 1)
            _untouched(problem, value, mask, name, 8 * steps.noise)


def _untouched(problem: Problem, value: Any, mask: Any, name: str, noise: float) -> None:
    for o, output in enumerate(problem.outputs.names):
        out = problem.outputs.part(o)
        before, after = problem.y[out], value[out]
        same = np.abs(after - before) <= noise * np.abs(before)
        same |= np.isnan(before) & np.isnan(after)
        wrong = ~mask & ~same & (after != before)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ExternalError(
                f"elementwise=True, but {problem.name} is not elementwise: "
                f"{problem.outputs.label(problem.outputs.offsets[o] + i)} changed from "
                f"{before[i]:.6g} to {after[i]:.6g} though only other elements of {name} did; "
                f"{output} depends on its neighbours. fix: leave elementwise away, or give "
                "sparsity="
            )
