"""Functions that act on every element alone: one set of evaluations for the whole array.

That the function really is elementwise is verified at the first call: elements that were not
perturbed must not change. Read next: _elementwise_array.py, the same for large arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ._directional import CENTRAL
from ._errors import ExternalError
from ._jacobians import Diagonal
from ._point import Move, Point
from ._steps import Steps
from ._tiny_elements import agreement, attempts, lost, warn, widened

if TYPE_CHECKING:
    from ._bends import Bends
    from ._method import Stencil

__all__ = ["elementwise", "masks_needed", "same_shapes", "verify_elementwise"]


def elementwise(
    stencil: Stencil, point: Point, steps: Steps, bends: Bends | None = None
) -> Diagonal:
    """What one input costs, for each input array."""
    same_shapes(point)
    ends = stencil.ends(steps)
    distances = [end - point.x for end in ends]
    count = len(point.inputs.shapes)

    def moves() -> Iterator[Move]:
        for k, name in enumerate(point.inputs.names):
            part = point.inputs.part(k)
            for end in ends:
                x = point.x.copy()
                x[part] = end[part]
                yield x, functools.partial("{} + steps in every element".format, name)

    values = iter(point.values(moves(), len(ends) * count))
    blocks: list[list[Any]] = [[] for _ in point.outputs.shapes]
    for k in range(count):
        part = point.inputs.part(k)
        found = [next(values) for _ in ends]
        apart = [d[part] for d in distances]
        for o, row in enumerate(blocks):
            out = point.outputs.part(o)
            there = [value[out] for value in found]
            row.append(stencil.combine(apart, there, point.y[out]))
        if bends is not None:
            every = np.tile(np.arange(part.start, part.stop), len(blocks))
            apart, slopes = [np.tile(d, len(blocks)) for d in apart], [row[k] for row in blocks]
            bends.note(k, every, apart, found, np.concatenate(slopes or [every]), point.y)
    next(values, None)  # lets the evaluations finish
    _recover(point, steps, blocks, stencil.width(distances))
    return Diagonal(blocks, point.inputs, point.outputs)


def _recover(point: Point, steps: Steps, blocks: list[list[Any]], width: Any) -> None:
    """Put right tiny elements whose differences are lost in rounding (_tiny_elements.py)."""
    wide = widened(steps)
    if wide is None:
        return
    tiny = wide.scale != steps.scale
    for k in range(len(point.inputs.shapes)):
        part = point.inputs.part(k)
        outs = [point.outputs.part(o) for o in range(len(blocks))]
        sizes = [np.abs(point.y[out]) for out in outs]
        bad = [
            tiny[part] & lost(steps, row[k], width[part], size)
            for row, size in zip(blocks, sizes, strict=True)
        ]
        moves = np.any(bad, axis=0)
        if not moves.any():
            continue
        x = point.x[part]
        ends = np.where(moves, [end[part] for end in wide.both_sides(wide.sizes(2))], x)

        moved = [np.concatenate([point.x[: part.start], end, point.x[part.stop :]]) for end in ends]
        found = list(attempts(point, [(m, lambda: "steps in tiny elements") for m in moved]))
        for row, out, size, mask in zip(blocks, outs, sizes, bad, strict=True):
            again = np.full(x.shape, np.nan)
            if all(value is not None for value in found):
                with np.errstate(all="ignore"):
                    there = [value[out] for value in found]
                    again = CENTRAL.combine([end - x for end in ends], there, point.y[out])
            size = np.fmax(size, np.abs(again) * wide.scale[part])
            take, unsure = agreement(row[k], width[part], steps.rounding * size, again)
            unsure &= mask
            i = part.start + int(np.argmax(unsure))
            rows = np.arange(point.outputs.size) == out.start + int(np.argmax(unsure))
            warn(point, i, rows & unsure.any(), wide.sizes(2)[i])
            row[k][mask & take] = again[mask & take]


def same_shapes(point: Point) -> None:
    """Refuse a function that is not elementwise by its shapes."""
    for name, shape, dtype in zip(
        point.inputs.names, point.inputs.shapes, point.inputs.dtypes, strict=True
    ):
        for other, out, kind in zip(
            point.outputs.names, point.outputs.shapes, point.outputs.dtypes, strict=True
        ):
            if dtype.kind == "c" or kind.kind == "c":
                raise TypeError(f"elementwise=True is for real numbers; {name} is {dtype}")
            if shape != out:
                raise ExternalError(
                    f"elementwise=True: {point.name} takes {name} of shape {list(shape)} but "
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


def verify_elementwise(point: Point, steps: Steps) -> None:
    """Perturb some elements; the others must not change."""
    same_shapes(point)
    far = max(1e-3, steps.noise ** (1 / 3))  # well beyond what noise may change
    first, _ = steps.both_sides(far * steps.scale)
    for k, name in enumerate(point.inputs.names):
        part = point.inputs.part(k)
        for mask in _masks(point.inputs.sizes[k]):
            x = point.x.copy()
            x[part] = np.where(mask, first[part], x[part])
            where = functools.partial("{} with some elements moved".format, name)
            (value,) = point.values([(x, where)], 1)
            _untouched(point, value, mask, name, 8 * steps.noise)


def _untouched(point: Point, value: Any, mask: Any, name: str, noise: float) -> None:
    for o, output in enumerate(point.outputs.names):
        out = point.outputs.part(o)
        before, after = point.y[out], value[out]
        same = np.abs(after - before) <= noise * np.abs(before)
        same |= np.isnan(before) & np.isnan(after)
        wrong = ~mask & ~same & (after != before)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ExternalError(
                f"elementwise=True, but {point.name} is not elementwise: "
                f"{point.outputs.label(point.outputs.offsets[o] + i)} changed from "
                f"{before[i]:.6g} to {after[i]:.6g} though only other elements of {name} did; "
                f"{output} depends on its neighbours. fix: omit elementwise=, or give "
                "sparsity="
            )
