"""Bounds and constraints under SciPy's names, with tensors in them."""

import warnings

import numpy as np
import pytest

import adjoint as ad
from adjoint.optimize import Bounds, LinearConstraint, NonlinearConstraint, minimize

scipy_optimize = pytest.importorskip("scipy.optimize")
INF = np.inf


def far(x):
    return ((x - 3) ** 2).sum()


def rosen(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def row(a, *rest):
    return ad.stack([a, *(0 * a + r for r in rest)])


# The answer for a number, and the same in closed form.
CASES = {
    "bounds": (
        lambda a: minimize(far, [0.5, 0.5], bounds=Bounds(row(a, -9), [a**2 + 1, INF])).x,
        lambda a: ad.stack([a**2 + 1, 3 + 0 * a]),
    ),
    "a bound for all": (
        lambda a: minimize(far, [0.5, 0.5], bounds=Bounds(ub=a**2)).x,
        lambda a: ad.stack([a**2, a**2]),
    ),
    "a matrix": (
        lambda a: minimize(far, [0.0, 0.0], constraints=LinearConstraint([[1, a]], a, a)).x,
        lambda a: 3 + row(1 + 0 * a, a) * (-3 - 2 * a) / (1 + a**2),
    ),
    "a row": (
        lambda a: minimize(far, [0.0, 0.0], constraints=[LinearConstraint(row(a, 1), ub=1)]).x,
        lambda a: 3 + row(a, 1) * (1 - 3 * (1 + a)) / (1 + a**2),
    ),
    "limits without an end": (
        lambda a: (
            minimize(far, [0.1, 0.1], constraints=LinearConstraint(np.eye(2), -INF, [a, INF])).x
        ),
        lambda a: row(a, 3),
    ),
    "a function": (
        lambda a: (
            minimize(far, [0.1, 0.1], constraints=NonlinearConstraint(lambda x: x @ x, 0.0, a**2)).x
        ),
        lambda a: ad.stack([a, a]) / 2**0.5,
    ),
    "trust-constr": (
        lambda a: (
            minimize(
                far,
                [0.1, 0.1],
                method="trust-constr",
                bounds=Bounds(0, [a**2, 9]),
                constraints=LinearConstraint([0, 1], -INF, 2 * a),
            ).x
        ),
        lambda a: ad.stack([a**2, 2 * a]),
    ),
}
near = {"rtol": 1e-8, "atol": 1e-8}


@pytest.mark.parametrize("name", CASES)
def test_answers_are_differentiable_by_limits_and_matrices(name):
    f, exact = CASES[name]
    a = ad.tensor(1.1, dtype=ad.float64)
    for way in (
        lambda g: g,
        ad.func.jacrev,
        ad.func.jacfwd,
        lambda g: ad.func.jacfwd(ad.func.jacrev(g)),
    ):
        assert ad.allclose(way(f)(a), way(exact)(a), **near)
    rows = ad.tensor([1.05, 1.2], dtype=ad.float64)
    assert ad.allclose(ad.vmap(f)(rows), ad.vmap(exact)(rows), **near)


@pytest.mark.parametrize("name", sorted(set(CASES) - {"limits without an end"}))
def test_limits_are_parts_of_programs(name):
    f, _ = CASES[name]
    a = ad.tensor(1.1, dtype=ad.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ad.equal(ad.compile(f)(a), f(a))


@pytest.mark.parametrize(
    "given",
    [
        lambda m: {"bounds": m.Bounds([0, -0.5], [0.7, 2])},
        lambda m: {"bounds": m.Bounds(0, 0.7), "method": "trust-constr"},
        lambda m: {"constraints": [m.LinearConstraint([[1, 2], [2, 1]], [-INF, 1], [1, 1])]},
        lambda m: {
            "constraints": m.NonlinearConstraint(lambda x: [x[0] ** 2, x[1]], -1, [0.5, 0.3]),
            "bounds": m.Bounds(),
        },
    ],
)
@pytest.mark.filterwarnings("ignore")  # SciPy's, about forms of constraints
def test_answers_are_those_of_scipys_objects(given):
    ours, mixed = (minimize(rosen, [0.5, 0.0], **given(m)) for m in (ad.optimize, scipy_optimize))
    theirs = scipy_optimize.minimize(rosen, [0.5, 0.0], **given(scipy_optimize))
    np.testing.assert_allclose(ours.x, mixed.x, atol=1e-12)
    np.testing.assert_allclose(ours.x, theirs.x, atol=1e-3)
    assert ours.fun <= theirs.fun + 1e-5


def test_other_fits_take_bounds():
    target = ad.tensor([3.0, 0.5], dtype=ad.float64)
    fit = ad.optimize.least_squares(lambda x: x - target, [0.5, 0.5], bounds=Bounds(0, 1))
    line = ad.optimize.lsq_linear(np.eye(2), target, Bounds(0, [1, 1]))
    for x in (fit.x, line.x):
        np.testing.assert_allclose(x, [1, 0.5], rtol=1e-14)


def test_residuals_are_the_room_that_is_left():
    given = [[1.0, 2], [3, 4]]
    for m in (ad.optimize, scipy_optimize):
        low, high = m.Bounds(0, [1, 2]).residual(np.array([0.5, 0.5]))
        assert (low.tolist(), high.tolist()) == ([0.5, 0.5], [0.5, 1.5])
        low, high = m.LinearConstraint(given, 0, [1, 2]).residual(np.array([0.5, 0.5]))
        assert (low.tolist(), high.tolist()) == ([1.5, 3.5], [-0.5, -1.5])


@pytest.mark.parametrize(
    ("call", "error", "part"),
    [
        (lambda: Bounds([0, 1], [1, 2, 3]), ValueError, "2 and 3 elements"),
        (lambda: Bounds([[0, 1]]), ValueError, "at most one axis"),
        (lambda: Bounds(None, 1), ValueError, "not a number"),
        (lambda: LinearConstraint([[1, 2]], [0, 1]), ValueError, "for 1 rows"),
        (lambda: LinearConstraint([[[1.0]]]), ValueError, "a row or a matrix"),
        (lambda: NonlinearConstraint(3, 0, 1), TypeError, "LinearConstraint"),
        (lambda: minimize(far, [1, 1], bounds=Bounds([0] * 3)), ValueError, "3 bounds for 2"),
        (
            lambda: minimize(far, [1, 1], constraints=LinearConstraint([1, 2, 3], 0)),
            ValueError,
            "3 columns for 2 unknowns",
        ),
    ],
)
def test_limits_that_do_not_fit_are_refused_in_words(call, error, part):
    with pytest.raises(error, match=part):
        call()
