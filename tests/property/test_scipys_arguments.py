"""What SciPy's users write means the same here: arguments by place, by name, and results.

An argument that stands in another place than SciPy's would be taken for something else without a
word; those that are not there are refused by Python itself.
"""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import adjoint as ad
from adjoint import integrate, interpolate, optimize, signal
from adjoint.sparse import linalg

scipy = pytest.importorskip("scipy")

ROOMS = {
    "optimize": optimize,
    "integrate": integrate,
    "interpolate": interpolate,
    "signal": signal,
    "sparse.linalg": linalg,
}
REFUSED = {"linprog", "milp"}
OWN = {"OptimizeResult", "LinearOperator", "windows"}  # not functions that are called with these
DOUBLE = {"dtype": ad.float64}


def pairs():
    for room, ours in ROOMS.items():
        theirs = importlib.import_module(f"scipy.{room}")
        for name in sorted(set(ours.__all__) - OWN - REFUSED):
            if hasattr(theirs, name):
                yield pytest.param(getattr(ours, name), getattr(theirs, name), id=f"{room}.{name}")


def places(function):
    parameters = inspect.signature(function).parameters.values()
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [p.name for p in parameters if p.kind in by_place]


@pytest.mark.parametrize(("ours", "theirs"), list(pairs()))
def test_arguments_by_place_are_scipys(ours, theirs):
    here, there = places(ours), places(theirs)
    if ours is optimize.fixed_point:
        there = [*there, "options"]
    assert here[: len(there)] == there[: len(here)]


def numbers(value):
    return np.asarray(value.detach() if isinstance(value, ad.Tensor) else value, float)


def same(found, wanted, close=1e-6):
    np.testing.assert_allclose(numbers(found), numbers(wanted), rtol=close, atol=close)


def test_root_scalar_takes_functions_that_give_derivatives():
    def cubic(x):
        return x**3 - 1, 3 * x**2, 6 * x

    same(optimize.root_scalar(lambda x: cubic(x)[:2], x0=0.2, fprime=True).root, 1.0)
    same(optimize.root_scalar(cubic, x0=0.2, fprime=True, fprime2=True).root, 1.0)
    same(optimize.root_scalar(cubic, bracket=(0, 3), fprime=True, fprime2=True).root, 1.0)


@pytest.mark.parametrize(
    "options",
    [
        {"jac": "2-point", "diff_step": 1e-6},
        {"jac": "3-point"},
        {"jac": "cs"},
        {"jac": lambda p: np.zeros((2, 2))},  # not needed, and not used
        {"jac_sparsity": np.ones((2, 2))},
        {"tr_solver": "lsmr", "tr_options": {"regularize": True}},
        {"tr_solver": "exact"},
    ],
    ids=lambda o: "-".join(o),
)
def test_least_squares_takes_scipys_options(options):
    a = ad.tensor(1.0, requires_grad=True, **DOUBLE)

    def residuals(p):
        return ad.stack([10 * (p[1] - p[0] ** 2), a - p[0]])

    found = optimize.least_squares(residuals, [2.0, 2.0], **options)
    same(found.x, [1.0, 1.0])
    same(ad.autograd.grad(found.x.sum(), a)[0], 3.0)  # of a + a**2


def test_least_squares_refuses_a_jac_that_is_none():
    with pytest.raises(ValueError, match="'2-point'"):
        optimize.least_squares(lambda p: p - 1, [2.0], jac="4-point")


def model(m):
    return lambda x, a, b, c: a * m.exp(-b * x) + c


def test_curve_fit_begins_between_bounds_and_tells_all():
    x = np.linspace(0, 4, 50)
    y = model(np)(x, 2.5, 1.3, 0.5) + 0.2 * np.random.default_rng(0).normal(size=50)
    for bounds in ((0, [3.0, 1.0, 0.5]), (-np.inf, [3.0, 1.0, 0.5]), (2, np.inf)):
        ours = optimize.curve_fit(model(ad), x, y, bounds=bounds)
        theirs = scipy.optimize.curve_fit(model(np), x, y, bounds=bounds)
        same(ours[0], theirs[0], 1e-4)
    popt, _, info, message, flag = optimize.curve_fit(model(ad), x, y, full_output=True)
    same(info["fvec"], numbers(model(ad)(ad.tensor(x), *popt)) - y)
    assert info["nfev"] > 0
    assert isinstance(message, str)
    assert flag in (1, 2, 3, 4)
    with pytest.raises(ValueError, match="nan_policy"):
        optimize.curve_fit(model(ad), x, y, nan_policy="omit")


def test_linear_fits_take_whole_numbers_and_bounds_objects():
    A, b = np.array([[1, 0], [1, 0], [0, 1]]), np.array([2, 1, 1])
    same(optimize.nnls(A, b)[0], scipy.optimize.nnls(A, b)[0])
    bounds = scipy.optimize.Bounds([0.0, 0.0], [1.0, 0.5])
    ours, theirs = optimize.lsq_linear(A, b, bounds), scipy.optimize.lsq_linear(A, b, bounds)
    same(ours.x, theirs.x)
    assert ours.status == 1
    assert ours.optimality < 1e-12
    with pytest.raises(ValueError, match="'trf' or 'bvls'"):
        optimize.lsq_linear(A, b, method="svd")


