"""Whether two values are close, and the text that says how far apart they are."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from adjoint import _core
from adjoint._core import Tensor


def numbers_differ(
    actual: Any, expected: Any, rtol: float, atol: float, equal_nan: bool
) -> str | None:
    """None, or the message for two Python numbers."""
    if actual == expected or (equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
        return None
    difference = abs(actual - expected)
    if cmath.isfinite(expected) and difference <= atol + rtol * abs(expected):
        return None
    relative = difference / abs(expected) if expected != 0 else math.inf
    return _scalar_message(actual, expected, difference, relative, rtol, atol)


def _scalar_message(
    actual: Any, expected: Any, difference: Any, relative: Any, rtol: float, atol: float
) -> str:
    exact = rtol == 0 and atol == 0
    return (
        f"Scalars are not {'equal' if exact else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{_allowed(atol, exact)}\n"
        f"Relative difference: {relative}{_allowed(rtol, exact)}"
    )


def _allowed(bound: float, exact: bool) -> str:
    return "" if exact else f" (up to {bound} allowed)"


def tensors_differ(
    actual: Tensor, expected: Tensor, rtol: float, atol: float, equal_nan: bool
) -> str | None:
    """None, or the message for two tensors of one shape."""
    dtype = _core.promote_types(actual.dtype, expected.dtype)
    if not (dtype.is_floating_point or dtype.is_complex):
        dtype = _core.int64  # so that differences of unsigned integers and bool are numbers
    a, b = actual.to(dtype), expected.to(dtype)
    near = _core.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(near.all()):
        return None
    difference, relative = _differences(a, b)
    if a.ndim == 0:
        return _scalar_message(
            actual.item(), expected.item(), difference.item(), relative.item(), rtol, atol
        )
    exact = rtol == 0 and atol == 0
    wrong, count = int((~near).sum()), near.numel()
    lines = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!\n",
        f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})",
    ]
    matched = near.numpy()
    for what, values, bound in (("absolute", difference, atol), ("relative", relative, rtol)):
        largest, index = _largest(values, matched)
        lines.append(
            f"Greatest {what} difference: {largest} at index {index}{_allowed(bound, exact)}"
        )
    return "\n".join(lines)


def _differences(a: Tensor, b: Tensor) -> tuple[Any, Any]:
    """Absolute and relative, in the dtype of the values as PyTorch shows them.

    Integers far apart would wrap around: those are subtracted as Python integers.
    """
    if a.dtype == _core.int64:
        x, y = a.numpy(), b.numpy()
        if max(_reach(x), _reach(y)) >= 2**62:
            apart = np.asarray(np.abs(x.astype(object) - y.astype(object)), object)
            size = np.abs(y.astype(np.float64))
            with np.errstate(divide="ignore", invalid="ignore"):
                return apart, np.asarray(apart.astype(np.float64) / size)
    difference = (a - b).abs()
    return _plain(difference), _plain(difference / b.abs())


def _reach(values: Any) -> int:
    return max(int(values.max(initial=0)), -int(values.min(initial=0)))


def _plain(values: Tensor) -> Any:
    """As an array; NumPy has no bfloat16, and float32 holds its values exactly."""
    return (values.float() if values.dtype == _core.bfloat16 else values).numpy()


def _largest(values: Any, matched: Any) -> tuple[Any, tuple[int, ...]]:
    """The largest value among elements that differ (NaN before all), and its index."""
    ranked = np.where(matched, -1, values)
    nan = np.array([v != v for v in ranked.flat])
    flat = int(np.argmax(nan)) if nan.any() else int(np.argmax(ranked))
    index = tuple(int(k) for k in np.unravel_index(flat, ranked.shape))
    value = values[index]
    return (value.item() if isinstance(value, np.generic) else value), index
