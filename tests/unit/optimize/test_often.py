"""Functions that solvers call often are recorded, and nothing else changes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as ad

pytest.importorskip("scipy")


def solved(fun: Any, x0: Any, *args: Any) -> tuple[Any, Any]:
    found = ad.optimize.root(fun, x0, args=args)
    return found, ad.autograd.grad(found.x.square().sum(), args[0])[0]


@pytest.mark.parametrize("seed", range(6))
def test_steps_of_a_root_are_the_same_to_the_last_bit_when_they_are_recorded(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, dtype = int(rng.integers(1, 6)), (ad.float64, ad.float32)[seed % 2]
    weights = ad.tensor(rng.normal(size=(n, n)), dtype=dtype)
    scale = 10.0 ** rng.uniform(-8, 8, n if seed % 3 else 1)  # badly scaled equations
    scale = ad.tensor(scale, dtype=dtype)

    def residual(x: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
        return scale * (x**3 + 2 * x + 0.3 * ad.tanh(weights @ x) - b)

    def fresh() -> Any:  # a function that was never solved before
        return lambda x, b: residual(x, b)

    for turn in range(6):
        b = ad.tensor(rng.normal(size=n) * 3, dtype=dtype, requires_grad=True)
        known, its_gradient = solved(residual, ad.zeros(n, dtype=dtype), b)
        other, other_gradient = solved(fresh(), ad.zeros(n, dtype=dtype), b)
        assert ad.equal(known.x, other.x), turn
        assert ad.equal(its_gradient, other_gradient)
        assert known.nit == other.nit and known.nfev == other.nfev


def test_a_method_of_an_object_is_the_object_s_own() -> None:
    class Power:
        def __init__(self, exponent: int) -> None:
            self.exponent = exponent

        def residual(self, x: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
            return x**self.exponent - b

    square, cube = Power(2), Power(3)
    b = ad.tensor([8.0], dtype=ad.float64, requires_grad=True)
    for _ in range(5):
        for power in (square, cube):
            found, _ = solved(power.residual, ad.ones(1, dtype=ad.float64), b)
            assert abs(found.x.item() - 8 ** (1 / power.exponent)) < 1e-12
    square.exponent = 4
    found, _ = solved(square.residual, ad.ones(1, dtype=ad.float64), b)
    assert abs(found.x.item() - 8**0.25) < 1e-12


def test_a_steep_residual_that_only_rounding_keeps_from_zero_is_an_answer() -> None:
    grid = ad.linspace(0, 1, 40, dtype=ad.float64)
    stiff = 1e9 * (ad.exp(-30 * (grid[:, None] - grid) ** 2) + ad.eye(40, dtype=ad.float64))
    wanted = ad.sin(7 * grid)
    found = ad.optimize.root(lambda x: stiff @ (x**3 + x - wanted), ad.zeros(40, dtype=ad.float64))
    assert found.success and (found.x**3 + found.x - wanted).abs().max() < 1e-13
    each = ad.vmap(lambda c: ad.optimize.root(lambda x: stiff @ (x - c * wanted), 0 * wanted).x)
    c = ad.tensor([1.0, 1e3], dtype=ad.float64)
    assert (each(c) - c[:, None] * wanted).abs().max() < 1e-10


def test_functions_with_effects_run_as_they_are_and_nothing_is_said() -> None:
    seen = []

    def cost(x: ad.Tensor) -> ad.Tensor:
        seen.append(x.detach())
        return ((x - 3) ** 4).sum() + (x[0] - x[1]) ** 2

    start = ad.zeros(2, dtype=ad.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ad.optimize.minimize(cost, start, method="BFGS")
        assert len(seen) >= found.nfev
        several = ad.optimize.minimize(
            lambda x: cost(x), start, constraints={"type": "eq", "fun": lambda x: cost(x) - 1}
        )
    assert several.success


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "Newton-CG", "SLSQP"])
def test_minimize_gives_the_same_with_recordings(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ad.linspace(-1, 1, 20, dtype=ad.float64, requires_grad=True)

    def rosenbrock(x: ad.Tensor) -> ad.Tensor:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() + (
            data * x[0]
        ).square().sum()

    def found() -> tuple[Any, Any]:
        x = ad.optimize.minimize(rosenbrock, ad.zeros(4, dtype=ad.float64), method=method).x
        return x.detach(), ad.autograd.grad(x.sum(), data)[0]

    recorded = found()
    monkeypatch.setattr("adjoint.optimize._often._CALLS", 10**9)
    plain = found()
    assert all(ad.equal(a, b) for a, b in zip(recorded, plain, strict=True))


def test_a_fit_of_an_expensive_function_takes_few_evaluations() -> None:
    count = 0
    t = np.linspace(0, 2, 30)

    def model(a: Any, b: Any) -> Any:
        nonlocal count
        count += 1
        return a * np.exp(-b * t)

    program = ad.external(model)
    data = ad.tensor(2 * np.exp(-1.3 * t) + 0.01 * np.cos(30 * t))
    found = ad.optimize.least_squares(
        lambda p: program(p[0], p[1]) - data, ad.ones(2, dtype=ad.float64)
    )
    assert found.grad.abs().max() < 1e-8
    # Two unknowns: a Jacobian takes four, and as many again that verify; no second derivatives.
    assert count < 14 * found.nfev + 60


def test_a_minimum_of_a_minimum_has_gradients_in_every_call() -> None:
    """What is recorded of the outer one holds a solver, whose backward pass reads its closure."""

    def nested(p: ad.Tensor) -> ad.Tensor:
        def outer(x: ad.Tensor) -> ad.Tensor:
            y = ad.optimize.minimize(
                lambda y: ((y - x * p[0]) ** 2).sum() + 0.5 * (y**2).sum(), [0.0]
            ).x
            return ((x - 1) ** 2 + y * y * p[1]).sum()

        return ad.optimize.minimize(outer, [0.3]).x[0]

    def exact(p: ad.Tensor) -> ad.Tensor:  # y = x p0 / 1.5
        return 1 / (1 + p[1] * (p[0] / 1.5) ** 2)

    for scale in (1.0, 1.01, 1.02, 1.03):
        at = ad.tensor([1.3 * scale, 0.7], dtype=ad.float64)
        ad.testing.assert_close(ad.func.grad(nested)(at), ad.func.grad(exact)(at))
    ad.testing.assert_close(ad.vmap(nested)(at[None]), exact(at)[None])  # of one sample
