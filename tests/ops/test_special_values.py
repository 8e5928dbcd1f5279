"""Pointwise ops at NaN, infinities, signed zeros, denormals and huge arguments, in float32 and
float64.

The references keep C99's conventions, as NumPy and SciPy do.
"""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from tests.ops.compare import assert_close, assert_same_signs
from tests.ops.references import REFERENCES, wide
from tests.ops.samples import OPS
from tests.ops.spec import Op, round_to

INF, NAN = float("inf"), float("nan")
COMMON = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e-3, 88.0, -88.0, 1e5, -1e5]
EDGES = {
    "float32": [
        1e-45,
        -1e-45,
        1.1754944e-38,
        3.4028235e38,
        -3.4028235e38,
        88.8,
        -103.0,
        16777216.0,
    ],
    "float64": [
        5e-324,
        -5e-324,
        2.2250738585072014e-308,
        1.7976931348623157e308,
        709.7,
        -745.0,
        1e22,
    ],
}
UNARY = [
    n for n, op in OPS.items() if op.pointwise and "f" in op.dtypes and len(op.samples[0].args) == 1
]
BINARY = [
    n for n, op in OPS.items() if op.pointwise and "f" in op.dtypes and len(op.samples[0].args) == 2
]
# Their poles and huge arguments are answered by convention or to absolute accuracy only; the torch
# comparison in tests/conformance covers what is promised of them.
# The phase of sinc is lost where pi * x is rounded to a multiple of more than pi.
LOOSE = {"lgamma", "digamma", "gelu", "silu", "mish", "logit", "clamp", "nan_to_num", "sinc"}
# Which zero they return is nobody's promise.
EITHER_ZERO = {
    *("relu", "minimum", "maximum", "fmin", "fmax", "clamp_min", "clamp_max"),
    *("remainder", "erfinv", "logaddexp"),
}
# Quotients of extremes overflow on the way to the whole part; compared on moderate values instead.
MODERATE = {"div_rounded", "floor_divide", "remainder", "fmod"}


def check(op: Op, dtype: str, *arrays: np.ndarray) -> None:
    got = op.function(ad)(*(ad.from_numpy(a.copy()) for a in arrays))
    with np.errstate(all="ignore"):
        want = REFERENCES[op.name](*(wide(a) for a in arrays))
        rounded = round_to(want, dtype) if want.dtype.kind == "f" else want
    label = f"{op.name} in {dtype}"
    # Denormal results have fewer digits: an ULP there is the smallest number, and one more is
    # allowed.
    assert_close(got, want, op.ulps + (1 if op.ulps else 0), op.cancelling, label)
    if want.dtype.kind == "f" and op.name not in EITHER_ZERO:
        assert_same_signs(got, rounded, label)


@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize("name", [n for n in UNARY if n not in LOOSE])
def test_functions_of_special_values(name: str, dtype: str) -> None:
    values = np.array(COMMON + EDGES[dtype], dtype)
    check(OPS[name], dtype, values)
    check(
        OPS[name], dtype, np.resize(values, 3 * values.size + 1)
    )  # in vector registers, and the tail


@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize("name", [n for n in UNARY if n != "clamp"])  # limits are not optional
def test_no_element_depends_on_its_neighbours(name: str, dtype: str) -> None:
    """A vector that holds an extreme number takes another way: the others keep their bits."""
    f = OPS[name].function(ad)
    plain = np.random.default_rng(0).uniform(0.01, 0.99, 64).astype(dtype)

    def both(values: np.ndarray) -> tuple[ad.Tensor, ...]:
        x = ad.from_numpy(values.copy()).requires_grad_()
        y = f(x)
        if not y.requires_grad:
            return (y,)
        return y.detach(), ad.autograd.grad(y.sum(), x)[0]

    wanted = both(plain)
    for extreme in COMMON + EDGES[dtype]:
        mixed = plain.copy()
        mixed[::9] = extreme
        for got, want in zip(both(mixed), wanted, strict=True):
            kept = np.arange(64) % 9 != 0
            np.testing.assert_array_equal(
                got.numpy()[kept], want.numpy()[kept], f"{name} beside {extreme}"
            )


