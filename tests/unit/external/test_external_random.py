"""Random functions of many kinds through externals, against the derivatives of the same in tensors.

An expression is written once, for NumPy and for adjoint. Derivatives by differences have to agree
with the exact ones, or a warning has to say that they may not.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import adjoint as ad


def tensor(values):
    return ad.tensor(np.asarray(values), dtype=ad.float64)


def smooth(rng, n):
    a = rng.normal(size=(n, n))
    return lambda x, m, t: m.sin(t(a) @ x) * m.exp(-x), rng.normal(size=n)


def badly_scaled(rng, n):
    a, size = rng.normal(size=(n, n)), 10.0 ** rng.uniform(-4, 4, n)
    return lambda x, m, t: m.sin(x / t(size)) + (t(a) @ (x / t(size))) ** 2, rng.normal(
        size=n
    ) * size


def small_elements(rng, n):
    a, x = rng.normal(size=(n, n)), rng.normal(size=n)
    x[rng.integers(n)] *= 10.0 ** -rng.integers(2, 9)
    return lambda x, m, t: m.exp(-x) * (t(a) @ x) + m.cos(x), x


def resonance(rng, n):
    width, x = 10.0 ** -rng.uniform(1, 4), np.abs(rng.normal(size=n)) + 0.2
    x[0] = 1 + width * rng.normal()
    return lambda x, m, t: 1 / ((1 - x**2) ** 2 + width**2), x


def oscillating(rng, n):
    k, a = 10.0 ** rng.uniform(0, 4), rng.normal(size=(n, n))
    return lambda x, m, t: m.sin(k * x) + x * (t(a) @ x), rng.normal(size=n)


def many_magnitudes(rng, n):
    return lambda x, m, t: m.log(x) * x + m.sqrt(x), 10.0 ** rng.uniform(-6, 3, n)


def large_constant(rng, n):
    a = rng.normal(size=(n, n))
    return lambda x, m, t: m.cos(t(a) @ x) / (1 + x**2) + 1e3, rng.normal(size=n)


def polynomial(rng, n):
    a = rng.normal(size=(n, n))
    return lambda x, m, t: (t(a) @ x) ** 3 + x**2, rng.normal(size=n)


KINDS = [
    smooth,
    badly_scaled,
    small_elements,
    resonance,
    oscillating,
    many_magnitudes,
    large_constant,
    polynomial,
]


def quiet(call):
    """The result, and whether something was warned of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        return call(), bool(seen)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", ["central", "forward"])
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_are_right_or_told_to_be_uncertain(kind, method, seed):
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    n = int(rng.integers(1, 6))
    expression, x = kind(rng, n)
    f = ad.external(lambda v: expression(v, np, np.asarray), derivative=method)
    if seed % 2 and kind not in (badly_scaled, many_magnitudes):  # steps are found elsewhere first
        elsewhere = tensor(x + 0.3 * rng.normal(size=n))
        quiet(lambda: ad.func.grad(lambda z: f(z).sum())(elsewhere))

    def exact(z):
        return expression(z, ad, tensor)

    at, size = tensor(x), np.abs(x)
    weights, v = tensor(rng.uniform(0.5, 1, n)), rng.normal(size=n) * size
    jacobian = ad.func.jacrev(exact)(at).numpy()
    rough = 100 if method == "forward" else 1

    found, told = quiet(lambda: ad.func.jacrev(f)(at).numpy())
    error = np.abs((found - jacobian) * size).max() / np.abs(jacobian * size).max()
    assert error < 1e-6 * rough or (told and error < 0.1)

    found, told = quiet(lambda: ad.func.jvp(f, (at,), (tensor(v),))[1].numpy())
    error = np.abs(found - jacobian @ v).max() / np.abs(jacobian * v).max()
    assert error < 1e-6 * rough or (told and error < 0.1)

    wanted = ad.func.hessian(lambda z: (weights * exact(z)).sum())(at).numpy() * np.outer(
        size, size
    )
    found, told = quiet(lambda: ad.func.hessian(lambda z: (weights * f(z)).sum())(at).numpy())
    error = np.abs(found * np.outer(size, size) - wanted).max() / np.abs(wanted).max()
    assert error < 1e-3 or told


