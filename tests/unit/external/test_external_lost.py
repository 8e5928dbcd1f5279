"""Derivatives that are lost in the rounding of the function's values are warned of."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad


def sines(seed: int, dtype: Any, constant: float) -> Any:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    x, A = rng.normal(size=n).astype(dtype), rng.normal(size=(n, n)).astype(dtype)
    return (lambda v: np.sin(A @ v) + dtype(constant)), x, A


@pytest.mark.parametrize(
    ("dtype", "constant"), [(np.float32, 1e5), (np.float32, 1e6), (np.float64, 1e14)]
)
@pytest.mark.parametrize("mode", ["rows", "tangent"])
def test_what_a_large_constant_hides_is_told(dtype, constant, mode):
    for seed in range(30):
        function, x, A = sines(seed, dtype, constant)
        f, v, wanted = ad.external(function), np.ones_like(x), np.cos(A @ x)[:, None] * A
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            if mode == "rows":
                found = ad.func.jacrev(f)(ad.tensor(x)).numpy()
            else:
                found = ad.func.jvp(f, (ad.tensor(x),), (ad.tensor(v),))[1].numpy()
                wanted = wanted @ v
        # A slope may be small because the sine is near its top: the largest that there are count.
        off = np.abs(found - wanted).max() / np.abs(A).max()
        assert seen or off < 0.5 or not found.any()


@pytest.mark.parametrize(("dtype", "constant"), [(np.float32, 1e3), (np.float64, 1e10)])
def test_what_is_seen_well_enough_is_not(dtype, constant):
    for seed in range(30):
        function, x, A = sines(seed, dtype, constant)
        wanted = np.cos(A @ x)[:, None] * A
        found = ad.func.jacrev(ad.external(function))(ad.tensor(x)).numpy()
        assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


def test_an_element_that_hardly_moves_beside_others_is_no_loss():
    f, x = ad.external(np.tanh), ad.tensor(np.float32([0.3, 1.0, 7.0, 30.0]))
    found = ad.func.jacrev(f)(x).numpy()
    np.testing.assert_allclose(found, np.diag(1 / np.cosh(x.numpy()) ** 2), atol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constant", [1.0, 100.0])
def test_a_slope_that_is_small_next_to_a_minimum_is_no_loss(dtype, constant):
    f = ad.external(lambda x: ((x - 1) ** 2).sum() + dtype(constant))
    for distance in 10.0 ** np.arange(-14, 0):
        x = ad.tensor(np.array([1 + distance, 1 - distance, 1], dtype))
        found = ad.func.grad(f)(x).numpy()
        ad.func.jvp(f, (x,), (ad.ones_like(x),))
        assert np.abs(found - 2 * (x.numpy() - 1)).max() < 3e-3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", [-1e-3, -2e-4, -1e-4, 1e-4, 2e-4, 1e-3])
def test_a_kink_that_looks_like_noise_is_stepped_around(dtype, distance):
    x = np.array([1.3], dtype)
    place = float(x[0]) * (1 + distance)
    f = ad.external(lambda v: np.sin(v) * (1 + 0.5 * np.maximum(v - dtype(place), 0)))
    found = ad.func.grad(lambda v: f(v).sum())(ad.tensor(x)).item()
    at = float(x[0])
    wanted = np.cos(at) * (1 + 0.5 * max(at - place, 0)) + 0.5 * np.sin(at) * (at > place)
    assert abs(found - wanted) < 1e-2


def test_an_input_that_hardly_matters_beside_others_is_no_loss():
    f = ad.external(lambda v: np.sin(v[:1]) + 1e-12 * v[1:])
    x = ad.tensor(np.array([0.5, 1.3]))
    found = ad.func.jacfwd(f)(x).numpy()
    np.testing.assert_allclose(found, [[np.cos(0.5), 1e-12]], atol=1e-9)
