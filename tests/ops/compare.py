"""Comparing a result with its reference, in units in the last place of the result's dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.spec import Array, carrier, dtype_name, round_to, to_numpy

EPSILON = {
    "float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52,
    "complex64": 2.0**-23, "complex128": 2.0**-52,
}  # fmt: skip
SMALLEST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}


def spacing(magnitude: Array, dtype: str) -> Array:
    """The distance between neighbouring numbers of `dtype` at `magnitude`."""
    _, exponent = np.frexp(magnitude)
    least = SMALLEST[{"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)]
    return np.asarray(np.maximum(np.ldexp(EPSILON[dtype], exponent - 1), least))


def assert_close(tensor: Any, reference: Any, ulps: float, scale: float, label: str) -> None:
    """The tensor is within `ulps` of the reference; zero means equal to it, correctly rounded.

    `scale` is the magnitude of the terms that cancel in the result: below it the error is absolute.
    """
    dtype, got, reference = dtype_name(tensor), to_numpy(tensor), np.asarray(reference)
    assert got.shape == reference.shape, f"{label}: shape {got.shape}, not {reference.shape}"
    if dtype not in EPSILON:
        np.testing.assert_array_equal(got, reference.astype(carrier(dtype)), label)
        return
    if ulps == 0:
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(got, round_to(reference, dtype), label)
        return
    with np.errstate(all="ignore"):  # special values and overflow are compared just below
        rounded = round_to(reference, dtype)
        settled = ~np.isfinite(rounded) | (reference == 0)
        np.testing.assert_array_equal(got[settled], rounded[settled], label)
        error = np.abs(got.astype(reference.dtype) - reference)
        error = error / spacing(np.maximum(np.abs(reference), scale).astype(np.float64), dtype)
        error = np.where(settled, 0, error)
    if error.size:
        at = np.unravel_index(np.argmax(error), error.shape)
        worst = f"{label}: {got[at]} for {reference[at]}, {error[at]:.3g} ULP off, not {ulps}"
        assert error[at] <= ulps, worst


def assert_same_signs(tensor: Any, reference: Array, label: str) -> None:
    """Zeros and infinities have the sign of the reference's."""
    got = to_numpy(tensor)
    clear = (reference == 0) | np.isinf(reference)
    np.testing.assert_array_equal(np.signbit(got)[clear], np.signbit(reference)[clear], label)
