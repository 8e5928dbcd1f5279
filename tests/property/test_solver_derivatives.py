"""Answers of solvers, their first and second derivatives, in units from 1e-8 to 1e8.

Each problem has a parameter and an answer in closed form, or as the root of an equation, which
mpmath differentiates with thirty digits. Unknowns, times and equations have drawn units.
"""

import functools
import math

import numpy as np
import pytest

import adjoint as ad

mp = pytest.importorskip("mpmath")
pytest.importorskip("scipy")

DOUBLE = {"dtype": ad.float64}
optimize, integrate, sparse = ad.optimize, ad.integrate, ad.sparse


def tensor(values):
    return ad.tensor(values, **DOUBLE)


def cubic(p):
    """The x with x + x³ = p."""
    return mp.findroot(lambda x: x + x**3 - p, 0.7)


def by_root(method, p, u, v):
    return optimize.root(lambda z: v * ((z / u) ** 3 + z / u - p), tensor([u]), method=method).x / u


def roots_of_two_units(p, u, v):
    def fun(z):
        x, y = z[0] / u, z[1] / v
        return ad.stack([v * (x + x**3 - p), u * (y - x**2)])

    return optimize.root(fun, tensor([0.5 * u, 0.5 * v])).x[1] / v


def fixed(p, u, v):
    return optimize.fixed_point(lambda z: u * ad.cos(p * z / u), tensor([u])) / u


def scalar(p, u, v):
    return (
        optimize.root_scalar(lambda x: v * ((x / u) ** 3 + x / u - p), bracket=(0.0, 2 * u)).root
        / u
    )


def energy(z, p, u, w):
    x, y = z[0] / u, z[1] * w
    return (x - p) ** 2 / 2 + x**4 / 4 + (y - p) ** 2 / 2 + y**4 / 4 + x * y / 2


def minimum(p, u, v, w=None, **options):
    w = u if w is None else w
    start = tensor([0.1 * u, 0.1 / w])
    return optimize.minimize(lambda z: v * energy(z, p, u, w), start, **options).x[0] / u


def at_bound(p, u, v):
    return minimum(p, u, v, bounds=[(None, None), (None, 0.2 / u)])


def constrained(p, u, v):
    sum_of_both = {"type": "eq", "fun": lambda z: z[0] / u + z[1] / u - 1}
    return (
        optimize.minimize(
            lambda z: (p * (z[0] / u) ** 2 + (z[1] / u) ** 2) / 2,
            tensor([0.3 * u, 0.3 * u]),
            constraints=sum_of_both,
        ).x[0]
        / u
    )


def fitted(p, u, v):
    def residuals(z):
        return v * ad.stack([z[0] / u - p, (z[0] / u) ** 2 - p])

    return optimize.least_squares(residuals, tensor([u])).x / u


def curve(p, u, v):
    x = tensor([1.0, 2.0, 3.0])
    data = v * (p**2 * x + ad.sin(p))
    return optimize.curve_fit(lambda x, a: v * a / u * x, x, data, p0=[u])[0] / u


def exact_curve(p):
    return sum(x * (p**2 * x + mp.sin(p)) for x in (1, 2, 3)) / 14


def matrix(p, v):
    one = tensor(1.0) * p
    return ad.sparse.diags_array(
        [-v * one.expand(4), (2 + p) * v * one.expand(5), -v * one.expand(4)], offsets=[-1, 0, 1]
    )


def linear(solve, p, u, v):
    x = solve(matrix(p, v), u * ad.ones(5, **DOUBLE))
    return (x[0] if isinstance(x, tuple) else x).sum() * v / u


def banded(p, u, v):
    side, middle = -v * p.expand(5), (2 + p) * v * p.expand(5)
    return (
        ad.linalg.solve_banded(
            (1, 1), ad.stack([side, middle, side]), u * ad.ones(5, **DOUBLE)
        ).sum()
        * v
        / u
    )


def exact_linear(p):
    a = mp.matrix(5, 5)
    for k in range(5):
        a[k, k] = (2 + p) * p
        if k:
            a[k, k - 1] = a[k - 1, k] = -p
    return sum(mp.lu_solve(a, mp.matrix([1] * 5)))