@pytest.mark.parametrize("seed", range(12))
def test_jumps_near_and_at_an_input(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    x, height = rng.normal(size=n), rng.uniform(0.5, 3)
    distance = 10.0 ** -rng.integers(1, 9) if seed % 3 else 0.0
    place = x[0] - distance * max(abs(x[0]), 0.1)

    def f(v):
        return np.sin(v) + height * (v >= place)

    found, told = quiet(lambda: ad.func.grad(lambda z: ad.external(f)(z).sum())(tensor(x)).numpy())
    right = np.allclose(found, np.cos(x), rtol=1e-4, atol=1e-6)
    assert told if distance == 0 else right or told


def grain(v):
    """Numbers between -1/2 and 1/2 without any order: the noise of an iteration, say."""
    bits = np.asarray(v, float).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return ((bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)) / 2.0**64 - 0.5


# What lies between the ends of a step, or looks like it: the function, its derivative, and x.
def corner(c, d, w):
    return lambda v: abs(v - c) + np.sin(v), lambda v: np.sign(v - c) + np.cos(v), c + d


def clipped(c, d, w):
    return lambda v: max(v, c) ** 3, lambda v: 3 * v**2 * (v > c), c + d


def pole(c, d, w):
    return lambda v: 1 / (v - c), lambda v: -1 / (v - c) ** 2, c + abs(d)


def bump(c, d, w):
    def height(v):
        return np.exp(-(((v - c) / w) ** 2))

    return lambda v: v + height(v), lambda v: 1 - 2 * (v - c) / w**2 * height(v), c + w / 2


def noisy(c, d, w):
    return lambda v: np.sin(v) + w * grain(v), np.cos, c


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", [corner, clipped, pole, bump, noisy])
def test_what_is_nearer_than_a_step_is_seen(kind, seed):
    rng = np.random.default_rng(seed)
    c = rng.uniform(0.3, 2) * rng.choice([-1, 1])
    d, w = 10.0 ** -rng.uniform(1, 10) * rng.choice([-1, 1]), 10.0 ** -rng.uniform(2, 9)
    function, slope, x = kind(c, d, w)
    each = ad.external(lambda v: np.array([function(e) for e in v]), elementwise=True)

    def look(f, at):
        yield quiet(lambda: ad.func.grad(lambda z: f(z).sum())(at)[0])
        yield quiet(lambda: ad.func.jvp(f, (at,), (ad.ones_like(at),))[1].reshape(-1)[0])

    with np.errstate(over="ignore"):
        alone = look(ad.external(lambda v: function(v[0])), tensor([x]))
        for found, told in (*alone, *look(each, tensor([x, 1.7 * c]))):
            assert told or found.item() == pytest.approx(slope(x), rel=1e-2, abs=1e-3)


@pytest.mark.parametrize("seed", range(12))
def test_random_patterns_are_used_and_held_to_their_word(seed):
    rng = np.random.default_rng(seed)
    n, m = (int(k) for k in rng.integers(3, 9, 2))
    entries = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.4)
    entries[rng.integers(m), rng.integers(n)] = 1.0
    x = rng.uniform(0.5, 2, n)

    def f(v):
        return entries @ v**2

    found = ad.external(f, sparsity=entries != 0).jacobian(tensor(x)).numpy()
    np.testing.assert_allclose(found, entries * 2 * x, atol=1e-7)
    rows, columns = np.nonzero(entries)
    pick = rng.integers(len(rows))
    short = entries != 0
    short[rows[pick], columns[pick]] = False
    with pytest.raises(ad.external.ExternalError, match="misses entries"):
        ad.external(f, sparsity=short).jacobian(tensor(x))


@pytest.mark.parametrize("seed", range(8))
def test_float32_and_whole_numbers(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    x = ad.tensor(rng.uniform(0.5, 2, n)).float().requires_grad_()
    ad.external(lambda v: np.exp(v) * v.sum())(x).sum().backward()
    at = x.detach().double().numpy()
    wanted = np.exp(at) * at.sum() + np.exp(at).sum()
    assert x.grad.dtype == ad.float32
    np.testing.assert_allclose(x.grad.numpy(), wanted, rtol=2e-3)

    y = tensor(rng.normal()).requires_grad_()
    ad.external(lambda v: max(0, float(v)) if v < 5 else 7)(y).backward()
    assert y.grad.item() == pytest.approx(float(y.item() > 0), abs=1e-7)
