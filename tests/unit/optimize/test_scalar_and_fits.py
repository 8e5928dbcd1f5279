"""One unknown, curves, and linear fits between bounds."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.optimize import (
    ConvergenceError,
    curve_fit,
    lsq_linear,
    minimize_scalar,
    nnls,
    root_scalar,
)

scipy_optimize = pytest.importorskip("scipy.optimize")
f64 = ad.float64


@pytest.mark.parametrize(
    ("f", "bracket", "answer"),
    [
        (lambda x, a: x**3 - a, (0, 2), lambda a: a ** (1 / 3)),
        (lambda x, a: ad.exp(x) - 1000 * a, (-50, 50), lambda a: ad.log(1000 * a)),
        (lambda x, a: ad.atan(1e6 * (x - a)), (-1, 5), lambda a: a + 0),
        (lambda x, a: 1e-12 * (x - a), (0, 1e9), lambda a: a + 0),
        (lambda x, a: x - a, (0, 2), lambda a: a + 0),
    ],
)
def test_roots_in_a_bracket(f, bracket, answer):
    a = ad.tensor(2.0, dtype=f64)
    for transform in (lambda g: g, ad.func.grad, lambda g: ad.func.grad(ad.func.grad(g))):
        found = transform(lambda a: root_scalar(f, a, bracket=bracket).root)(a)
        assert ad.allclose(found, transform(answer)(a), rtol=1e-8)


def test_roots_of_samples_and_from_a_point():
    samples = ad.tensor([1.0, 8, 27], dtype=f64)
    found = ad.vmap(lambda a: root_scalar(lambda x: x**3 - a, bracket=(0, 5)).root)(samples)
    assert ad.allclose(found, ad.tensor([1.0, 2, 3], dtype=f64))
    result = root_scalar(lambda x: x**2 - 4, x0=1.0, maxiter=50)
    assert result.converged and abs(float(result.root) - 2) < 1e-12


def test_minima_of_one_number():
    a = ad.tensor(3.0, dtype=f64, requires_grad=True)
    found = minimize_scalar(lambda x: (x - a) ** 2 + x**2)
    assert ad.allclose(ad.autograd.grad(found.x, a)[0], ad.tensor(0.5, dtype=f64))
    held = minimize_scalar(lambda x: (x - a) ** 2, bounds=(0, 1))
    assert float(held.x) == 1 and float(ad.autograd.grad(held.x, a)[0]) == 0


@pytest.mark.parametrize("kind", ["plain", "relative", "absolute", "matrix"])
def test_curves_are_those_of_scipy(kind):
    x = np.linspace(0, 4, 30)
    y = 2.5 * np.exp(-1.3 * x) + 0.5 + 0.05 * np.sin(40 * x)
    errors = np.linspace(0.04, 0.06, 30)
    given = {
        "plain": {},
        "relative": {"sigma": errors},
        "absolute": {"sigma": errors, "absolute_sigma": True},
        "matrix": {"sigma": np.diag(errors**2)},
    }[kind]
    data = ad.from_numpy(y).requires_grad_()
    found = curve_fit(lambda x, p, q, r: p * ad.exp(-q * x) + r, ad.from_numpy(x), data, **given)
    exact = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15}

    def by_scipy(y):
        return scipy_optimize.curve_fit(
            lambda x, p, q, r: p * np.exp(-q * x) + r, x, y, **given, **exact
        )

    for mine, expected in zip(found, by_scipy(y), strict=True):
        np.testing.assert_allclose(mine.detach(), expected, rtol=1e-4, atol=1e-7)
    nudge = np.zeros(30)
    nudge[4] = 1e-4
    (slope,) = ad.autograd.grad(found[0][1], data)
    change = (by_scipy(y + nudge)[0][1] - by_scipy(y - nudge)[0][1]) / 2e-4
    np.testing.assert_allclose(slope[4].item(), change, rtol=1e-4)


def test_fits_between_bounds():
    rng = np.random.default_rng(1)
    A = ad.from_numpy(rng.normal(size=(10, 4))).requires_grad_()
    b = ad.from_numpy(rng.normal(size=10)).requires_grad_()
    plain = A.detach().numpy(), b.detach().numpy()
    x, length = nnls(A, b)
    expected, size = scipy_optimize.nnls(*plain)
    np.testing.assert_allclose(x.detach(), expected, atol=1e-12)
    np.testing.assert_allclose(length.item(), size)
    assert ad.autograd.gradcheck(lambda A, b: nnls(A, b)[0], (A, b))
    found = lsq_linear(A, b, (-0.1, 0.2))
    np.testing.assert_allclose(
        found.x.detach(), scipy_optimize.lsq_linear(*plain, (-0.1, 0.2)).x, atol=1e-9
    )


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda: root_scalar(lambda x: x**2 + 1, bracket=(0, 1)), ValueError, "the same sign"),
        (lambda: root_scalar(ad.log, bracket=(-1, 1)), ValueError, "not finite"),
        (lambda: root_scalar(lambda x: x), ValueError, "needs x0"),
        (lambda: root_scalar(lambda x: x, method="brentq"), ValueError, "needs a bracket"),
        (
            lambda: root_scalar(lambda x: 1 / (x - 1), bracket=(0, 3)),
            ConvergenceError,
            "a pole where f changes its sign",
        ),
        (lambda: root_scalar(ad.tan, bracket=(1, 2)), ConvergenceError, "a pole"),
        (lambda: root_scalar(lambda x: x, method="magic"), ValueError, "method is one of"),
        (
            lambda: root_scalar(lambda x: x - 1, bracket=(0, 3), maxiter=1),
            ConvergenceError,
            "in 1 steps",
        ),
        (
            lambda: minimize_scalar(lambda x: x**2, options={"maxiter": 1}),
            ConvergenceError,
            "found no minimum",
        ),
        (lambda: curve_fit(lambda x: x, ad.ones(2), ad.ones(2)), ValueError, "give p0"),
        (lambda: lsq_linear(ad.ones(2, 2), ad.ones(3)), ValueError, "as many rows"),
    ],
)
def test_errors_say_what_is_wrong(call, error, part):
    with pytest.raises(error, match=part):
        call()


def test_bounds_of_two_unknowns_are_scipys_lows_and_highs():
    t = np.linspace(0, 2, 9)
    d = 2 * np.exp(-1.3 * t)
    bounds = ((0, 0), (10, 1))
    ours = curve_fit(lambda t, a, b: a * ad.exp(-b * t), t, d, p0=[1.0, 0.5], bounds=bounds)[0]
    theirs = scipy_optimize.curve_fit(
        lambda t, a, b: a * np.exp(-b * t), t, d, p0=[1.0, 0.5], bounds=bounds
    )[0]
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-5)

    fit = ad.optimize.least_squares(lambda x: x - ad.tensor([3.0, 0.5]), [0.5, 0.5], bounds=(0, 1))
    assert fit.active_mask.tolist() == [1, 0] and fit.optimality < 1e-8


def test_minimize_takes_rows_of_bounds_and_methods_that_are_functions():
    a = ad.tensor(2.0, dtype=f64, requires_grad=True)

    def method(fun, x0, args=(), jac=None, **rest):
        return scipy_optimize.minimize(fun, x0, args, "BFGS", jac)

    found = ad.optimize.minimize(lambda x: ((x - a) ** 2).sum(), [1.0, 1.0], method=method)
    (slope,) = ad.autograd.grad(found.x[0], a)
    assert abs(slope - 1) < 1e-12
    rows = np.array([[0, 1], [0, 5.0]])
    found = ad.optimize.minimize(lambda x: ((x - 3) ** 2).sum(), [1.0, 1.0], bounds=rows)
    np.testing.assert_allclose(found.x.numpy(), [1, 3])


@pytest.mark.parametrize("seed", range(8))
def test_linear_fits_between_bounds_are_scipys(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(8, 5)), rng.normal(size=8)
    np.testing.assert_allclose(nnls(A, b)[0].numpy(), scipy_optimize.nnls(A, b)[0], atol=1e-10)
    ours = lsq_linear(ad.tensor(A), ad.tensor(b), (-0.1, 0.2))
    theirs = scipy_optimize.lsq_linear(A, b, (-0.1, 0.2), method="bvls")
    np.testing.assert_allclose(ours.x.numpy(), theirs.x, atol=1e-8)
    assert ours.active_mask.tolist() == theirs.active_mask.tolist()
