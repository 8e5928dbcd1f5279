"""Stochastic equations: paths that are the same for all steps, orders, derivatives, failures."""

from __future__ import annotations

import math
from typing import Any

import pytest

import adjoint as ad
from adjoint.func import grad, vmap
from adjoint.integrate import BrownianPath, sdeint, solve_sde
from adjoint.optimize import ConvergenceError

DOUBLE = {"dtype": ad.float64}


def growth(mu: Any, steps: int, method: str, count: int = 1, **options: Any) -> Any:
    """Geometric Brownian motion with a volatility of one half."""
    return solve_sde(
        lambda t, y: mu * y,
        lambda t, y: 0.5 * y,
        (0, 1),
        ad.ones(count, **DOUBLE),
        method,
        t_eval=[1.0],
        steps=steps,
        **options,
    )


def test_a_path_does_not_depend_on_who_asks() -> None:
    path = BrownianPath(0.0, 2.0, (3,), seed=5)
    times = ad.tensor([0.0, 0.3, 0.30001, 1.7, 2.0], **DOUBLE)
    rows = path(times)
    assert rows.shape == (5, 3) and bool((rows[0] == 0).all())
    for t, row in zip(times, rows, strict=True):
        assert bool((path(t) == row).all())
    assert bool((BrownianPath(0.0, 2.0, (3,), seed=5)(times.flip(0)).flip(0) == rows).all())
    assert bool((BrownianPath(0.0, 2.0, (3,), seed=6)(times)[1:] != rows[1:]).all())
    seeds = ad.tensor([5, 6])
    several = vmap(lambda s: BrownianPath(0.0, 2.0, (3,), seed=s)(times))(seeds)
    assert bool((several[0] == rows).all())


def test_increments_are_normal_and_independent() -> None:
    count = 20_000
    path = BrownianPath(0.0, 1.0, (count,), seed=1, levels=12)
    w = path(ad.tensor([0.25, 0.3, 0.9], **DOUBLE))
    parts = ad.stack([w[0], w[1] - w[0], w[2] - w[1]]) / ad.tensor([[0.25], [0.05], [0.6]]).sqrt()
    within = 5 / math.sqrt(count)
    covariance = parts @ parts.mT / count
    ad.testing.assert_close(covariance, ad.eye(3, **DOUBLE), rtol=0, atol=2 * within)
    assert float(parts.mean(1).abs().max()) < within
    assert abs(float((parts**4).mean()) - 3) < 20 * within


@pytest.mark.parametrize(("method", "order"), [("euler", 0.5), ("milstein", 1.0), ("heun", 1.0)])
def test_strong_order(method: str, order: float) -> None:
    """Errors along the same paths, with steps of which one is sixteen times the other."""
    mu, errors = 0.3, []
    for steps in (16, 256):
        found = growth(mu, steps, method, 300)
        w = found.path(1.0)
        exact = ad.exp((mu - (0 if method == "heun" else 0.125)) + 0.5 * w)
        errors.append(float((found.y[:, 0] - exact).abs().mean()))
    assert abs(math.log(errors[0] / errors[1], 16) - order) < 0.15


@pytest.mark.parametrize("method", ["euler", "milstein"])
def test_weak_order(method: str) -> None:
    """The mean over the steps' own noise: (1 + mu h)^n for both, of first order in h."""
    mu, errors = 1.0, []
    for steps in (2, 4):
        found = growth(mu, steps, method, 4000)
        # With the exact solution on the same paths taken off, little noise is left.
        exact = ad.exp((mu - 0.125) + 0.5 * found.path(1.0))
        errors.append(float((exact - found.y[:, 0]).mean()))
    wanted = [math.e - (1 + 1 / n) ** n for n in (2, 4)]
    assert all(abs(a - b) < 0.1 for a, b in zip(errors, wanted, strict=True))
    assert abs(math.log2(errors[0] / errors[1]) - math.log2(wanted[0] / wanted[1])) < 0.35


