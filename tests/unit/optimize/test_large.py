"""Large problems: derivatives that are sparse, or known by their products, beside whole ones."""

import numpy as np
import pytest

import adjoint as ad
from adjoint.optimize import ConvergenceError, fixed_point, least_squares, minimize, root

pytest.importorskip("scipy")
f64 = ad.float64


def shifted(u):
    edge = u.new_zeros(1)
    return ad.cat([edge, u[:-1]]), ad.cat([u[1:], edge])


def bratu(u, a):
    """A boundary value problem: u'' + a exp(u) = 0, and badly scaled unless few cells."""
    left, right = shifted(u)
    h = 1 / (u.numel() + 1)
    return (left - 2 * u + right) / h + h * a * ad.exp(u)


def energy(u, a):
    left, _ = shifted(u)
    return ((u - left) ** 2 / 2 + 0.05 * u**4 + (u - a) ** 2 / 2).sum()


def misfits(u, a):
    left, _ = shifted(u)
    return ad.cat([u - a * ad.linspace(0, 1, u.numel(), dtype=f64), 2 * (u - left), 0.1 * u**2])


def solver(kind, how):
    return {
        "root": lambda a, x0: root(bratu, x0, a, jac=how).x,
        "minimize": lambda a, x0: minimize(energy, x0, a, method="Newton-CG", hess=how).x,
        "least_squares": lambda a, x0: least_squares(misfits, x0, jac=how, args=(a,)).x,
    }[kind]


CASES = [
    ("root", "sparse"),
    ("root", "products"),
    ("minimize", "sparse"),
    ("minimize", "products"),
    ("least_squares", "sparse"),
]


@pytest.mark.parametrize(("kind", "how"), CASES)
def test_derivatives_are_those_of_whole_matrices(kind, how):
    x0 = ad.zeros(15, dtype=f64)
    mine, whole = solver(kind, how), solver(kind, "exact")
    a = ad.tensor(0.7, dtype=f64, requires_grad=True)

    def orders(solve):
        value = (solve(a, x0) ** 3).sum()
        (first,) = ad.autograd.grad(value, a, create_graph=True)
        (second,) = ad.autograd.grad(first, a, create_graph=True)
        (third,) = ad.autograd.grad(second, a)
        return [float(t) for t in (value, first, second, third)]

    np.testing.assert_allclose(orders(mine), orders(whole), rtol=1e-7)
    at = a.detach()

    def total(solve):
        return lambda a: (solve(a, x0) ** 3).sum()

    for transform in (ad.func.jacfwd, ad.func.jacrev, ad.func.hessian):
        found, expected = (transform(total(solve))(at) for solve in (mine, whole))
        np.testing.assert_allclose(float(found), float(expected), rtol=1e-7)
    samples = ad.stack([at, at * 1.1])
    rows = [ad.vmap(ad.func.grad(total(s)))(samples).detach() for s in (mine, whole)]
    np.testing.assert_allclose(*rows, rtol=1e-7)
    slopes = [ad.func.jacrev(lambda a, s=s: s(a, x0))(at) for s in (mine, whole)]
    np.testing.assert_allclose(*slopes, rtol=1e-6, atol=1e-9)


def test_many_unknowns_are_solved_by_themselves():
    n = 4000
    a = ad.tensor(1.0, dtype=f64, requires_grad=True)
    x = root(bratu, ad.zeros(n, dtype=f64), a).x
    # u = 2 ln(cosh(t) / cosh(t (1 - 2 s))) with a = 8 t² / cosh(t)²
    t = root(lambda t: 8 * t**2 / ad.cosh(t) ** 2 - a, 0.4).x
    s = ad.arange(1, n + 1, dtype=f64) / (n + 1)
    exact = 2 * ad.log(ad.cosh(t) / ad.cosh(t * (1 - 2 * s)))
    middle = n // 2
    np.testing.assert_allclose(x[middle].item(), exact[middle].item(), rtol=1e-6)
    slopes = [ad.autograd.grad(u[middle], a)[0].item() for u in (x, exact)]
    np.testing.assert_allclose(*slopes, rtol=1e-6)
    lowest = minimize(energy, ad.zeros(n, dtype=f64), a, method="L-BFGS-B").x
    (slope,) = ad.autograd.grad(lowest[middle], a)
    b = root(lambda b: 0.2 * b**3 + b - a, 1.0).x  # far from the edge: all cells alike
    np.testing.assert_allclose(lowest[middle].item(), b.item(), rtol=1e-8)
    np.testing.assert_allclose(slope.item(), ad.autograd.grad(b, a)[0].item(), rtol=1e-8)


def test_unknowns_that_all_meet_are_solved_by_products():
    a = ad.tensor(2.0, dtype=f64, requires_grad=True)
    n = 3000
    x = root(lambda x: x + 0.1 * ad.tanh(x.mean() + x) - a, ad.zeros(n, dtype=f64)).x
    one = root(lambda x: x + 0.1 * ad.tanh(2 * x) - a, 0.0).x
    np.testing.assert_allclose(x[7].item(), one.item(), rtol=1e-10)
    slopes = [ad.autograd.grad(t, a)[0].item() for t in (x[7], one)]
    np.testing.assert_allclose(*slopes, rtol=1e-8)
    y = fixed_point(lambda y: 0.5 * ad.cos(y) + 0.1 * a * y.roll(1), ad.zeros(n, dtype=f64))
    z = fixed_point(lambda y: 0.5 * ad.cos(y) + 0.1 * a * y, 0.0)
    slopes = [ad.autograd.grad(t, a)[0].item() for t in (y[7], z)]
    np.testing.assert_allclose(*slopes, rtol=1e-8)


def test_sparse_fits_have_sparse_jacobians():
    a = ad.tensor(0.5, dtype=f64)
    fit = least_squares(misfits, ad.zeros(50, dtype=f64), jac="sparse", args=(a,))
    assert fit.jac.nnz < 250


def test_bounds_hold_large_answers_too():
    a = ad.tensor(0.5, dtype=f64, requires_grad=True)
    n = 2500
    high = ad.cat([ad.full((n // 2,), 0.1, dtype=f64), ad.full((n // 2,), 9.0, dtype=f64)])
    low = ad.full((n,), -9.0, dtype=f64)
    from scipy.optimize import Bounds

    limits = Bounds(low.numpy(), high.numpy())
    found = minimize(
        lambda x: ((x - a) ** 2).sum(), ad.zeros(n, dtype=f64), bounds=limits, method="L-BFGS-B"
    )
    assert found.active.numel() == n // 2
    (slope,) = ad.autograd.grad(found.x.sum(), a)
    np.testing.assert_allclose(slope.item(), n // 2)


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda: root(lambda x: x, ad.ones(2), jac="whole"), TypeError, "'products'"),
        (
            lambda: root(lambda x: x.sum() - ad.arange(3), ad.zeros(3, dtype=f64), jac="products"),
            ConvergenceError,
            "'sparse' in place of|no answer",
        ),
        (
            lambda: root(lambda x: 0 * x + 1, ad.zeros(3, dtype=f64), jac="sparse"),
            ConvergenceError,
            "singular",
        ),
    ],
)
def test_errors_say_what_is_wrong(call, error, part):
    with pytest.raises(error, match=part):
        call()
