"""SciPy's functions for one method each: values, derivatives, transforms, words."""

import numpy as np
import pytest

import adjoint as ad
from adjoint import optimize
from adjoint.optimize import ConvergenceError

scipy_optimize = pytest.importorskip("scipy.optimize")
f64 = ad.float64
BRACKETS = ("bisect", "brentq", "brenth", "ridder", "toms748")


def number(value):
    return ad.tensor(value, dtype=f64)


def by_bracket(name):
    return lambda a, m=optimize, **how: getattr(m, name)(lambda x, a: x**3 - a, 0, 3, (a,), **how)


FUNCTIONS = {name: by_bracket(name) for name in BRACKETS}
FUNCTIONS["newton"] = lambda a, m=optimize, **how: m.newton(
    lambda x, a: x**3 - a, 1.5, args=(a,), **how
)
FUNCTIONS["fsolve"] = lambda a, m=optimize, **how: m.fsolve(
    lambda x, a: x**3 - a, 1.5, (a,), **how
)[0]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_roots_and_their_derivatives_are_exact(name):
    f, a = FUNCTIONS[name], number(2.0)
    assert abs(float(f(a)) - float(f(2.0, scipy_optimize))) < 1e-11
    for order in range(4):
        exact = np.prod([1 / 3 - k for k in range(order)]) * 2.0 ** (1 / 3 - order)
        derivative = f
        for _ in range(order):
            derivative = ad.func.grad(derivative)
        assert abs(float(derivative(a)) / exact - 1) < 1e-12
    forward = ad.func.jacfwd(ad.func.jacfwd(f))(a)
    assert abs(float(forward) / (-2 / 9 * 2.0 ** (-5 / 3)) - 1) < 1e-12


@pytest.mark.parametrize("name", FUNCTIONS)
def test_roots_of_samples_and_in_programs(name):
    f, rows = FUNCTIONS[name], ad.tensor([1.0, 8.0, 20.0], dtype=f64)
    assert ad.allclose(ad.vmap(f)(rows), rows ** (1 / 3), rtol=1e-14)
    compiled = ad.compile(f)
    given = [row.clone().requires_grad_() for row in (rows[2], rows[2])]
    found = [compiled(given[0]), f(given[1])]
    for y in found:
        y.backward()
    assert ad.equal(*found) and ad.equal(given[0].grad, given[1].grad)
    _, looped = ad.scan(lambda c, a: (c, f(a)), number(0.0), rows)
    assert ad.allclose(looped, rows ** (1 / 3), rtol=1e-14)


@pytest.mark.parametrize("name", (*BRACKETS, "newton"))
def test_full_output_is_that_of_scipy(name):
    root, result = FUNCTIONS[name](2.0, full_output=True)
    theirs, told = FUNCTIONS[name](2.0, scipy_optimize, full_output=True)
    assert set(told) == set(result)
    assert ad.equal(root, result.root) and abs(float(root) - theirs) < 1e-11
    assert (result.converged, result.flag, result.method) == (True, "converged", told.method)


def test_fsolve_is_scipys():
    def system(m):
        return lambda x: [x[0] * m.cos(x[1]) - 4, x[1] * x[0] - x[1] - 5]

    ours = optimize.fsolve(system(ad), [1, 1], full_output=True)
    theirs = scipy_optimize.fsolve(system(np), [1, 1], full_output=True)
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-10)
    np.testing.assert_allclose(ours[1]["fvec"], 0.0, atol=1e-10)
    assert ours[1]["nfev"] > 0 and ours[2:] == theirs[2:]


@pytest.mark.parametrize(
    ("x0", "size"),
    [
        (1.0, 1),
        (1, 1),
        ([1.0, 2], 2),
        (np.ones((2, 2)), 4),
        (number(1.0), 1),
        ([number(1.0), 2], 2),
        (1 + 1j, 1),
    ],
)
def test_fsolve_solves_for_a_vector(x0, size):
    x = optimize.fsolve(lambda x: x**2 - 2, x0)
    assert x.shape == (size,)
    np.testing.assert_allclose(x, 2**0.5, rtol=1e-14)


