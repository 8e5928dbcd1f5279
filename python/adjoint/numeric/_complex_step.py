"""Complex steps: f'(x) = Im f(x + ih) / h, without a difference and so without rounding error.

Only for functions that are analytic and compute with complex numbers throughout. One that drops
the imaginary part is refused; one that mangles it (abs, a conjugate, a comparison) is found by
comparing one direction with central differences. Read next: _plan.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ._directional import directional
from ._errors import EvaluationError, ExternalError
from ._jacobians import Dense
from ._method import Method
from ._point import Move, Point
from ._steps import Steps

if TYPE_CHECKING:
    from ._plan import Plan

__all__ = ["ComplexStep"]

_H = 1e-20  # no difference is taken, so nothing is lost by a step far below the rounding error


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ComplexStep(Method, name="complex-step"):
    """Complex steps: one evaluation per input, exact to rounding.

    The function must compute with complex numbers throughout, and be analytic: one that drops the
    imaginary part, or treats it in a way of its own (``abs``, ``conj``), is refused.

    Parameters
    ----------
    scale
        The typical magnitude of the input, for values near zero; one for all inputs, or a dict by
        argument or path.
    probe
        Whether a second derivative, which is a difference, looks at the function to choose its
        step.

    Examples
    --------
    >>> import adjoint as ad
    >>> import numpy as np
    >>> f = ad.external(np.exp, derivative=ad.differences.ComplexStep())
    >>> x = ad.tensor(1.0, dtype=ad.float64, requires_grad=True)
    >>> f(x).backward()
    >>> bool(x.grad.item() == np.exp(1.0))
    True
    """

    checks = 2
    needs_complex = True

    scale: Any = None
    probe: bool = True

    def evaluations(self, inputs: int) -> int:
        """One for each input."""
        return inputs

    def error(self, noise: float) -> float:
        """No more than that of the function."""
        return noise

    def jacobian(self, point: Point, steps: Steps, plan: Plan) -> Dense:
        """One complex evaluation per input; compared with a difference the first time."""
        found = Dense(_imaginary_parts(point, _H * np.maximum(steps.scale, 1e-10)))
        names = " ".join(point.inputs.names)
        if f"analytic {names}" not in plan.verified:
            _verify_analytic(point, steps, found, plan.generator())
            plan.verified.add(f"analytic {names}")
        return found


def _imaginary_parts(point: Point, h: Any) -> Any:
    for name, dtype in zip(point.inputs.names, point.inputs.dtypes, strict=True):
        if dtype.kind == "c":
            raise TypeError(
                f"derivative='complex-step' needs real inputs, {name} of {point.name} is {dtype}"
            )
    n = point.inputs.size
    matrix = np.empty((point.outputs.size, n))

    def moves() -> Iterator[Move]:
        for i in range(n):
            yield i, complex(point.x[i], h[i])

    try:
        for i, arrays in enumerate(point.complex_values(moves(), n)):
            matrix[:, i] = _imaginary(point, arrays) / h[i]
    except EvaluationError as error:
        _refuse(point, error)
    return matrix


def _imaginary(point: Point, arrays: list[Any]) -> Any:
    parts = []
    for k, found in enumerate(arrays):
        array, name, shape = np.asarray(found), point.outputs.names[k], point.outputs.shapes[k]
        if array.dtype.kind != "c":
            raise ExternalError(
                f"derivative='complex-step' is refused: {point.name} returned {name} of "
                f"dtype {array.dtype} for a complex input, so it drops the imaginary part, "
                f"which carries the derivative.\n{_FIX}"
            )
        if array.shape != shape:
            raise ExternalError(
                f"{point.name} returned {name} of shape {list(array.shape)} for a complex "
                f"input, of shape {list(shape)} for a real one"
            )
        parts.append(array.imag.reshape(-1))
    return np.concatenate(parts) if parts else np.zeros(0)


_FIX = (
    "  fix: derivative='central', or compute with complex numbers throughout "
    "(no float(), no .real, no astype(float), no arrays made as floats)"
)


def _refuse(point: Point, error: EvaluationError) -> None:
    cause = error.__cause__
    lost = isinstance(cause, np.exceptions.ComplexWarning)
    if lost or (isinstance(cause, (TypeError, ValueError)) and "complex" in str(cause)):
        raise ExternalError(
            f"derivative='complex-step' is refused: {point.name} drops the imaginary part, which "
            f"carries the derivative ({type(cause).__name__}: {cause}).\n{_FIX}"
        ) from cause
    raise error


def _verify_analytic(point: Point, steps: Steps, found: Dense, rng: Any) -> None:
    """Compare the Jacobian along one direction with central differences."""
    steps = steps.by_rule()  # a step that was given may be too long for this
    v = rng.choice([-1.0, 1.0], point.inputs.size) * steps.scale
    ours, theirs = found.push(v), directional(point, steps, v)
    size = np.abs(found.dense()) @ np.abs(v) + np.abs(point.y) + np.abs(theirs)
    wrong = np.abs(ours - theirs) > 100 * steps.noise**0.5 * size
    if wrong.any():
        # The steps may be too long for a steep function. Then shorter ones come closer, which they
        # do not where the two disagree.
        steps.relative = np.full(point.inputs.size, steps.noise ** (1 / 3) / 8)
        shorter = directional(point, steps, v)
        wrong &= ~(np.abs(ours - shorter) < np.abs(ours - theirs) / 4)
    if wrong.any() and steps.noise < 1e-14:
        # Or too long by far, for a fast wave.
        steps.relative = np.full(point.inputs.size, 1e-9)
        wrong &= np.abs(ours - directional(point, steps, v)) > 1e-5 * size
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ExternalError(
            f"derivative='complex-step' is refused: along one direction it gives {ours[k]:.6g} for "
            f"{point.outputs.label(k)} of {point.name}, central differences give "
            f"{theirs[k]:.6g}. The function is not analytic: abs(), conj(), .real, a norm or a "
            f"comparison treats the imaginary part in another way.\n{_FIX}"
        )