def largest_value(p, u, v):
    side, middle = -p.expand(4), 2 * p * p.expand(5)
    a = ad.sparse.diags_array([v * side, v * middle, v * side], offsets=[-1, 0, 1])
    return sparse.linalg.eigsh(a, 1)[0] / v


def ode(method, p, u, v):
    found = integrate.solve_ivp(
        lambda t, y: -p * y * y / (u * v), (0.0, v), [u], method, rtol=1e-9, atol=1e-12 * u
    )
    return found.y[0, -1] / u


def event(p, u, v):
    def low(t, y):
        return (y[0] - u / 4) / u

    low.terminal = True
    found = integrate.solve_ivp(
        lambda t, y: -p * y / v, (0.0, 9 * v), [u], events=low, rtol=1e-10, atol=1e-12 * u
    )
    return found.event(0) / v


def boundary(p, u, v):
    mesh, guess = v * ad.linspace(0, 1, 9, **DOUBLE), ad.zeros(2, 9, **DOUBLE)

    def slope(x, y):
        return ad.stack([y[1] / v, p**2 * y[0] / v])

    def ends(a, b):
        return ad.stack([a[0] / u - 1, b[0] / u])

    return integrate.solve_bvp(slope, ends, mesh, guess, tol=1e-7).sol(v / 2)[0] / u


STEPS = 4


def noisy(p, u, v):
    found = integrate.solve_sde(
        lambda t, y: -p * y,
        lambda t, y: 0.2 * p * y,
        (0.0, 1.0),
        tensor([u]),
        "euler",
        steps=STEPS,
        seed=3,
    )
    return found.y[0, -1] / u


@functools.cache
def increments():
    found = integrate.solve_sde(
        lambda t, y: 0 * y,
        lambda t, y: 0 * y,
        (0.0, 1.0),
        tensor([1.0]),
        "euler",
        steps=STEPS,
        seed=3,
    )
    return np.diff([float(found.path(k / STEPS)) for k in range(STEPS + 1)]).tolist()


def exact_noisy(p):
    return mp.fprod(1 - p / STEPS + 0.2 * p * w for w in increments())


def area(p, u, v):
    return integrate.quad(lambda x: v * ad.exp(-p * x / u), 0.0, u)[0] / (u * v)


def spline(p, u, v):
    nodes = u * ad.arange(5, **DOUBLE)
    return ad.interpolate.CubicSpline(nodes, v * p * (nodes / u) ** 3)(p * u) / v


def filtered(p, u, v):
    ones = ad.ones(4, **DOUBLE)
    return ad.signal.lfilter(ad.stack([v + 0 * p]), ad.stack([1 + 0 * p, -p / 2]), u * ones)[-1] / (
        u * v
    )


def convolved(p, u, v):
    a, b = u * p * tensor([1.0, 2.0, 3.0]), v * ad.stack([p, p**2])
    return (ad.signal.fftconvolve(a, b)[1]) / (u * v)


def crossed(p):
    return mp.findroot(lambda x, y: (x - p + x**3 + y / 2, y - p + y**3 + x / 2), (0.5, 0.5))[0]