def test_results_have_what_scipys_methods_tell():
    def fun(x):
        return ((x - 1) ** 4).sum() + (x**2).sum()

    assert optimize.minimize(fun, [0.0, 0.5]).hess_inv.shape == (2, 2)
    assert optimize.minimize(fun, [0.0, 0.5], method="trust-ncg").nhev > 0
    found = optimize.root(lambda x: x**3 - 2, 1.0, method="hybr")
    assert (found.status, found.success, found.method) == (1, True, "hybr")


def test_odeint_takes_scipys_arguments():
    def pendulum(y, t, b, c):
        return [y[1], -b * y[1] - c * ad.sin(y[0])]

    def slopes(y, t, b, c):
        return [[0.0, 1.0], [-c * ad.cos(y[0]), -b]]

    t = np.linspace(0, 2, 11)
    wanted = scipy.integrate.odeint(
        lambda y, t, b, c: [y[1], -b * y[1] - c * np.sin(y[0])], [3.0, 0.0], t, args=(0.25, 5.0)
    )
    tight = {"rtol": 1e-9, "atol": 1e-9, "hmax": 0.5, "h0": 1e-3, "mxstep": 5000}
    found, info = integrate.odeint(
        pendulum, [3.0, 0.0], t, (0.25, 5.0), slopes, False, True, **tight
    )
    same(found, wanted, 1e-5)
    assert info["nfe"] > 0
    by_jacobian = integrate.odeint(
        pendulum, [3.0, 0.0], t, (0.25, 5.0), slopes, method="Radau", **tight
    )
    same(by_jacobian, wanted, 1e-5)
    with pytest.raises(TypeError, match="mxordn"):
        integrate.odeint(pendulum, [3.0, 0.0], t, (0.25, 5.0), mxordn=5)


def test_methods_of_solve_ivp_may_be_scipys_classes():
    found = integrate.solve_ivp(
        lambda t, y: -y, (0, 1), [1.0], scipy.integrate.Radau, rtol=1e-8, atol=1e-8
    )
    same(found.y[0, -1], np.exp(-1))


def test_ends_of_time_that_are_samples_are_refused_in_words():
    with pytest.raises(NotImplementedError, match="t_span"):
        ad.vmap(lambda a: integrate.solve_ivp(lambda t, y: -y, (0.0, a), [1.0]).y[0, -1])(
            ad.tensor([1.0, 2.0], **DOUBLE)
        )


def test_the_exponential_at_several_times():
    A = scipy.sparse.diags_array([1.0, -2, 1], offsets=[-1, 0, 1], shape=(8, 8)).tocsc()
    b = np.cos(np.arange(8.0))
    for start, stop, num, endpoint in ((0.5, 2.0, 4, True), (0.0, 1.0, 3, False), (1, 0, 5, None)):
        times = np.linspace(start, stop, num, endpoint is not False)
        wanted = [scipy.linalg.expm(t * A.toarray()) @ b for t in times]
        same(linalg.expm_multiply(A, b, start, stop, num, endpoint), wanted)
    with pytest.raises(TypeError, match="start= and stop="):
        linalg.expm_multiply(A, b, num=3)


def test_right_sides_may_be_scipys_sparse_matrices():
    A = scipy.sparse.csc_array([[3.0, 2, 0], [1, -1, 0], [0, 5, 1]])
    B = scipy.sparse.csc_array([[2.0, 0], [-1, 0], [2, 0]])
    same(linalg.spsolve(A, B), scipy.sparse.linalg.spsolve(A, B).toarray())


X, Y = np.arange(6.0), np.sin(np.arange(6.0))
BEYOND = np.array([7.5, -2.25, 3.3, -9.0, 20.0])


@pytest.mark.parametrize(
    "options",
    [
        {"bounds_error": False},
        {"bounds_error": False, "fill_value": (-1.0, 1.0)},
        {"bounds_error": False, "fill_value": 3.0},
        {"fill_value": "extrapolate"},
        {"kind": "slinear", "fill_value": "extrapolate"},
        {"kind": "zero", "bounds_error": False},
        {"kind": "cubic", "bounds_error": False, "fill_value": (0.0, np.nan)},
    ],
    ids=str,
)
def test_interp1d_beyond_its_nodes(options):
    ours, theirs = (m.interp1d(X, Y, **options) for m in (interpolate, scipy.interpolate))
    same(ours(BEYOND), theirs(BEYOND))
    two = np.stack([Y, Y**2])
    ours, theirs = (m.interp1d(X, two, **options) for m in (interpolate, scipy.interpolate))
    same(ours(BEYOND), theirs(BEYOND))


@pytest.mark.parametrize("extrapolate", [None, True, False, "periodic"])
@pytest.mark.parametrize("ends", ["periodic", "natural"])
def test_splines_beyond_their_nodes(ends, extrapolate):
    values = np.append(Y[:-1], Y[0])
    ours, theirs = (
        m.CubicSpline(X, values, bc_type=ends, extrapolate=extrapolate)
        for m in (interpolate, scipy.interpolate)
    )
    for order in (0, 1, 2):
        same(ours(BEYOND, order), theirs(BEYOND, order))
    for a, b in ((0.5, 3.0), (-7.0, 13.5), (4.0, 1.0)):
        same(ours.integrate(a, b), theirs.integrate(a, b))
    with pytest.raises(ValueError, match="extrapolate"):
        interpolate.CubicSpline(X, values, extrapolate="constant")
