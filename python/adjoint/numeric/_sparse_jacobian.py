"""Sparse Jacobians: inputs that share no output are perturbed together.

Columns of the pattern are coloured (`adjoint._colouring`); each colour costs what one input costs.
That the pattern misses nothing is verified at each Jacobian (_verification.py). Read
next: _plan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint._colouring import Pattern

from ._jacobians import Sparse
from ._point import Move, Point
from ._steps import Steps
from ._tiny_elements import agreement, attempts, lost, tiny_in_tiny, warn, widened

if TYPE_CHECKING:
    from ._bends import Bends
    from ._method import Stencil

__all__ = [
    "ColouredPattern",
    "ElementPattern",
    "SamplePattern",
    "coloured",
    "restricted",
    "row_colours",
]


class ColouredPattern:
    """The entries that may be nonzero, and a colour for each column."""

    def __init__(self, given: Any, shape: tuple[int, int], name: str) -> None:
        pattern = Pattern.of(given)
        if pattern.shape != shape:
            raise ValueError(
                f"sparsity= has shape {list(pattern.shape)}; the Jacobian of {name} has "
                f"{list(shape)} (coordinates of the outputs by those of the inputs)"
            )
        self.rows, self.columns, self.shape = pattern.rows, pattern.columns, shape
        self.colours = pattern.column_colours
        self.count = int(self.colours.max(initial=-1)) + 1


class SamplePattern:
    """That of a batch of samples: no output depends on an input of another sample.

    Coordinates of one place in their samples are one colour, whatever the number of samples.
    """

    def __init__(self, point: Point, count: int) -> None:
        inputs, outputs = point.inputs, point.outputs
        places, starts = [], np.cumsum([0, *(size // count for size in inputs.sizes)])
        for start, size in zip(starts, inputs.sizes, strict=False):
            places.append(start + np.arange(size) % (size // count))
        self.colours = np.concatenate(places)
        self.count = int(starts[-1])
        rows = np.concatenate([np.arange(s) // (s // count) for s in outputs.sizes])
        columns = np.concatenate([np.arange(s) // (s // count) for s in inputs.sizes])
        by_row, by_column = np.argsort(rows, kind="stable"), np.argsort(columns, kind="stable")
        m, n = outputs.size // count, inputs.size // count
        self.rows = np.repeat(by_row.reshape(count, m), n, axis=1).reshape(-1)
        self.columns = np.tile(by_column.reshape(count, n), (1, m)).reshape(-1)
        self.shape = (outputs.size, inputs.size)


class ElementPattern:
    """That of an elementwise function: the elements of an array are one colour."""

    def __init__(self, point: Point) -> None:
        inputs, outputs = point.inputs, point.outputs
        arrays = range(len(inputs.shapes))
        self.colours = np.concatenate([np.full(inputs.sizes[k], k) for k in arrays])
        self.count = len(arrays)
        places = [(np.arange(size), k) for size in outputs.sizes for k in arrays]
        starts = [start for start in outputs.offsets[: len(outputs.shapes)] for _ in arrays]
        self.rows = np.concatenate([s + at for s, (at, _) in zip(starts, places, strict=True)])
        self.columns = np.concatenate([inputs.offsets[k] + at for at, k in places])
        self.shape = (outputs.size, inputs.size)


AnyPattern = ColouredPattern | SamplePattern | ElementPattern


def row_colours(pattern: AnyPattern) -> tuple[Any, int]:
    """A colour for each row, and how many there are: rows of one colour share no column."""
    order = np.lexsort((pattern.rows, pattern.columns))
    counts = np.bincount(pattern.columns, minlength=pattern.shape[1])
    start = np.concatenate([[0], np.cumsum(counts)])
    turned = Pattern(start, pattern.rows[order], pattern.shape[::-1])
    colours = turned.column_colours
    return colours, int(colours.max(initial=-1)) + 1


def restricted(given: Any, sizes: Sequence[int], wanted: Sequence[int]) -> Any:
    """The columns of the ``wanted`` inputs, of a pattern for inputs of ``sizes``.

    A pattern with another number of columns is returned as it is.
    """
    matrix = given if hasattr(given, "tocsr") else np.asarray(given)
    if len(wanted) == len(sizes) or len(matrix.shape) != 2 or matrix.shape[1] != sum(sizes):
        return given
    ends = np.cumsum(sizes)
    columns = np.concatenate([np.arange(ends[k] - sizes[k], ends[k]) for k in wanted])
    return (matrix.tocsr() if hasattr(matrix, "tocsr") else matrix)[:, columns]


def coloured(
    stencil: Stencil, point: Point, steps: Steps, pattern: AnyPattern, bends: Bends | None = None
) -> Sparse:
    """What one input costs for each colour; again for those with lost entries."""
    ends = stencil.ends(steps)
    moves = np.ones(point.inputs.size, bool)
    make = _move(point, pattern, ends, range(pattern.count), moves)
    total = len(ends) * pattern.count
    found = point.values((make(k) for k in range(total)), total)
    values = _entries(stencil, point, pattern, ends, range(pattern.count), found, bends)
    width = stencil.width([end - point.x for end in ends])
    _recover(stencil, point, steps, pattern, values, width)
    return Sparse(pattern.rows, pattern.columns, values, pattern.shape)


def _move(
    point: Point, pattern: AnyPattern, ends: Any, colours: Any, moves: Any
) -> Callable[[int], Move]:
    """The k-th move: the inputs of a colour go to one end, those of them that ``moves``."""

    def make(k: int) -> Move:
        chosen = (pattern.colours == colours[k // len(ends)]) & moves
        label = point.inputs.label(int(np.argmax(chosen)))
        moved = np.where(chosen, ends[k % len(ends)], point.x)
        return moved, lambda: f"{label} and others of its colour"

    return make


def _entries(
    stencil: Stencil,
    point: Point,
    pattern: AnyPattern,
    ends: Any,
    colours: Any,
    found: Iterator[Any],
    bends: Bends | None = None,
) -> Any:
    """The entries of some colours from evaluations in order; NaN where one is None."""
    entries = pattern.colours[pattern.columns]
    values = np.full(len(pattern.rows), np.nan)
    distances = [end - point.x for end in ends]
    for colour in colours:
        here = entries == colour
        rows, columns = pattern.rows[here], pattern.columns[here]
        there = [next(found) for _ in ends]
        if any(value is None for value in there):
            continue
        with np.errstate(invalid="ignore"):
            apart, y = [d[columns] for d in distances], point.y[rows]
            there = [value[rows] for value in there]
            values[here] = stencil.combine(apart, there, y)
        if bends is not None:
            bends.note(colour, columns, apart, there, values[here], y)
    next(found, None)  # lets the evaluations finish
    return values


def _recover(
    stencil: Stencil, point: Point, steps: Steps, pattern: AnyPattern, values: Any, width: Any
) -> None:
    """Put right the entries of tiny elements that are lost in rounding (_tiny_elements.py)."""
    wide = widened(steps)
    if wide is None:
        return
    rows, columns = pattern.rows, pattern.columns
    whole = np.abs(point.y)
    np.fmax.at(whole, rows, np.abs(values) * steps.scale[columns])
    tiny = (wide.scale != steps.scale)[columns]
    bad = tiny & lost(steps, values, width[columns], whole[rows])
    seen = np.zeros(point.inputs.size, bool)
    seen[columns[~bad & point.finite[rows]]] = True
    bad &= ~(seen & tiny_in_tiny(steps, wide))[columns]
    if not bad.any():
        return
    moves = np.zeros(point.inputs.size, bool)
    moves[columns[bad]] = True
    colours = np.unique(pattern.colours[columns[bad]])
    ends = stencil.ends(wide)
    make = _move(point, pattern, ends, colours, moves)
    found = attempts(point, [make(k) for k in range(len(ends) * len(colours))])
    again = _entries(stencil, point, pattern, ends, colours, found)
    size = np.fmax(whole[rows], np.abs(again) * wide.scale[columns])
    take, unsure = agreement(values, width[columns], steps.rounding * size, again)
    followed = np.zeros(point.inputs.size, bool)
    followed[columns[values != 0]] = True
    unsure &= (values != 0) | np.isfinite(again) | ~followed[columns]  # as in `choose`
    for k in np.flatnonzero(bad & unsure)[:1]:
        i = int(columns[k])
        warn(point, i, np.arange(len(whole)) == rows[k], abs(ends[0][i] - point.x[i]))
    values[bad & take] = again[bad & take]