def test_what_is_given_and_not_needed_changes_nothing():
    a = ad.tensor(2.0, dtype=f64, requires_grad=True)
    x = optimize.fsolve(
        lambda x: x**2 - a, [1.0], fprime=lambda x: [[3.0]], col_deriv=1, diag=(2,), factor=1
    )
    (slope,) = ad.autograd.grad(x.sum(), a)
    assert abs(float(slope) - 8**-0.5) < 1e-14
    x = optimize.newton(lambda x: x**2 - a, 1.0, lambda x: 3.0, fprime2=lambda x: 1.0, x1=2.0)
    (slope,) = ad.autograd.grad(x, a)
    assert abs(float(slope) - 8**-0.5) < 1e-14


def test_newton_solves_an_equation_for_each_number():
    a = np.arange(1.0, 6)
    theirs = scipy_optimize.newton(lambda x, a: x**3 - a, np.linspace(1, 2, 5), args=(a,))
    x, converged, zero = optimize.newton(
        lambda x, a: x**3 - a, np.linspace(1, 2, 5), args=(ad.tensor(a),), full_output=True
    )
    np.testing.assert_allclose(x, theirs, rtol=1e-7)
    np.testing.assert_allclose(x, a ** (1 / 3), rtol=1e-14)
    assert converged.all() and not zero.any()
    slopes = ad.func.jacrev(
        lambda a: optimize.newton(lambda x: x**3 - a, ad.ones(5, dtype=f64)).sum()
    )(ad.tensor(a))
    np.testing.assert_allclose(slopes, a ** (-2 / 3) / 3, rtol=1e-13)
    i = optimize.newton(lambda x: x**2 + 1, 0.3 + 1.2j)
    assert abs(complex(i) - 1j) < 1e-14


def test_a_root_that_f_crosses_flat_is_found_to_a_tolerance():
    assert abs(float(optimize.bisect(lambda x: x**3, -1, 2, xtol=1e-12))) < 1e-12


def no_root(x):
    return x**2 + 1


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda: optimize.fsolve(no_root, 1.0), ConvergenceError, r"^fsolve\(\) by SciPy's hybr"),
        (lambda: optimize.fsolve(no_root, 1.0, full_output=True), ConvergenceError, "maxfev="),
        (lambda: optimize.fsolve(ad.cos, {"a": 1}), TypeError, r"fsolve\(\).* got dict"),
        (lambda: optimize.fsolve(lambda x: x[:1], [1, 1]), ValueError, r"fsolve\(\).* 1 elements"),
        (lambda: optimize.newton(no_root, 1.0), ConvergenceError, r"^newton\(\) by newton"),
        (lambda: optimize.newton(no_root, 1.0, disp=False), ConvergenceError, "maxiter="),
        (lambda: optimize.newton(no_root, 1.0, tol=0), ValueError, "tol must be positive"),
        (lambda: optimize.newton(no_root, 1.0, maxiter=0), ValueError, "at least 1"),
        (
            lambda: optimize.newton(no_root, [1.0, 2.0]),
            ConvergenceError,
            r"^newton\(\) by newton found no answer",
        ),
        (
            lambda: optimize.newton(no_root, "ab"),
            TypeError,
            r"^newton\(\): expected a tensor, an array or numbers, got str",
        ),
        *(
            (
                lambda name=name, how=how: getattr(optimize, name)(*how[0], **how[1]),
                error,
                f"{name}{part}",
            )
            for name in BRACKETS
            for how, error, part in (
                (((no_root, 0, 2), {}), ValueError, r"\(\): f has the same sign"),
                (
                    ((ad.cos, 0, 2), {"maxiter": 1, "disp": False}),
                    ConvergenceError,
                    r"\(\) found no",
                ),
                (((ad.cos, 0, 2), {"xtol": 0}), ValueError, r"\(\): xtol must be positive"),
                (((ad.cos, 0, 2), {"rtol": -1}), ValueError, r"\(\): rtol must be positive"),
                (((ad.cos, None, 2), {}), TypeError, r"\(\): expected .* got NoneType"),
                (((ad.log, -1, 2), {}), ValueError, r"\(\): f is not finite"),
            )
        ),
    ],
)
def test_errors_name_the_function_that_was_called(call, error, part):
    with pytest.raises(error, match=part):
        call()
