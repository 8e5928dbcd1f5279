"""Second derivatives of externals by differences: own steps, small elements, own checks."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import adjoint as ad


def float64(values, **options):
    return ad.tensor(values, dtype=ad.float64, **options)


def hessian(f, x):
    return ad.func.hessian(lambda z: f(z).sum())(float64(x)).numpy()


def relative(found, wanted):
    return np.abs(found - wanted).max() / np.abs(wanted).max()


def damped(v):
    return np.exp(-v) * np.cumsum(v)


def damped_hessian(v):
    e, c = np.exp(-v), np.cumsum(v)
    later = np.maximum.outer(np.arange(v.size), np.arange(v.size))
    return np.where(np.eye(v.size, dtype=bool), np.diag(e * c - 2 * e), -e[later])


@pytest.mark.parametrize("method", ["central", "forward"])
def test_hessians_are_right_where_elements_are_small(method):
    for seed in range(6):
        v = np.random.default_rng(seed).normal(size=20)
        v[seed] = 10.0 ** (-seed - 1)
        found = hessian(ad.external(damped, derivative=method), v)
        assert relative(found, damped_hessian(v)) < 1e-5


def test_a_function_that_follows_small_elements_closely_keeps_short_steps():
    x = np.array([1e-5, 1e-3, 0.3, 2.0])
    found = hessian(ad.external(np.log), x)
    np.testing.assert_allclose(np.diag(found), -1 / x**2, rtol=1e-5)
    np.testing.assert_allclose(
        hessian(ad.external(lambda v: v * np.log(v)), x), np.diag(1 / x), rtol=1e-4, atol=1e-3
    )


def test_elementwise_and_sparse_hessians_take_few_evaluations():
    n = 40
    x = np.linspace(0.5, 2.0, n)
    f = ad.external(np.sin, elementwise=True)
    found = ad.func.hessian(lambda z: f(z).sum())(float64(x)).numpy()
    assert relative(found, np.diag(-np.sin(x))) < 1e-6

    pattern = np.eye(n) + np.eye(n, k=1)
    g = ad.external(lambda v: v**2 * np.append(v[1:], 1.0), sparsity=pattern)
    v = float64(np.ones(n))
    before = g.evaluator.count
    product = ad.func.jvp(ad.func.grad(lambda z: g(z).sum()), (float64(x),), (v,))[1].numpy()
    wanted = 2 * np.append(x[1:], 1.0) + np.append(2 * x[:-1], 0) + np.append(0, 2 * x[:-1])
    assert relative(product, wanted) < 1e-6
    assert g.evaluator.count - before < 60  # not 4 n


def test_a_whole_hessian_shares_values_between_its_directions():
    n = 10
    f = ad.external(lambda v: np.exp(v).prod() * np.ones(1))
    x = np.linspace(0.1, 0.4, n)
    found = hessian(f, x)
    assert relative(found, np.full((n, n), np.exp(x.sum()))) < 1e-5
    assert f.evaluator.count < 4 * n * n  # two Jacobians for each direction


def test_second_derivatives_at_bounds_stay_inside():
    seen = []

    def root(v):
        seen.append(float(np.min(v)))
        return np.sqrt(v) * v

    x = np.array([0.0, 0.5, 1.0])
    f = ad.external(root, bounds=(0.0, 1.0))
    product = ad.func.jvp(
        ad.func.grad(lambda z: f(z).sum()), (float64(x),), (float64([0, 1.0, 0]),)
    )[1]
    np.testing.assert_allclose(product.numpy()[1], 0.75 / np.sqrt(0.5), rtol=1e-4)
    assert min(seen) >= 0


def test_a_second_derivative_that_does_not_settle_is_told():
    f = ad.external(lambda v: np.abs(v - 0.7) ** 1.5)
    with pytest.warns(UserWarning, match="may be wrong"):
        hessian(f, np.array([0.7000001, 0.1]))


def test_smooth_functions_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(5):
            x = np.random.default_rng(seed).normal(size=6)
            hessian(ad.external(lambda v: np.sin(v).sum() * np.cos(v)), x)


SPLIT = {  # each output follows its own element closely; the others change over long distances
    "cube": lambda m, v: v**3 * m.sin(v).sum(),
    "power and line": lambda m, v: v**4 * v.sum() + v,
    "quotient": lambda m, v: v**3 / (1 + (v * v).sum()),
    "logarithm": lambda m, v: m.log(m.abs(v)) + m.sin(v).sum() * m.cumsum(v, 0),
    "bell": lambda m, v: m.exp(-v * v) * m.cumsum(v**3, 0),
}


@pytest.mark.parametrize("function", SPLIT.values(), ids=SPLIT)
def test_an_output_that_follows_an_element_closely_leaves_the_others_their_steps(function):
    f = ad.external(lambda v: function(np, v))
    weights = ad.linspace(1, 2, 8, dtype=ad.float64)
    for seed in range(8):
        random = np.random.default_rng(seed)
        v = random.normal(size=8)
        v[seed] = 10.0 ** (-seed - 1) * random.choice([-1, 1])
        x, d = float64(v), float64(random.normal(size=8))
        most = f.cost(x).second_most
        wanted = ad.func.hessian(lambda z: (function(ad, z) * weights).sum())(x)
        slope = ad.func.grad(lambda z: (f(z) * weights).sum())
        found = ad.func.hessian(lambda z: (f(z) * weights).sum())(x)
        assert relative(found.numpy(), wanted.numpy()) < 2e-5
        before = f.evaluator.count
        product = ad.func.jvp(slope, (x,), (d,))[1]
        assert f.evaluator.count - before <= most
        assert relative(product.numpy(), (wanted @ d).numpy()) < 2e-5


def test_long_steps_that_leave_the_domain_together_are_shortened():
    for seed in range(10):
        v = 10.0 ** np.random.default_rng(seed).uniform(-8, 2, size=8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of first derivatives beside tiny elements
            found = hessian(ad.external(lambda v: np.log(v) * v.sum()), v)
        wanted = 1 / v[:, None] + 1 / v - np.diag(v.sum() / v**2)
        assert relative(found, wanted) < 1e-5


@pytest.mark.parametrize("kind", ["elementwise", "sparsity"])
def test_small_elements_of_a_pattern_are_looked_at_together(kind):
    n = 400
    v = np.random.default_rng(0).normal(size=n)
    v[::7] *= 10.0 ** np.random.default_rng(1).uniform(-8, -1, v[::7].size)
    neighbours = {"elementwise": 0, "sparsity": 1}[kind]

    def function(m, v):
        return m.sin(v) + v**3 + neighbours * v * m.roll(v, 1) ** 2

    pattern = np.eye(n) + np.roll(np.eye(n), -1, 1) if neighbours else None
    options = {"sparsity": pattern} if neighbours else {"elementwise": True}
    f = ad.external(lambda v: function(np, v), **options)
    x, w = float64(v), float64(np.cos(np.arange(n)))
    slope = ad.func.grad(lambda z: f(z).sum())
    before = f.evaluator.count
    product = ad.func.jvp(slope, (x,), (w,))[1].numpy()
    assert f.evaluator.count - before < 400  # and not several for each element that is small
    exact = ad.func.grad(lambda z: function(ad, z).sum())
    wanted = ad.func.jvp(exact, (x,), (w,))[1].numpy()
    assert np.abs(product - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_outputs_of_a_pattern_keep_steps_of_their_own():
    n = 6
    pattern = np.eye(n) + np.roll(np.eye(n), -1, 1)

    def function(m, v):  # the one follows its element closely, the other does not
        return m.log(v) + m.exp(m.roll(v, 1))

    for seed in range(6):
        v = 10.0 ** np.random.default_rng(seed).uniform(-6, 0, n)
        f = ad.external(lambda v: function(np, v), sparsity=pattern)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of first derivatives beside tiny elements
            found = hessian(f, v)
        assert relative(found, np.diag(np.exp(v) - 1 / v**2)) < 1e-5
