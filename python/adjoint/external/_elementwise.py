"""Functions that act on every element alone: one pair of evaluations for the whole array.

That the function really is elementwise is verified at the first call: elements that were not
perturbed must not change. Read next: _methods.py.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ._errors import ExternalError
from ._jacobian import Diagonal
from ._problem import Problem
from ._steps import Steps, slope

__all__ = ["elementwise", "verify_elementwise"]

_ALL_PAIRS = 64  # up to so many elements every pair of elements is tested


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
        wa, wb, w0 = slope(x, first[part], second[part])
        for o, row in enumerate(blocks):
            out = problem.outputs.part(o)
            y = problem.y[out]
            if not w0.any():
                row.append(wa * (a[out] - b[out]))
            else:
                centred = wa * (a[out] - b[out])
                row.append(np.where(w0 == 0, centred, wa * (a[out] - y) + wb * (b[out] - y)))
    next(values, None)  # lets the evaluations finish
    return Diagonal(blocks, problem.inputs, problem.outputs)


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


def _masks(n: int, rng: Any) -> list[Any]:
    """Sets of elements to perturb, such that every pair (or a random half) is told apart."""
    if n <= _ALL_PAIRS:
        bits = [(np.arange(n) >> b) & 1 == 1 for b in range(max(n - 1, 0).bit_length())]
    else:
        bits = [rng.random(n) < 0.5]
    return [mask for bit in bits for mask in (bit, ~bit)]


def verify_elementwise(problem: Problem, steps: Steps, rng: Any) -> None:
    """Perturb some elements; the others must not change."""
    _same_shapes(problem)
    first, _ = steps.both_sides(1e-3 * steps.scale)
    for k, name in enumerate(problem.inputs.names):
        part = problem.inputs.part(k)
        for mask in _masks(problem.inputs.sizes[k], rng):
            x = problem.x.copy()
            x[part] = np.where(mask, first[part], x[part])
            point = problem.moved_all(
                x, functools.partial("{} with some elements moved".format, name)
            )
            (value,) = problem.values([point], 1)
            _untouched(problem, value, mask, name)


def _untouched(problem: Problem, value: Any, mask: Any, name: str) -> None:
    for o, output in enumerate(problem.outputs.names):
        out = problem.outputs.part(o)
        before, after = problem.y[out], value[out]
        same = np.abs(after - before) <= 8 * problem.epsilon() * np.abs(before)
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
