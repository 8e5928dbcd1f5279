"""Methods for stiff problems and for high accuracy, mass matrices, Jacobians that are given."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.func import grad, hessian, vmap
from adjoint.integrate import solve_ivp
from adjoint.optimize import ConvergenceError

DOUBLE = {"dtype": ad.float64}
METHODS = ["RK45", "RK23", "DOP853", "Radau", "BDF", "Rodas5P", "Rodas3"]
IMPLICIT = ["Radau", "BDF", "Rodas5P", "Rodas3"]


def tight(method: str) -> dict[str, Any]:
    """Tolerances that a method reaches in some hundred steps."""
    low = method in ("RK23", "Rodas3")
    return {"rtol": 1e-5, "atol": 1e-8} if low else {"rtol": 1e-8, "atol": 1e-10}


def fading(t: ad.Tensor, y: ad.Tensor, k: ad.Tensor) -> ad.Tensor:
    return -k * y * (1 + ad.sin(t))


def faded(k: ad.Tensor) -> ad.Tensor:
    return ad.exp(-k * (3 - math.cos(2.0)))


@pytest.mark.parametrize("method", METHODS)
def test_a_compiled_solution_is_that_of_eager_with_its_gradient(method: str) -> None:
    def end(k: ad.Tensor) -> ad.Tensor:
        return solve_ivp(
            fading, (0.0, 2.0), [1.0], method, args=(k,), t_eval=[1.0, 2.0], **tight(method)
        ).y[0, -1]

    k = ad.tensor(0.7, **DOUBLE, requires_grad=True)
    compiled = ad.compile(end)
    for _ in range(2):
        value = compiled(k)
        (slope,) = ad.autograd.grad(value, k)
        assert float(value) == float(end(k))
        assert math.isclose(float(slope), float(ad.autograd.grad(end(k), k)[0]), rel_tol=1e-12)
    assert math.isclose(float(slope), float(grad(faded)(k.detach())), rel_tol=1e-3)


@pytest.mark.parametrize("method", ["RK45", "Rodas5P", "BDF"])
def test_a_solution_within_a_scan(method: str) -> None:
    def product(k: ad.Tensor) -> ad.Tensor:
        def step(y: ad.Tensor, _: None) -> Any:
            options = tight(method)
            found = solve_ivp(fading, (0.0, 2.0), y, method, args=(k,), t_eval=[2.0], **options)
            return found.y[:, -1], None

        return ad.scan(step, ad.ones(1, **DOUBLE), length=4)[0][0]

    k = ad.tensor(0.3, **DOUBLE)
    for order in (lambda f: f, grad):
        assert math.isclose(
            float(order(product)(k)), float(order(lambda k: faded(k) ** 4)(k)), rel_tol=1e-5
        )


@pytest.mark.parametrize("method", ["DOP853", "Radau", "BDF"])
def test_three_derivatives_on_a_badly_scaled_problem(method: str) -> None:
    """Rates and amounts that lie twelve orders of magnitude apart."""
    scale = ad.tensor([1e-9, 1e3], **DOUBLE)

    def end(k: ad.Tensor) -> ad.Tensor:
        def slope(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            x = y / scale
            return ad.stack([-k * x[0] * x[0], k * x[0] - 3 * x[1]]) * scale

        atol = scale * 1e-11
        found = solve_ivp(slope, (0.0, 1.0), scale, method, t_eval=[1.0], rtol=1e-9, atol=atol)
        return found.y[0, -1] / 1e-9

    k = ad.tensor(0.8, **DOUBLE)
    of, exact = end, lambda k: 1 / (1 + k)
    for _ in range(4):
        assert math.isclose(float(of(k)), float(exact(k)), rel_tol=2e-6)
        of, exact = grad(of), grad(exact)


def test_derivatives_of_stiff_kinetics_against_mpmath_to_second_order() -> None:
    """A stiff linear chain, whose solution is a matrix exponential."""
    mpmath = pytest.importorskip("mpmath")

    def exact(a: Any) -> Any:
        rates = mpmath.matrix([[-a, 0, 0], [a, -1e4 * a, 1.0], [0, 1e4 * a, -1.0]])
        return (mpmath.expm(rates * 2) * mpmath.matrix([1, 0, 0]))[2]

    def end(a: ad.Tensor, method: str) -> ad.Tensor:
        def slope(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            first, second = a * y[0], 1e4 * a * y[1] - y[2]
            return ad.stack([-first, first - second, second])

        found = solve_ivp(
            slope, (0.0, 2.0), [1.0, 0.0, 0.0], method, t_eval=[2.0], rtol=1e-8, atol=1e-11
        )
        return found.y[2, -1]

    with mpmath.workdps(30):
        wanted = [float(mpmath.diff(exact, 0.5, n)) for n in (1, 2)]
    at = ad.tensor(0.5, **DOUBLE)
    for method, tolerance in (("Radau", 1e-6), ("Rodas5P", 1e-6), ("BDF", 1e-4)):
        first = grad(lambda a, m=method: end(a, m))
        found = [float(first(at)), float(grad(first)(at))]
        assert np.allclose(found, wanted, rtol=tolerance, atol=0), (method, found, wanted)


# -- mass matrices ---------------------------------------------------------------------------------

MASS = [[1.0, 0.0], [0.0, 0.0]]


def bernoulli(p: ad.Tensor) -> ad.Tensor:
    """X at t = 1 for x' = -p0 x + p1 x², x(0) = 1/2."""
    return 1 / ((2 - p[1] / p[0]) * ad.exp(p[0]) + p[1] / p[0])


