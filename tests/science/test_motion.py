"""The gradients of problems that run through time steps, by complex steps or other equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.science.complex_step import agree, gradient, ours

pytest.importorskip("scipy")
rng = np.random.default_rng(0)


def test_robertson() -> None:
    """Against the equations of the sensitivities, by SciPy."""
    from scipy.integrate import solve_ivp

    from examples.science import robertson

    logs, times = np.log([0.04, 1e4, 3e7]), np.array([1e-2, 1.0, 40.0])

    def slopes(t: float, state: Any) -> Any:
        y, s = state[:3], state[3:].reshape(3, 3)
        k = np.exp(logs)
        rates = np.array([k[0] * y[0], k[1] * y[1] * y[2], k[2] * y[1] ** 2])
        way = np.array([[-1, 1, 0], [1, -1, -1], [0, 0, 1]])
        by_y = np.array([[k[0], 0, 0], [0, k[1] * y[2], k[1] * y[1]], [0, 2 * k[2] * y[1], 0]])
        return np.concatenate([way @ rates, (way @ (by_y @ s + np.diag(rates))).ravel()])

    start = np.concatenate([[1.0, 0, 0], np.zeros(9)])
    found = solve_ivp(slopes, (0, 40), start, "Radau", times, rtol=1e-9, atol=1e-13).y
    scale = np.array([1, 1e4, 1])[:, None]
    y, s = scale * found[:3], scale[..., None] * found[3:].reshape(3, 3, -1).transpose(0, 2, 1)
    reference = 2 * np.einsum("it,itk->k", y, s)
    t = ad.tensor(times)
    zero = ad.zeros(3, 3, dtype=ad.float64)
    mine = ours(lambda x: robertson.misfit(x, t, zero, rtol=1e-8, atol=1e-12), logs)
    agree(mine, reference, 1e-5)


def test_implicit_heat() -> None:
    """Against dense matrices and complex steps."""
    from examples.science import implicit_heat as heat

    plate, n = heat.Plate(4), 4
    logs, data = 0.3 * rng.normal(size=(n, n)), rng.normal(size=(3, 5))
    seen = np.array([1, 5, 6, 10, 15])

    def misfit(logs: Any) -> Any:
        k, scale = np.exp(logs), heat.DT * n**2
        m = np.eye(n * n, dtype=complex)
        for a in np.ndindex(n, n):
            for step in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                b = a[0] + step[0], a[1] + step[1]
                i = a[0] * n + a[1]
                if 0 <= b[0] < n and 0 <= b[1] < n:
                    through = scale * 2 * k[a] * k[b] / (k[a] + k[b])
                    m[i, i] += through
                    m[i, b[0] * n + b[1]] -= through
                else:
                    m[i, i] += scale * 2 * k[a]
        u, sum_ = np.zeros(n * n, dtype=complex), 0
        for row in data:
            u = np.linalg.solve(m, u + heat.DT * plate.heat.numpy())
            sum_ += ((u[seen] - row) ** 2).sum()
        return sum_ + 1e-5 * sum((np.diff(logs, axis=k) ** 2).sum() for k in (0, 1))

    def mine(x: ad.Tensor) -> ad.Tensor:
        return heat.misfit(plate, x, ad.tensor(seen), ad.tensor(data))

    agree(ours(mine, logs), gradient(misfit, logs), 1e-12)


def test_lennard_jones() -> None:
    """Against all pairs, forces by their formula, and complex steps."""
    from examples.science import lennard_jones as lj

    state = ad.get_rng_state()
    ad.manual_seed(0)
    start, box = lj.liquid(3)
    ad.set_rng_state(state)
    i, j = np.triu_indices(len(start[0]), 1)

    def force(x: Any, depth: Any, width: Any) -> Any:
        d = x[i] - x[j]
        d = d - box * np.round(d.real / box)
        square = (d * d).sum(1)
        near = square.real < lj.CUT**2
        six = (width**2 / square) ** 3
        pull = np.where(near, 24 * depth * (2 * six * six - six) / square, 0)[:, None] * d
        found = np.zeros_like(x)
        np.add.at(found, i, pull)
        np.add.at(found, j, -pull)
        return found

    def far(potential: Any) -> Any:
        x, v = (t.numpy().astype(complex) for t in start)
        f, sum_ = force(x, *potential), 0
        for k in range(4):
            v = v + lj.DT / 2 * f
            x = x + lj.DT * v
            f = force(x, *potential)
            v = v + lj.DT / 2 * f
            sum_ = sum_ + (x * x).sum() * (k % 2)
        return sum_

    def mine(potential: ad.Tensor) -> ad.Tensor:
        return lj.trajectory(potential, start, box, stretches=2, each=2).square().sum()

    agree(ours(mine, [0.9, 1.02]), gradient(far, [0.9, 1.02]), 1e-11)


def test_shallow_water() -> None:
    """Against the same steps in NumPy, and complex steps."""
    from examples.science import shallow_water as water

    cells, places = 6, ad.tensor([1, 3])
    sea = water.Sea(cells, (places, places))
    sea.depth = sea.depth.double()
    start, data = 0.1 * rng.normal(size=(cells, cells)), rng.normal(size=(5, 2))

    def misfit(start: Any) -> Any:
        h, u, v, depth = start, 0 * start, 0 * start, sea.depth.numpy()
        sum_ = 1e-3 * sum(((start - np.roll(start, 1, k)) ** 2).sum() for k in (0, 1))
        for row in data:
            u = u - water.DT * water.GRAVITY * (np.roll(h, -1, 0) - h)
            v = v - water.DT * water.GRAVITY * (np.roll(h, -1, 1) - h)
            a, b = (depth + h) * u, (depth + h) * v
            h = h - water.DT * (a - np.roll(a, 1, 0) + b - np.roll(b, 1, 1))
            sum_ = sum_ + ((h[[1, 3], [1, 3]] - row) ** 2).sum()
        return sum_

    agree(
        ours(lambda x: water.misfit(sea, x, ad.tensor(data)), start), gradient(misfit, start), 1e-12
    )


def joint(logs: Any, steps: int) -> tuple[Any, Any]:
    """The covariances of all states of a boat, and of all measurements, without any recursion."""
    from examples.science import kalman

    moves, pushed, start = (t.numpy() for t in (kalman.MOVES, kalman.PUSHED, kalman.START[1]))
    cov = [[None] * steps for _ in range(steps)]
    now = start.astype(logs.dtype)
    for i in range(steps):
        now = moves @ now @ moves.T + np.exp(logs[0]) * pushed
        cov[i][i] = now
        for j in range(i + 1, steps):
            cov[i][j] = cov[i][j - 1] @ moves.T
            cov[j][i] = cov[i][j].T
    states = np.block(cov)
    seen = np.kron(np.eye(steps), np.eye(2, 4))
    return states, seen @ states @ seen.T + np.exp(logs[1]) * np.eye(2 * steps)


def test_kalman() -> None:
    """Against the joint density of all measurements, and complex steps."""
    from examples.science import kalman

    measured, logs = rng.normal(size=(5, 2)), np.array([0.3, -0.5])

    def cost(logs: Any) -> Any:
        z, cov = measured.ravel(), joint(logs, 5)[1]
        return (z @ np.linalg.solve(cov, z) + np.log(np.linalg.det(cov))) / 2

    agree(ours(lambda x: kalman.cost_of(x, ad.tensor(measured)), logs), gradient(cost, logs), 1e-12)
    states, cov = joint(logs, 5)
    seen = np.kron(np.eye(5), np.eye(2, 4))
    mean = states @ seen.T @ np.linalg.solve(cov, measured.ravel())
    before, after = kalman.filtered(ad.tensor(logs), ad.tensor(measured))
    agree(kalman.smoothed(before, after)[0].reshape(-1), mean, 1e-10)


def test_sde_ensemble() -> None:
    """Against the same paths in NumPy, and complex steps."""
    from examples.science import sde_ensemble as sde

    kicks, observed = rng.normal(size=(7, 4)), rng.normal(size=(2, 7))

    def misfit(parameters: Any) -> Any:
        (depth, noise), x, rows = np.exp(parameters), np.full(4, 0.2 + 0j), []
        for kick in kicks:
            x = x - sde.DT * 4 * depth * x * (x * x - 1) + noise * sde.DT**0.5 * kick
            rows.append((x.mean(), ((x - x.mean()) ** 2).sum() / 3))
        return ((np.array(rows).T - observed) ** 2).sum() * sde.DT

    at = np.log([0.8, 0.7])
    mine = ours(lambda p: sde.misfit(p, ad.tensor(kicks), ad.tensor(observed)), at)
    agree(mine, gradient(misfit, at), 1e-12)