CASES = {
    **{
        f"root by {m}": (functools.partial(by_root, m), cubic)
        for m in ("newton", "broyden", "hybr")
    },
    "root of two units": (roots_of_two_units, lambda p: cubic(p) ** 2),
    "fixed_point": (fixed, lambda p: mp.findroot(lambda x: x - mp.cos(p * x), 0.7)),
    "root_scalar": (scalar, cubic),
    "minimize": (minimum, crossed),
    "minimize by L-BFGS-B": (functools.partial(minimum, method="L-BFGS-B"), crossed),
    "at a bound": (at_bound, lambda p: cubic(p - mp.mpf("0.1"))),
    "constrained": (constrained, lambda p: 1 / (1 + p)),
    "least_squares": (
        fitted,
        lambda p: mp.findroot(lambda x: x - p + 2 * x * (x * x - p), 0.9),
    ),
    "curve_fit": (curve, exact_curve),
    "spsolve": (functools.partial(linear, sparse.linalg.spsolve), exact_linear),
    "cg": (functools.partial(linear, sparse.linalg.cg), exact_linear),
    "gmres": (functools.partial(linear, sparse.linalg.gmres), exact_linear),
    "solve_banded": (banded, exact_linear),
    "eigsh": (largest_value, lambda p: 2 * p * p + 2 * p * mp.cos(mp.pi / 6)),
    **{
        f"solve_ivp by {m}": (functools.partial(ode, m), lambda p: 1 / (1 + p))
        for m in ("RK45", "DOP853", "Radau", "BDF", "Rodas5P")
    },
    "event": (event, lambda p: mp.log(4) / p),
    "solve_bvp": (boundary, lambda p: mp.sinh(p / 2) / mp.sinh(p)),
    "solve_sde": (noisy, exact_noisy),
    "quad": (area, lambda p: (1 - mp.exp(-p)) / p),
    "CubicSpline": (spline, lambda p: p**4),
    "lfilter": (filtered, lambda p: 1 + p / 2 + p**2 / 4 + p**3 / 8),
    "fftconvolve": (convolved, lambda p: 2 * p**2 + p**3),
}
ROUGH = {"solve_ivp": 1e-5, "solve_bvp": 1e-5, "event": 1e-6, "cg": 1e-7, "gmres": 1e-7}


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("seed", [0, 1])
def test_derivatives_are_those_of_the_exact_answer_in_any_unit(name, seed):
    solve, exact = CASES[name]
    rng = np.random.default_rng([seed, *name.encode()])
    p = float(rng.uniform(0.8, 1.3))
    u, v = (10.0 ** rng.uniform(-8, 8) for _ in range(2))
    tolerance = next((t for kind, t in ROUGH.items() if name.startswith(kind)), 1e-9)

    def answer(p):
        return solve(p, u, v).reshape(())

    slope = ad.func.grad(answer)
    with mp.workdps(30):
        wanted = [float(mp.diff(exact, mp.mpf(p), k)) for k in range(3)]
    found = [float(f(tensor(p))) for f in (answer, slope, ad.func.grad(slope))]
    for got, right, times in zip(found, wanted, (1, 10, 100), strict=True):
        assert math.isclose(got, right, rel_tol=times * tolerance, abs_tol=times * tolerance), (
            u,
            v,
        )


def never(t, y):
    return y[0] + 5


FAILURES = {
    "no root": (lambda: optimize.root(lambda x: x * x + 1, 1.0), "found no answer"),
    "singular": (
        lambda: optimize.root(lambda x: ad.stack([x[0], x[0] - 1]), [1.0, 1.0]),
        "singular",
    ),
    "not finite": (lambda: optimize.root(lambda x: x * math.nan, 1.0), "not finite"),
    "no minimum": (lambda: optimize.minimize(lambda x: (-(x**3)).sum(), [1.0]), "found no minimum"),
    "no event": (
        lambda: integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0], events=never).event(0),
        "event",
    ),
    "a pole": (lambda: integrate.solve_ivp(lambda t, y: y**2, (0, 2), [1.0], "Rodas3"), "stopped"),
    "no solution": (
        lambda: sparse.linalg.cg(-matrix(tensor(1.0), 1.0) * math.nan, ad.ones(5, **DOUBLE)),
        "not finite",
    ),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of SciPy's, on the way
@pytest.mark.parametrize("name", list(FAILURES))
def test_a_problem_without_an_answer_is_one_clear_error(name):
    call, text = FAILURES[name]
    with pytest.raises((optimize.ConvergenceError, ValueError), match=text):
        call()


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])
def test_no_minimum_lies_beyond_its_bounds(unit):
    a = tensor(0.5).requires_grad_()
    found = optimize.minimize(
        lambda z: (z[0] / unit - 2 * a) ** 2 + (z[1] / unit - a) ** 2,
        tensor([0.1 * unit, 0.1 * unit]),
        bounds=[(0, 0.4 * unit), (0, unit)],
    )
    assert found.active.tolist() == [0]
    ad.testing.assert_close(found.x.detach() / unit, tensor([0.4, 0.5]))
    found.x.sum().backward()
    assert math.isclose(a.grad.item(), unit)


def test_a_minimum_is_found_in_the_step_of_a_scan():
    def step(total, p):
        return total + minimum(p, 1.0, 1.0), None

    total, _ = ad.scan(step, tensor(0.0), tensor([0.9, 1.1]))
    assert math.isclose(float(total), float(crossed(0.9) + crossed(1.1)), rel_tol=1e-9)
