"""Elements of very different sizes in one array: each is stepped by its own."""

import warnings

import numpy as np
import pytest

import adjoint as ad


def drawn(seed, spread):
    """A function of sparse combinations of nonlinear functions of elements in their own units."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(5, 10, 2)
    matrix = rng.normal(size=(m, n)) * (rng.random((m, n)) < 0.4)
    unit = 10.0 ** rng.uniform(-spread, spread, n)
    value, slope = [
        (lambda u: np.sin(u) + u, lambda u: np.cos(u) + 1),
        (lambda u: u**3 + u, lambda u: 3 * u**2 + 1),
        (lambda u: np.exp(0.3 * u), lambda u: 0.3 * np.exp(0.3 * u)),
    ][seed % 3]
    x = rng.normal(size=n) * unit
    return lambda v: matrix @ value(v / unit), x, matrix * slope(x / unit) / unit


@pytest.mark.parametrize("spread", [3, 7])
def test_columns_of_any_size_are_right(spread):
    told = 0
    for seed in range(15):
        function, x, exact = drawn(seed, spread)
        size = np.abs(exact).max(0) + 1e-300
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            f, at = ad.external(function), ad.tensor(x)
            detected = ad.func.jacobian(f, sparsity="detect")(at).toarray()
            forward = ad.func.jacfwd(f)(at).numpy()
            direction = np.abs(x) * np.where(np.arange(x.size) % 2, 1, -1)
            pushed = ad.func.jvp(f, (at,), (ad.tensor(direction),))[1].numpy()
            mixed = ad.func.jvp(f, (at,), (ad.ones_like(at),))[1].numpy()
        if seen:  # that it may be wrong
            told += 1
            continue
        for found in (detected, forward):
            assert (np.abs(found - exact) <= 1e-6 * size).all()
        for found, v in ((pushed, direction), (mixed, np.ones(x.size))):
            wanted = np.abs(exact) @ np.abs(v)
            assert (np.abs(found - exact @ v) <= 1e-6 * wanted + 1e-300).all()
    assert told <= 2