@pytest.mark.parametrize("method", IMPLICIT)
def test_a_system_with_an_equation_without_a_derivative(method: str) -> None:
    def end(p: ad.Tensor) -> ad.Tensor:
        def slope(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
            return ad.stack([-p[0] * y[0] + y[1], y[1] - p[1] * y[0] ** 2])

        start = ad.stack([0.5 + 0 * p[0], 0.25 * p[1]])
        found = solve_ivp(
            slope, (0.0, 1.0), start, method, mass=MASS, t_eval=[1.0], **tight(method)
        )
        return found.y[0, -1]

    p = ad.tensor([0.8, 0.6], **DOUBLE)
    close = {"rtol": 1e-3 if method in ("Rodas3", "BDF") else 1e-6, "atol": 1e-9}
    ad.testing.assert_close(end(p), bernoulli(p), **close)
    ad.testing.assert_close(grad(end)(p), grad(bernoulli)(p), **close)
    ad.testing.assert_close(hessian(end)(p), hessian(bernoulli)(p), **close)
    several = ad.stack([p, 1.2 * p])
    ad.testing.assert_close(vmap(end)(several), vmap(bernoulli)(several), **close)
    ad.testing.assert_close(ad.compile(end)(p), bernoulli(p), **close)


def test_the_mass_matrix_has_a_gradient() -> None:
    def end(m: ad.Tensor) -> ad.Tensor:
        mass = ad.diag(ad.stack([m, 1 + 0 * m]))
        found = solve_ivp(lambda t, y: -y, (0, 1), [1.0, 2.0], "Radau", mass=mass, rtol=1e-9)
        return found.y[0, -1]

    m = ad.tensor(2.0, **DOUBLE)
    assert math.isclose(float(grad(end)(m)), 0.25 * math.exp(-0.5), rel_tol=1e-6)


def test_what_is_wrong_with_a_mass_matrix_is_told() -> None:
    def slope(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        return ad.stack([-y[0] + y[1], y[1] - y[0] ** 2])

    with pytest.raises(ValueError, match="y0 does not satisfy the equations"):
        solve_ivp(slope, (0, 1), [0.5, 1.0], "Radau", mass=MASS)
    compiled = ad.compile(
        lambda y: solve_ivp(slope, (0.0, 1.0), y, "Radau", mass=MASS, t_eval=[1.0]).y
    )
    compiled(ad.tensor([0.5, 0.25], **DOUBLE))
    for _ in range(2):
        with pytest.raises(ValueError, match="y0 does not satisfy the equations"):
            compiled(ad.tensor([0.5, 1.0], **DOUBLE))
    with pytest.raises(ValueError, match="explicit methods take no mass matrix"):
        solve_ivp(slope, (0, 1), [0.5, 0.25], mass=MASS)
    with pytest.raises(ValueError, match=r"mass has the shape \[3, 3\]"):
        solve_ivp(slope, (0, 1), [0.5, 0.25], "BDF", mass=ad.eye(3))
    # Index 2: the second equation says nothing about the second unknown.
    index_2 = {"mass": MASS, "method": "Radau", "max_steps": 50}
    with pytest.raises(ConvergenceError, match="index 1"):
        solve_ivp(
            lambda t, y: ad.stack([0 * y[1], y[0] - ad.cos(t)]), (0, 1), [1.0, 0.0], **index_2
        )


# -- the derivative matrix -------------------------------------------------------------------------


@pytest.mark.parametrize("method", IMPLICIT)
def test_a_jacobian_or_its_pattern_may_be_given(method: str) -> None:
    n = 12
    pattern = np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    matrix = ad.from_numpy(100 * (pattern - 3 * np.eye(n)))
    start = ad.sin(ad.linspace(0, 3, n, **DOUBLE))

    def heat(t: ad.Tensor, u: ad.Tensor) -> ad.Tensor:
        return matrix @ u

    def end(**options: Any) -> ad.Tensor:
        return solve_ivp(heat, (0, 0.1), start, method, rtol=1e-5, atol=1e-8, **options).y[:, -1]

    plain = end()
    for given in ({"jac": matrix}, {"jac": lambda t, u: matrix}, {"jac_sparsity": pattern}):
        ad.testing.assert_close(end(**given), plain, rtol=1e-7, atol=1e-12)
    with pytest.raises(ValueError, match="is not the derivative of fun"):
        end(jac=-matrix)
    with pytest.raises(ValueError, match="is not the derivative of fun"):
        end(jac_sparsity=np.eye(n))


def test_a_vectorized_function_is_called_with_a_column() -> None:
    shapes = set()

    def slope(t: ad.Tensor, y: ad.Tensor) -> ad.Tensor:
        shapes.add(tuple(y.shape))
        return -y

    found = solve_ivp(slope, (0, 1), [1.0, 2.0], vectorized=True, rtol=1e-8)
    assert shapes == {(2, 1)} and math.isclose(float(found.y[0, -1]), math.exp(-1), rel_tol=1e-5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rtol": -1}, "rtol is -1"),
        ({"atol": -1.0}, "atol is -1.0"),
        ({"first_step": -1}, "first_step is -1"),
        ({"first_step": 9}, "longer than the interval"),
        ({"max_step": 0}, "max_step is 0"),
        ({"max_steps": 0}, "max_steps is 0"),
        ({"t_eval": [3.0]}, "the time 3 lies outside"),
        ({"gradient": "best"}, "no gradient 'best'"),
        ({"method": "Euler"}, "no method 'Euler'"),
    ],
)
def test_bad_arguments_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        solve_ivp(lambda t, y: -y, (0, 1), [1.0], **options)


def test_failures_of_every_method_are_told() -> None:
    for method in METHODS:
        with pytest.raises(ConvergenceError, match="not finite"):
            solve_ivp(lambda t, y: ad.sqrt(0.5 - t) * y, (0, 2), [1.0], method)
    compiled = ad.compile(lambda y: solve_ivp(lambda t, y: y * y, (0.0, 2.0), y, t_eval=[2.0]).y)
    with pytest.raises(ConvergenceError, match="the step became too short"):
        compiled(ad.ones(1, **DOUBLE))
    assert compiled(-ad.ones(1, **DOUBLE)).shape == (1, 1)
    with pytest.raises(ConvergenceError, match="3 steps were not enough"):
        solve_ivp(lambda t, y: -y, (0, 1), [1.0], rtol=1e-10, max_steps=3)
    with pytest.raises(ValueError, match="y0 has numbers that are NaN"):
        solve_ivp(lambda t, y: -y, (0, 1), [math.nan])
    never = solve_ivp(lambda t, y: -y, (0, 1), [1.0], events=lambda t, y: y[0] + 10)
    with pytest.raises(ConvergenceError, match="was not met between t = 0 and 1"):
        never.event()
