"""Elements far smaller than the rest of their array: 1e-12 beside 1.0.

Steps are relative, since a small element may well be one that the function follows closely. Where
it does not, the step changes the outputs by no more than their rounding: the difference is noise.
Such entries are differenced once more with the step that a zero would have. The result is taken if
it agrees with the first one up to what rounding explains: the first is never made worse. Where
neither is to be trusted there is a warning. Read next: _method.py, which calls this.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import EvaluationError
from ._point import Move, Point
from ._steps import Steps, root_mean_square

if TYPE_CHECKING:
    from ._method import Stencil

__all__ = [
    "agreement",
    "attempts",
    "choose",
    "count_tiny",
    "lost",
    "lost_below",
    "recover",
    "sizes_of_rows",
    "tiny_below",
    "tiny_in_tiny",
    "warn",
    "widened",
]

_AGREE = 8.0  # roundings by which two differences may be apart
_UNSURE = 100.0  # roundings below which a difference that stands alone is not believed


def tiny_below(noise: float) -> float:
    """What is tiny, relative to the largest of the array: 1e-4 in float64, 2e-2 in float32."""
    return float(noise**0.25)


def lost_below(noise: float) -> float:
    """How many roundings a difference has to be, at least: 1e4 in float64, 3e3 in float32."""
    return float(min(1e4, noise**-0.5))


def widened(steps: Steps, whole: bool = True) -> Steps | None:
    """The steps with tiny elements as large as the others of their array; None without such.

    If ``whole``, an array of nothing but tiny numbers counts as if 1.0 were among them.
    """
    point = steps.point
    magnitude = np.abs(point.x)
    scale = steps.scale.copy()
    relative = None if steps.relative is None else steps.relative.copy()
    limit = tiny_below(steps.noise)
    for k in range(len(point.inputs.shapes)):
        part = point.inputs.part(k)
        inside = magnitude[part]
        used = inside[(inside > 0) & np.isfinite(inside)]
        if not used.size:
            continue
        if np.max(used) < limit:
            small, typical = np.full(inside.shape, whole), 1.0
            if whole and relative is not None:
                relative[part] = np.nan  # was found for another magnitude
        else:
            small = (inside > 0) & (inside < limit * np.max(used))
            typical = root_mean_square(used)
        small &= steps.free[part] & (scale[part] < typical)
        scale[part] = np.where(small, typical, scale[part])
    if (scale == steps.scale).all():
        return None
    wide = copy.copy(steps)
    wide.scale, wide.relative = scale, relative
    return wide


def count_tiny(array: Any, noise: float) -> int:
    """How many numbers of an array are tiny; zeros count if all are."""
    parts = np.concatenate([np.real(array).reshape(-1), np.imag(array).reshape(-1)])
    magnitude = np.abs(parts if array.dtype.kind == "c" else np.real(array).reshape(-1))
    limit = tiny_below(max(noise, float(np.finfo(array.dtype).eps)))
    largest = np.max(magnitude, initial=0.0, where=np.isfinite(magnitude))
    if largest < limit:
        return magnitude.size if largest > 0 else 0
    return int(np.count_nonzero((magnitude > 0) & (magnitude < limit * largest)))


def tiny_in_tiny(steps: Steps, wide: Steps) -> Any:
    """Which of the widened elements belong to arrays of nothing but tiny numbers.

    Such an array may be meant so (a capacitance in farads): its elements are only stepped further
    if no output follows them at all.
    """
    alone = widened(steps, whole=False)
    return wide.scale != (steps if alone is None else alone).scale


def lost(steps: Steps, found: Any, width: Any, size: Any, least: float = 0.0) -> Any:
    """Which derivatives come from differences (over a width) that are hardly above rounding."""
    times = least or lost_below(steps.rounding)
    with np.errstate(all="ignore"):
        return np.abs(found) * width <= times * steps.rounding * size


def choose(steps: Steps, found: Any, width: Any, size: Any, again: Any) -> tuple[Any, Any]:
    """Where ``again``, by longer steps, is to be taken; and where neither is known to be right.

    For the derivatives of all outputs by one element, or along one direction.
    """
    take, unsure = agreement(found, width, steps.rounding * size, again)
    if np.isnan(again).all() and np.any(found):
        # It failed, but outputs that did not change while others did may well not depend on it.
        unsure = unsure & (found != 0)
    return take, unsure


def agreement(found: Any, width: Any, rounding: Any, again: Any) -> tuple[Any, Any]:
    """The same for any entries, of outputs that are known up to ``rounding``."""
    with np.errstate(all="ignore"):
        agree = np.abs(again - found) * width <= _AGREE * rounding
        take = np.isfinite(again) & agree
        return take, ~take & (np.abs(found) * width <= _UNSURE * rounding)


def sizes_of_rows(steps: Steps, columns: Any) -> Any:
    """The size of what each output is computed from: itself, or what the inputs add to it.

    An output near zero may be the difference of large numbers, with their rounding.
    """
    size = np.abs(steps.point.y)
    for i, column in enumerate(columns):
        np.fmax(size, np.abs(column) * steps.scale[i], out=size)
    return size


def attempts(point: Point, moves: Sequence[Move]) -> Iterator[Any]:
    """The outputs after some moves, which may be far: None where the function fails."""
    done = 0
    while done < len(moves):
        try:
            with np.errstate(all="ignore"):
                for value in point.values(moves[done:], len(moves) - done, checked=False):
                    done += 1
                    yield value
        except EvaluationError:
            done += 1
            yield None


def recover(stencil: Stencil, point: Point, steps: Steps, matrix: Any, width: Any) -> None:
    """Put right the lost entries of a Jacobian whose column i is a difference over width[i]."""
    wide = widened(steps)
    if wide is None:
        return
    size = sizes_of_rows(steps, matrix.T)
    tiny = np.flatnonzero(wide.scale != steps.scale)
    whole = tiny_in_tiny(steps, wide)
    columns = []
    for i in map(int, tiny):
        rows = lost(steps, matrix[:, i], width[i], size)
        if rows.any() and (not whole[i] or (rows | ~point.finite).all()):
            columns.append((i, rows))
    if not columns:
        return
    ends = stencil.ends(wide)
    distances = [end - point.x for end in ends]
    values = attempts(point, [(i, end[i]) for i, _ in columns for end in ends])
    for i, rows in columns:
        found = [next(values) for _ in ends]
        if any(end is None for end in found):
            again = np.full(point.outputs.size, np.nan)
        else:
            with np.errstate(all="ignore"):
                again = stencil.combine([d[i] for d in distances], found, point.y)
        column = matrix[:, i]
        here = np.fmax(size, np.abs(again) * wide.scale[i])
        take, unsure = choose(steps, column, width[i], here, again)
        warn(point, i, rows & unsure, abs(distances[0][i]))
        column[rows & take] = again[rows & take]
    next(values, None)  # lets the evaluations finish


def warn(point: Point, index: int, unsure: Any, step: float) -> None:
    """Say which derivative is not to be trusted, if some is."""
    if not np.any(unsure):
        return
    output = point.outputs.label(int(np.argmax(unsure)))
    x = point.x[index]
    warnings.warn(
        f"{point.name}: the derivative of {output} by {point.inputs.label(index)} = "
        f"{x:.6g} may be wrong: a step of that element's own size is lost in the rounding of the "
        f"result, and one of {step:.1g} leads to another derivative, or to none.\n"
        "  fix: scale= (over which length the function changes), bounds=, or "
        "derivative='complex-step'",
        stacklevel=2,
    )