def test_general_and_scalar_noise() -> None:
    mix = ad.tensor([[0.3, 0.1, 0.0], [0.0, 0.2, 0.4]], **DOUBLE)

    def solve(method: str, noise: str, diffusion: Any) -> Any:
        return solve_sde(
            lambda t, y: 0 * y, diffusion, (0, 1), [1.0, 2.0], method, noise=noise, steps=8
        )

    for method in ("euler", "heun"):
        found = solve(method, "general", lambda t, y: mix + 0 * y[:, None])
        wanted = ad.tensor([1.0, 2.0], **DOUBLE) + mix @ found.path(1.0)
        ad.testing.assert_close(found.y[:, -1], wanted, rtol=1e-12, atol=0)
    found = solve("milstein", "scalar", lambda t, y: 0.1 * y)
    ratio = found.y[1] / found.y[0]  # one motion for both
    ad.testing.assert_close(ratio, ad.full((9,), 2.0, **DOUBLE), rtol=1e-12, atol=0)


@pytest.mark.parametrize("method", ["euler", "milstein", "heun"])
def test_derivatives_along_a_path(method: str) -> None:
    def end(mu: ad.Tensor) -> ad.Tensor:
        return growth(mu, 512, method, seed=3).y[0, 0]

    mu = ad.tensor(0.3, **DOUBLE)
    value = float(end(mu))  # y = exp(mu ...), so that all derivatives by mu are y
    for found in (grad(end)(mu), grad(grad(end))(mu)):
        assert math.isclose(float(found), value, rel_tol=0.05)
    step = 1e-5
    difference = float(end(mu + step) - end(mu - step)) / (2 * step)
    assert math.isclose(float(grad(end)(mu)), difference, rel_tol=1e-8)
    p = mu.clone().requires_grad_()
    compiled = ad.compile(end)
    for _ in range(2):
        (slope,) = ad.autograd.grad(compiled(p), p)
        assert math.isclose(float(slope), difference, rel_tol=1e-8)


def test_structures_samples_and_times() -> None:
    start = {"x": ad.ones(2, **DOUBLE), "v": ad.zeros((), **DOUBLE)}

    def drift(t: ad.Tensor, s: Any, k: float) -> Any:
        return {"x": -k * s["x"], "v": s["x"].sum()}

    def diffusion(t: ad.Tensor, s: Any, k: float) -> Any:
        return {"x": 0.1 * s["x"], "v": 0 * s["v"]}

    found = solve_sde(drift, diffusion, (0, 1), start, t_eval=[0.1, 0.75, 1.0], args=2.0, steps=10)
    assert found.y["x"].shape == (2, 3) and found.y["v"].shape == (3,)
    assert found.t.tolist() == [0.1, 0.75, 1.0] and found.nsteps == 11
    rows = sdeint(drift, diffusion, start, [0.0, 0.1, 0.75, 1.0], args=2.0, steps=10)
    ad.testing.assert_close(rows["x"][1:].mT, found.y["x"], rtol=1e-12, atol=0)
    seeds = ad.arange(3)
    several = vmap(lambda s: growth(0.3, 8, "euler", seed=s).y[0, 0])(seeds)
    single = [float(growth(0.3, 8, "euler", seed=int(s)).y[0, 0]) for s in seeds]
    assert several.tolist() == single


def test_failures() -> None:
    def solve(**options: Any) -> Any:
        given: dict[str, Any] = {"method": "euler", "steps": 4, **options}
        return solve_sde(lambda t, y: -y, lambda t, y: y.flip(0), (0, 1), [1.0, 2.0], **given)

    for options, words in (
        ({"method": "rk"}, "no method 'rk'"),
        ({"noise": "pink"}, "no noise 'pink'"),
        ({"method": "milstein", "noise": "general"}, "needs the areas"),
        ({"method": "milstein"}, "depends on another one"),
        ({"noise": "general"}, "a matrix with 2 rows"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": 10**8, "t_eval": [1.0]}, "shorter than"),
        ({"t_eval": [0.5, 0.2]}, "t_eval must increase"),
        ({"path": BrownianPath(0, 1, (3,))}, r"values of the shape \[3\]"),
    ):
        with pytest.raises(ValueError, match=words):
            solve(**options)
    with pytest.raises(ValueError, match="a beginning and a later end"):
        solve_sde(lambda t, y: y, lambda t, y: y, (1, 0), [1.0])
    with pytest.raises(ConvergenceError, match="NaN or infinite"):
        solve_sde(lambda t, y: y**9, lambda t, y: y, (0, 1), [1e60])
