"""Derivatives by central differences in float64: a judge that knows nothing of graphs.

For a function f and a cotangent c, the vector-Jacobian product is the gradient of L = Re⟨c, f(x)⟩,
and L is a number: it is differenced one real component of x at a time. A complex component has two,
and its gradient is ∂L/∂(real part) + i ∂L/∂(imaginary part), which is PyTorch's convention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Loss = Callable[[Sequence[Array]], float]

# The step balances truncation (h² f'''/6) and rounding (ε|f|/h): h = ε^⅓, and an error of about ε^⅔
# times the scale of f and its third derivative. Those reach some hundreds for the samples, hence
# the tolerance.
STEP = float(np.finfo(np.float64).eps ** (1 / 3))
RTOL, ATOL = 1e-6, 2e-7


def inner(cotangents: Sequence[Array], values: Sequence[Array]) -> float:
    """Re⟨c, v⟩, summed over several outputs."""
    pairs = zip(cotangents, values, strict=True)
    return float(sum(np.sum((np.conj(c) * v).real) for c, v in pairs))


def gradient(loss: Loss, inputs: Sequence[Array], which: int) -> Array:
    """The gradient of `loss` with respect to `inputs[which]`."""
    x = inputs[which]
    result: Any = np.zeros(x.shape, x.dtype)
    units = (1.0, 1j) if np.iscomplexobj(x) else (1.0,)
    for at in np.ndindex(x.shape):
        for unit in units:
            h = STEP * max(1.0, float(abs(x[at])))
            result[at] += (
                unit
                * (
                    _moved(loss, inputs, which, at, unit * h)
                    - _moved(loss, inputs, which, at, -unit * h)
                )
                / (2 * h)
            )
    return result


def _moved(loss: Loss, inputs: Sequence[Array], which: int, at: tuple[int, ...], by: Any) -> float:
    changed = [a.copy() for a in inputs]
    changed[which][at] += by
    return loss(changed)


def assert_gradient(
    got: Array, loss: Loss, inputs: Sequence[Array], which: int, label: str
) -> None:
    """`got` is the gradient of `loss` for `inputs[which]`, as far as differences can tell."""
    want = gradient(loss, inputs, which)
    assert got.shape == want.shape, f"{label}: gradient of shape {got.shape} for {want.shape}"
    np.testing.assert_allclose(got, want, RTOL, ATOL, err_msg=label)
