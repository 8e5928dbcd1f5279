"""Next to an extremum, where value and slopes go to zero, a right derivative is not warned of."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad


def squares(c: Any) -> Any:
    return lambda x: ((x - c) ** 2).sum()


def exponentials(c: Any) -> Any:
    b = np.exp(c)
    return lambda x: ((np.exp(x) - b) ** 2).sum()


def likelihood(c: Any) -> Any:
    return lambda x: (c * np.log(x / c) - (x - c)).sum()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("make", [squares, exponentials, likelihood])
def test_the_end_of_a_fit_is_not_warned_of(make: Any, inputs: int, dtype: Any) -> None:
    c = np.array([1.0, 0.6, 1.7], dtype)[:inputs]
    function, tolerance = make(c), 1e-6 if dtype is np.float64 else 1e-3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for distance in [0.0, *10.0 ** np.arange(-15, -2)]:
            x = ad.tensor(c * dtype(1 + distance))
            found = ad.func.grad(ad.external(function))(x).numpy()
            tangent = ad.func.jvp(ad.external(function), (x,), (ad.ones_like(x),))[1].item()
            off = np.asarray(x.numpy(), float) - c
            curvature = {squares: 2.0, exponentials: 2 * np.exp(2.0 * c), likelihood: -1 / c}[make]
            # The next term counts from a distance of the tolerance on.
            allowed = tolerance * np.abs(curvature * c).max() + 4 * np.abs(curvature * off**2).max()
            assert np.abs(found - curvature * off).max() <= allowed
            assert abs(tangent - np.sum(curvature * off)) <= 3 * allowed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_input_near_zero_is_not_warned_of(dtype: Any) -> None:
    x = ad.tensor(np.array([7.7e-6, -7.7e-6] if dtype is np.float64 else [2.3e-4, -2.3e-4], dtype))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hessian = ad.func.hessian(ad.external(lambda v: (1 - np.cos(v)).sum()))(x).numpy()
    np.testing.assert_allclose(hessian, np.eye(2), atol=1e-2)


@pytest.mark.parametrize("mode", ["grad", "jvp"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "other",
    [
        lambda off: 1e-3 * (off >= 0),
        lambda off: 1e-3 * np.sign(off),
        lambda off: 1e-3 * np.sin(1e9 * (1 + off)) * (off != 0),
        np.cbrt,
    ],
    ids=["jump", "jumps on both sides", "noise", "steep"],
)
def test_what_is_no_parabola_there_is_warned_of(other: Any, dtype: Any, mode: str) -> None:
    c = np.array([1.3], dtype)
    f, x = ad.external(lambda v: ((v - c) ** 2 + other(v - c).astype(dtype)).sum()), ad.tensor(c)
    with pytest.warns(UserWarning, match="may be wrong|of their size only"):
        ad.func.grad(f)(x) if mode == "grad" else ad.func.jvp(f, (x,), (ad.ones_like(x),))


def test_what_was_seen_at_the_end_of_a_fit_is_not_believed_elsewhere() -> None:
    f = ad.external(lambda x: ((np.exp(x) - np.exp(1.0)) ** 2).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for at in (1.0, 1 + 1e-13, 2.0, 1.0, 0.3):
            found = ad.func.grad(f)(ad.tensor([at], dtype=ad.float64)).item()
            wanted = 2 * (np.exp(at) - np.exp(1.0)) * np.exp(at)
            assert found == pytest.approx(wanted, rel=1e-5, abs=1e-6)