@pytest.mark.parametrize("dtype", EDGES)
@pytest.mark.parametrize("name", [n for n in BINARY if n not in MODERATE])
def test_pairs_of_special_values(name: str, dtype: str) -> None:
    values = np.array(COMMON + EDGES[dtype], dtype)
    left, right = (np.ascontiguousarray(a) for a in np.meshgrid(values, values))
    check(OPS[name], dtype, left, right)


@pytest.mark.parametrize("name", sorted(MODERATE - {"div_rounded"}))
def test_remainders_of_special_values(name: str) -> None:
    values = np.array([NAN, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 7.0, -7.0, 1e3, -1e3])
    left, right = (np.ascontiguousarray(a) for a in np.meshgrid(values, values))
    check(OPS[name], "float64", left, right)


@pytest.mark.parametrize("op", ["floor_divide", "remainder", "fmod"])
def test_integer_division_by_zero_raises(op: str) -> None:
    with pytest.raises(RuntimeError, match=r"(?i)zero"):
        getattr(ad, op)(ad.tensor([1, 2]), ad.tensor([1, 0]))


def test_the_smallest_integer_survives_division_by_minus_one() -> None:
    """The quotient does not fit: it wraps, and must not trap."""
    least = ad.tensor([-(2**31)], dtype=ad.int32)
    minus = ad.tensor([-1], dtype=ad.int32)
    assert ad.remainder(least, minus).item() == 0
    assert ad.fmod(least, minus).item() == 0


def test_nan_to_num_uses_the_limits_of_the_dtype() -> None:
    for dtype, most in ((ad.float32, 3.4028234663852886e38), (ad.float16, 65504.0)):
        x = ad.tensor([NAN, INF, -INF, 1.0], dtype=dtype)
        assert ad.nan_to_num(x).tolist() == [0.0, most, -most, 1.0]
        assert ad.nan_to_num(x, nan=2.0, posinf=3.0, neginf=4.0).tolist() == [2.0, 3.0, 4.0, 1.0]


def test_clamp_keeps_nan_and_lets_the_upper_bound_win() -> None:
    x = ad.tensor([NAN, 5.0, -5.0])
    assert np.isnan(ad.clamp(x, -1, 1)[0].item())
    assert ad.clamp(x, 2, 1)[1:].tolist() == [1.0, 1.0]


def test_softmax_of_huge_and_infinite_values() -> None:
    assert ad.softmax(ad.tensor([1e30, 1e30, -1e30]), 0).tolist() == [0.5, 0.5, 0.0]
    assert ad.softmax(ad.tensor([0.0, -INF]), 0).tolist() == [1.0, 0.0]
    assert ad.logsumexp(ad.tensor([-INF, -INF]), 0).item() == -INF
    assert ad.logsumexp(ad.tensor([INF, 1.0]), 0).item() == INF
    assert ad.logsumexp(ad.tensor([1e30, 1e30]), 0).item() == pytest.approx(1e30)


def test_maximum_passes_nan_on_and_fmax_drops_it() -> None:
    x, y = ad.tensor([NAN, 1.0]), ad.tensor([1.0, NAN])
    assert ad.maximum(x, y).isnan().all()
    assert ad.fmax(x, y).tolist() == [1.0, 1.0]
    assert ad.max(x).isnan() and ad.amax(x).isnan() and ad.argmax(x).item() == 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_gradient_of_a_divisor_is_that_of_two_quotients(dtype: str) -> None:
    """It is computed with one division, which must neither overflow nor lose a small divisor."""
    values = np.array([*COMMON, *EDGES[dtype]], dtype)
    x, y, g = (a.ravel() for a in np.meshgrid(values, values, values))
    divisor = ad.from_numpy(y.copy()).requires_grad_()
    (got,) = ad.autograd.grad(ad.from_numpy(x) / divisor, divisor, ad.from_numpy(g))
    with np.errstate(all="ignore"):
        want = -g * (x / y / y)
    np.testing.assert_allclose(got.numpy(), want, rtol=4 * np.finfo(dtype).eps)
