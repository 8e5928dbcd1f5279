"""Inputs that make no sense to a solver are one clear error, of the class that SciPy raises."""

import math

import pytest

import adjoint as ad
from adjoint import integrate, interpolate, optimize, signal

NAN = math.nan
EMPTY = ad.zeros(0, dtype=ad.float64)


def row(*values):
    return ad.tensor(values, dtype=ad.float64)


def squares(x):
    return (x * x).sum()


CASES = {
    "root of nothing": (lambda: optimize.root(lambda x: None, row(1)), TypeError, "is None"),
    "root of a text": (lambda: optimize.root(lambda x: x, "ab"), TypeError, "x0 is 'ab'"),
    "root of a number": (lambda: optimize.root(3, row(1)), TypeError, "expected a function"),
    "crossed bounds": (
        lambda: optimize.minimize(squares, row(1, 2), bounds=[(0, 3), (1, 0)]),
        ValueError,
        r"upper bound is less .*\(1, 0\) of unknown 1",
    ),
    "a bound is NaN": (
        lambda: optimize.minimize(squares, row(1), bounds=[(NAN, 1)]),
        ValueError,
        "NaN",
    ),
    "no residuals": (
        lambda: optimize.least_squares(lambda x: None, row(1)),
        TypeError,
        "gives None",
    ),
    "xdata is a dict": (
        lambda: optimize.curve_fit(lambda t, p: p * t, {"a": row(1)}, row(1)),
        TypeError,
        "xdata must be a tensor",
    ),
    "no data": (
        lambda: optimize.curve_fit(lambda t, p: p * t, EMPTY, EMPTY),
        ValueError,
        "not be empty",
    ),
    "as many data": (
        lambda: optimize.curve_fit(lambda t, p: p * t, row(1, 2, 3), row(1, 2)),
        ValueError,
        r"\[3\] numbers where ydata has \[2\]",
    ),
    "NaN in least squares": (
        lambda: optimize.nnls(row(1, NAN)[:, None], row(1, 2)),
        ValueError,
        "NaNs",
    ),
    "one time": (
        lambda: integrate.solve_ivp(lambda t, y: y, 1.0, row(1)),
        ValueError,
        r"\(t0, t1\), got 1.0",
    ),
    "no slope": (
        lambda: integrate.solve_ivp(lambda t, y: None, (0, 1), row(1)),
        TypeError,
        "slope is None",
    ),
    "a dict to integrate": (
        lambda: integrate.quad(lambda t: {"a": t}, 0, 1),
        TypeError,
        "got dict",
    ),
    "complex to integrate": (
        lambda: integrate.quad(lambda t: ad.exp(1j * t), 0, 1),
        TypeError,
        "real and imag",
    ),
    "a limit is NaN": (lambda: integrate.quad(ad.sin, 0, NAN), ValueError, "limit is NaN"),
    "nodes in a dict": (
        lambda: interpolate.CubicSpline({"a": 1}, row(1, 2)),
        TypeError,
        "got dict",
    ),
    "values in a dict": (
        lambda: interpolate.CubicSpline(row(1, 2), {"a": 1}),
        TypeError,
        "got dict",
    ),
    "complex nodes": (
        lambda: interpolate.CubicSpline(row(1, 2) + 1j, row(1, 2)),
        ValueError,
        "real",
    ),
    "beside a grid of one axis": (
        lambda: interpolate.RegularGridInterpolator((row(1, 2),), row(1, 2))(row(3)),
        ValueError,
        r"\[3.0\] lies outside",
    ),
    "a dict as a signal": (lambda: signal.convolve({}, row(1)), TypeError, "got dict"),
    "a filter without a first coefficient": (
        lambda: signal.lfilter(row(1), row(0, 1), row(1, 2)),
        ValueError,
        r"a\[0\]",
    ),
    "NaN in a band": (
        lambda: ad.linalg.solve_banded((0, 0), row(1, NAN)[None], row(1, 2)),
        ValueError,
        "ab must not contain infs or NaNs",
    ),
    "NaN beside half a band": (
        lambda: ad.linalg.solveh_banded(row(1, 2)[None], row(1, math.inf)),
        ValueError,
        "b must not contain infs or NaNs",
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_it_is_refused_with_words(name):
    call, kind, text = CASES[name]
    with pytest.raises(kind, match=text):
        call()


def test_bands_let_numbers_through_that_are_not_checked():
    ab, b = row(1, NAN)[None], row(1, 2)
    found = ad.linalg.solve_banded((0, 0), ab, b, check_finite=False)
    assert found[0] == 1 and bool(ad.isnan(found[1]))


def test_residuals_may_have_any_structure():
    fit = optimize.least_squares(lambda x: {"a": x - 1, "b": [x**2 - 1, (x - 1) ** 3]}, row(3))
    ad.testing.assert_close(fit.x, row(1))
