"""Every derivative by differences is verified where it is taken, not only where the first was."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import adjoint as ad


def float64(values, **options):
    return ad.tensor(values, dtype=ad.float64, **options)


def slope(f, x):
    x = float64(x, requires_grad=True)
    f(x).sum().backward()
    return x.grad.numpy()


def resonance(x):
    return 1 / ((1 - x**2) ** 2 + 1e-8 * x**2)


def resonance_slope(x):
    below = (1 - x**2) ** 2 + 1e-8 * x**2
    return (4 * x * (1 - x**2) - 2e-8 * x) / below**2


def bump(x):
    return x + np.exp(-(((x - 1.0) / 1e-4) ** 2))


def bump_slope(x):
    return 1 - 2 * (x - 1) / 1e-8 * np.exp(-(((x - 1.0) / 1e-4) ** 2))


@pytest.mark.parametrize("options", [{}, {"derivative": "forward"}, {"elementwise": True}])
@pytest.mark.parametrize(("function", "exact"), [(resonance, resonance_slope), (bump, bump_slope)])
def test_steps_are_chosen_anew_where_those_from_elsewhere_do_not_suit(function, exact, options):
    f = ad.external(function, **options)
    rtol = 1e-3 if options.get("derivative") == "forward" else 1e-5
    for x in ([0.5, 0.6], [0.99999, 1.00005], [0.5, 0.7], [1.00003, 0.4]):
        np.testing.assert_allclose(slope(f, x), exact(np.array(x)), rtol=rtol)


def test_a_tangent_is_verified_too():
    f = ad.external(resonance)
    for x in (0.5, 0.99999):
        found = ad.func.jvp(f, (float64(x),), (float64(1.0),))[1].item()
        assert found == pytest.approx(resonance_slope(x), rel=1e-5)


def upwind(u, wind):
    return wind * (u - np.roll(u, 1)) if wind > 0 else wind * (np.roll(u, -1) - u)


def test_a_pattern_that_no_longer_holds_is_refused():
    n = 8
    pattern = np.hstack([np.eye(n) + np.roll(np.eye(n), -1, axis=1), np.ones((n, 1))])
    f = ad.external(upwind, sparsity=pattern)
    u = float64(np.random.default_rng(0).normal(size=n), requires_grad=True)
    grad = ad.autograd.grad((f(u, float64(1.0)) ** 2).sum(), u)[0].numpy()
    jacobian = np.eye(n) - np.roll(np.eye(n), -1, axis=1)
    np.testing.assert_allclose(grad, 2 * jacobian.T @ jacobian @ u.detach().numpy(), rtol=1e-7)
    with pytest.raises(ad.external.ExternalError, match="sparsity= misses entries"):
        ad.autograd.grad((f(u, float64(-1.0)) ** 2).sum(), u)


def test_a_function_that_stops_being_elementwise_is_refused():
    mixed = False

    def function(x):
        return np.sin(x) + (np.roll(x, 1) if mixed else 0.0)

    f = ad.external(function, elementwise=True)
    for _ in range(2):
        np.testing.assert_allclose(slope(f, [0.1, 0.2, 0.3]), np.cos([0.1, 0.2, 0.3]), rtol=1e-8)
    mixed = True
    with pytest.raises(ad.external.ExternalError, match="not elementwise"):
        slope(f, [0.1, 0.2, 0.3])


def step_at_one(x):
    return np.where(x >= 1, 2.0, 0.0) + x


@pytest.mark.parametrize("options", [{}, {"elementwise": True}, {"derivative": "forward"}])
def test_a_jump_is_told_of_and_one_nearby_is_stepped_around(options):
    f = ad.external(step_at_one, **options)
    np.testing.assert_allclose(slope(f, [0.5, 3.0]), 1.0, rtol=1e-6)
    np.testing.assert_allclose(slope(f, [1.0000001, 3.0]), 1.0, rtol=1e-6)
    with pytest.warns(UserWarning, match=r"by x\[0\] = 1 may be wrong.*\n.*fix: noise="):
        slope(f, [1.0, 3.0])


@pytest.mark.parametrize("digits", [2, 3])
def test_a_staircase_is_told_of(digits):
    f = ad.external(lambda x: np.round(x, digits))
    with pytest.warns(UserWarning, match="of their size only"):
        slope(f, [1.23456])
    quiet = ad.external(lambda x: np.round(x, digits), noise=10.0**-digits)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slope(quiet, [1.23456])


def test_smooth_functions_of_all_scales_are_neither_warned_of_nor_stepped_twice():
    rng = np.random.default_rng(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for seed in range(10):
            f = ad.external(lambda x: np.exp(-x) * np.cumsum(x))
            counts = []
            for _ in range(3):
                x = rng.normal(size=12) * 10.0 ** rng.integers(-1, 2)
                x = np.clip(x, -5, 50)
                before = f.evaluator.count
                slope(f, x)
                counts.append(f.evaluator.count - before)
            assert counts[0] < 80, seed


def test_verify_false_takes_no_more_evaluations():
    f = ad.external(np.sin, verify=False)
    slope(f, [0.1, 0.2])
    before = f.evaluator.count
    slope(f, [0.1, 0.2])
    assert f.evaluator.count - before == 1 + 4


@pytest.mark.parametrize("derivative", ["central", "forward"])
@pytest.mark.parametrize(
    ("function", "at"),
    [(lambda v: v - np.floor(v), 3.0), (np.cbrt, 0.0), (lambda v: np.where(v > 0, 1.0, 0.0), 0.0)],
    ids=["saw", "steep", "step"],
)
def test_slopes_that_grow_without_end_where_the_function_is_zero_are_told_of(
    function, at, derivative
):
    x = ad.tensor(at, dtype=ad.float64, requires_grad=True)
    with pytest.warns(UserWarning, match="may be wrong"):
        ad.external(function, derivative=derivative)(x).backward()


@pytest.mark.parametrize("options", [{}, {"derivative": "forward"}, {"elementwise": True}])
@pytest.mark.parametrize("power", [2, 3, 5])
def test_a_claim_holds_where_the_function_is_flat(options, power):
    claim = {} if "elementwise" in options else {"sparsity": np.eye(4)}
    x = ad.zeros(4, dtype=ad.float64, requires_grad=True)
    ad.external(lambda v: v**power, **options, **claim)(x).sum().backward()
    assert float(x.grad.abs().max()) < 1e-7


def _one_over(x):
    with np.errstate(divide="ignore"):
        return 1 / x


def _sinc(x):
    with np.errstate(invalid="ignore"):
        return np.sin(x) / x


@pytest.mark.parametrize("function", [_one_over, _sinc])
@pytest.mark.parametrize(
    "how",
    [
        {},
        {"derivative": "forward"},
        {"derivative": "richardson"},
        {"derivative": "spsa"},
        {"elementwise": True},
        {"sparsity": np.eye(2)},
    ],
    ids=str,
)
def test_what_has_no_value_has_no_derivative(function, how):
    f = ad.external(function, **how)
    x = ad.tensor([0.0, 1.0], dtype=ad.float64, requires_grad=True)
    (slope,) = ad.autograd.grad(f(x)[0], x)  # the values on both sides are numbers
    assert slope[0].isnan()
    (other,) = ad.autograd.grad(f(x)[1], x)  # outputs that are not used do not matter
    assert other.isfinite().all()
    tangent = ad.func.jvp(f, (x.detach(),), (ad.ones(2, dtype=ad.float64),))[1]
    assert tangent.isnan().tolist()[0]
