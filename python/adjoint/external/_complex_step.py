"""Complex steps: f'(x) = Im f(x + ih) / h, without a difference and so without rounding error.

Only for functions that are analytic and compute with complex numbers throughout. One that drops
the imaginary part is refused; one that mangles it (abs, a conjugate, a comparison) is found by
comparing one direction with central differences. Read next: _methods.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._differences import directional
from ._errors import EvaluationError, ExternalError
from ._evaluate import Point
from ._jacobian import Dense
from ._outputs import plain_leaves
from ._problem import Problem
from ._steps import Steps

__all__ = ["complex_step", "verify_analytic"]

_H = 1e-20  # no difference is taken, so nothing is lost by a step far below the rounding error


def complex_step(problem: Problem, steps: Steps) -> Dense:
    """One complex evaluation per input; exact to rounding."""
    _refuse_complex_inputs(problem)
    n = problem.inputs.size
    h = _H * np.maximum(steps.scale, 1e-10)
    matrix = np.empty((problem.outputs.size, n))

    def points() -> Iterator[Point]:
        for i in range(n):
            args, kwargs = problem.at_coordinate(i, complex(problem.x[i], h[i]))
            yield args, kwargs, lambda i=i: f"{problem.inputs.label(i)} + {h[i]:.3g}j"  # type: ignore[misc]

    stream = problem.evaluator.many(points(), n, "c")
    with contextlib.closing(stream):
        try:
            for i, raw in enumerate(stream):
                matrix[:, i] = _imaginary(problem, raw) / h[i]
        except EvaluationError as error:
            _refuse(problem, error)
    return Dense(matrix)


def _refuse_complex_inputs(problem: Problem) -> None:
    for name, dtype in zip(problem.inputs.names, problem.inputs.dtypes, strict=True):
        if dtype.kind == "c":
            raise TypeError(
                f"derivative='complex-step' needs real inputs, {name} of {problem.name} is {dtype}"
            )


def _imaginary(problem: Problem, raw: Any) -> Any:
    leaves, spec = plain_leaves(raw)
    form = problem.form
    if spec != form.spec:
        raise ExternalError(f"{problem.name} returned a result of another form for complex inputs")
    names = form.names()
    parts = []
    for k in form.differentiable:
        array = np.asarray(leaves[k])
        if array.dtype.kind != "c":
            raise ExternalError(
                f"derivative='complex-step' is refused: {problem.name} returned {names[k]} of "
                f"dtype {array.dtype} for a complex input, so it drops the imaginary part, "
                f"which carries the derivative.\n{_FIX}"
            )
        if array.shape != form.leaves[k].shape:
            raise ExternalError(
                f"{problem.name} returned {names[k]} of shape {list(array.shape)} for a complex "
                f"input, of shape {list(form.leaves[k].shape)} for a real one"
            )
        parts.append(array.imag.reshape(-1))
    return np.concatenate(parts) if parts else np.zeros(0)


_FIX = (
    "  fix: derivative='central', or compute with complex numbers throughout "
    "(no float(), no .real, no astype(float), no arrays made as floats)"
)


def _refuse(problem: Problem, error: EvaluationError) -> None:
    cause = error.__cause__
    lost = isinstance(cause, np.exceptions.ComplexWarning)
    if lost or (isinstance(cause, (TypeError, ValueError)) and "complex" in str(cause)):
        raise ExternalError(
            f"derivative='complex-step' is refused: {problem.name} drops the imaginary part, which "
            f"carries the derivative ({type(cause).__name__}: {cause}).\n{_FIX}"
        ) from cause
    raise error


def verify_analytic(problem: Problem, steps: Steps, found: Dense, rng: Any) -> None:
    """Compare the Jacobian along one direction with central differences."""
    steps = steps.by_rule()  # a step that was given may be too long for this
    v = rng.choice([-1.0, 1.0], problem.inputs.size) * steps.scale
    ours, theirs = found.push(v), directional(problem, steps, v)
    size = np.abs(found.dense()) @ np.abs(v) + np.abs(problem.y) + np.abs(theirs)
    wrong = np.abs(ours - theirs) > 100 * steps.noise**0.5 * size
    if wrong.any():
        # The steps may be too long for a steep function. Then shorter ones come closer, which they
        # do not where the two disagree.
        steps.relative = np.full(problem.inputs.size, steps.noise ** (1 / 3) / 8)
        shorter = directional(problem, steps, v)
        wrong &= ~(np.abs(ours - shorter) < np.abs(ours - theirs) / 4)
    if wrong.any() and steps.noise < 1e-14:
        # Or too long by far, for a fast wave.
        steps.relative = np.full(problem.inputs.size, 1e-9)
        wrong &= np.abs(ours - directional(problem, steps, v)) > 1e-5 * size
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ExternalError(
            f"derivative='complex-step' is refused: along one direction it gives {ours[k]:.6g} for "
            f"{problem.outputs.label(k)} of {problem.name}, central differences give "
            f"{theirs[k]:.6g}. The function is not analytic: abs(), conj(), .real, a norm or a "
            f"comparison treats the imaginary part in another way.\n{_FIX}"
        )
