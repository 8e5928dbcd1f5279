"""The gradients of answers, shapes and programs, by formulas, differences or more digits."""

from __future__ import annotations

import itertools
import math
import tempfile
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.science.complex_step import agree, gradient, ours

pytest.importorskip("scipy")
rng = np.random.default_rng(0)


def test_eigenvalue_design() -> None:
    """Against v'(K' - λ M')v with vectors of SciPy's generalised problem."""
    from scipy.linalg import eigh

    from examples.science import eigenvalue_design as beam

    thickness, h = 1 + 0.3 * rng.random(5), 1e-6
    parts = [
        [m.numpy() for m in beam.stiffness_and_mass(ad.tensor(t))]
        for t in (
            thickness,
            *(thickness + h * e for e in np.eye(5)),
            *(thickness - h * e for e in np.eye(5)),
        )
    ]
    values, vectors = eigh(*parts[0])
    value, v = values[0], vectors[:, 0]
    reference = []
    for up, down in zip(parts[1:6], parts[6:], strict=True):
        by_k, by_m = ((a - b) / (2 * h) for a, b in zip(up, down, strict=True))
        reference.append(v @ (by_k - value * by_m) @ v)
    agree(ours(lambda t: beam.modes(t)[0][0], thickness), np.array(reference), 1e-7)


def test_optimal_control() -> None:
    """Against the least times with other currents, by SciPy alone."""
    from scipy.optimize import minimize

    from examples.science import optimal_control as river

    steps = 6
    current = ad.tensor(0.8, dtype=ad.float64, requires_grad=True)
    found = river.best(current, steps)
    (mine,) = ad.autograd.grad(found[-1].exp(), current)

    def path(u: Any, flow: float) -> Any:
        place, seen, dt = np.zeros(2), [], math.exp(u[-1]) / steps
        for heading in np.cumsum(u[:-1]):
            drift = flow * 4 * place[1] * (1 - place[1])
            place = place + dt * np.array([math.cos(heading) + drift, math.sin(heading)])
            seen.append(place)
        return np.array(seen)

    def off(u: Any, flow: float) -> Any:
        return ((path(u, flow) - river.ISLAND) ** 2).sum(1) - river.RADIUS**2

    def time(flow: float) -> float:
        constraints = [
            {"type": "eq", "fun": lambda u: path(u, flow)[-1] - river.HARBOUR},
            {"type": "ineq", "fun": lambda u: off(u, flow)},
        ]
        best = minimize(
            lambda u: math.exp(u[-1]),
            found.detach().numpy(),
            method="SLSQP",
            bounds=[(None, None)] + [(-river.TURN, river.TURN)] * (steps - 1) + [(None, None)],
            constraints=constraints,
            options={"ftol": 1e-14},
        )
        return math.exp(best.x[-1])

    agree(mine.item(), (time(0.801) - time(0.799)) / 0.002, 1e-4)


def test_map_laplace() -> None:
    """Against dense matrices, and differences of the evidence."""
    from examples.science import map_laplace as field

    n, counts = 4, rng.poisson(2.0, (4, 4)).astype(float)
    chain = np.diff(np.eye(n), axis=0)
    chain = chain.T @ chain
    smooth = np.kron(chain, np.eye(n)) + np.kron(np.eye(n), chain)

    def evidence(s: float) -> float:
        prior = np.exp(s) * smooth + field.WEAK * np.eye(n * n)
        x, y = np.zeros(n * n), counts.ravel()
        for _ in range(50):
            x = x - np.linalg.solve(prior + np.diag(np.exp(x)), prior @ x + np.exp(x) - y)
        energy = x @ prior @ x / 2 + (np.exp(x) - y * x).sum()
        logdet = np.linalg.slogdet(prior + np.diag(np.exp(x)))[1]
        return (np.linalg.slogdet(prior)[1] - logdet) / 2 - energy

    posterior = field.Posterior(ad.tensor(counts))
    reference = (evidence(0.2 + 1e-4) - evidence(0.2 - 1e-4)) / 2e-4
    s = ad.tensor(0.2, dtype=ad.float64, requires_grad=True)
    value = posterior.log_evidence(s)
    agree(value.item(), evidence(0.2), 1e-12)
    agree(ad.autograd.grad(value, s)[0].item(), reference, 1e-6)


def test_implicit_layer() -> None:
    """Against voltages by SciPy's `root`; the same before and after steps are recorded."""
    from scipy.optimize import root

    from examples.science import implicit_layer as layer

    state = ad.get_rng_state()
    ad.manual_seed(0)
    grid = layer.Grid(15)
    ad.set_rng_state(state)
    levels = 1 + 0.02 * rng.normal(size=len(grid.generators))

    def loss(levels: Any) -> float:
        lv = ad.tensor(levels)
        start = np.concatenate([np.zeros(14), np.ones(len(grid.loads))])
        found = root(lambda u: grid.mismatch(ad.tensor(u), lv).numpy(), start, tol=1e-14).x
        v, angles = (t.numpy() for t in grid.voltages(ad.tensor(found), lv))
        (vi, vj), (ai, aj) = v[grid.lines.numpy()], angles[grid.lines.numpy()]
        heat = grid.conductance.numpy() * (vi**2 + vj**2 - 2 * vi * vj * np.cos(ai - aj))
        return float(heat.sum() + 10 * (np.clip(abs(v - 1) - 0.06, 0, None) ** 2).sum())

    h = 1e-5
    reference = [
        (loss(levels + h * e) - loss(levels - h * e)) / (2 * h) for e in np.eye(len(levels))
    ]
    runs = [ours(grid.loss, levels) for _ in range(5)]
    agree(runs[0], np.array(reference), 1e-6)
    assert all(np.array_equal(runs[0], again) for again in runs)


def test_executable_fit() -> None:
    """Against the program's own equations with complex numbers."""
    from examples.science import executable_fit as tanks

    def levels(logs: Any) -> Any:
        inflow, valve, leak = np.exp(logs)
        first, second, rows = 2.0 + 0j, 0.5 + 0j, []
        for step in range(2400):
            if step % 100 == 0:
                rows.append([first, second])
            through = valve * np.sqrt(first - second)  # the first is always the fuller
            first = first + 0.005 * (inflow - through)
            second = second + 0.005 * (through - leak * np.sqrt(second))
        return (np.array(rows) ** 2).sum()

    logs = np.log([0.6, 0.9, 0.5])
    with tempfile.TemporaryDirectory() as folder, tanks.tanks(folder) as program:
        mine = ours(lambda x: tanks.levels(program, x).square().sum(), logs)
    agree(mine, gradient(levels, logs), 1e-6)


def test_spline_geometry() -> None:
    """Against SciPy's spline, and speeds by numbers of 30 digits."""
    mp = pytest.importorskip("mpmath")
    from scipy.interpolate import CubicSpline

    from examples.science import spline_geometry as wing

    panels, controls = 6, wing.section(5, 0.3, 0.05).numpy()
    spline = CubicSpline(np.linspace(0, 1, 5), np.eye(5))(np.linspace(0, 1, panels + 1))
    mp.mp.dps = 30

    def speeds(height: Any) -> Any:
        moved = [[mp.mpf(c) for c in row] for row in controls]
        moved[2][1] = height
        p = [
            [sum(mp.mpf(w) * c[k] for w, c in zip(row, moved, strict=True)) for k in (0, 1)]
            for row in spline
        ]
        edges = [mp.matrix([b[0] - a[0], b[1] - a[1]]) for a, b in itertools.pairwise(p)]
        along = [e / mp.norm(e) for e in edges]
        across = [mp.matrix([-t[1], t[0]]) for t in along]
        wind = mp.matrix([mp.cos(mp.mpf(0.05)), mp.sin(mp.mpf(0.05))])
        influence = [mp.zeros(panels, panels + 1) for _ in range(2)]
        for i in range(panels):
            middle = [(p[i][k] + p[i + 1][k]) / 2 for k in (0, 1)]
            for j in range(panels):
                d, length = mp.matrix([middle[k] - p[j][k] for k in (0, 1)]), mp.norm(edges[j])
                x, y = mp.fdot(d, along[j]), mp.fdot(d, across[j])
                # The complex velocity of a sheet, from just outside on its own panel.
                z = mp.mpc(x, y if i != j else mp.mpf("1e-60"))
                log = mp.log(z / (z - length))
                for corner, w in (
                    (j, log - (z * log - length) / length),
                    (j + 1, (z * log - length) / length),
                ):
                    w = w * mp.mpc(0, 1) / (2 * mp.pi)
                    flow = along[j] * mp.re(w) - across[j] * mp.im(w)
                    for m, way in zip(influence, (across, along), strict=True):
                        m[i, corner] += mp.fdot(flow, way[i])
        system = mp.zeros(panels + 1, panels + 1)
        system[:panels, :] = influence[0]
        system[panels, 0] = system[panels, panels] = 1
        strength = mp.lu_solve(system, mp.matrix([-mp.fdot(n, wind) for n in across] + [0]))
        found = influence[1] * strength
        return [mp.fdot(along[i], wind) + found[i] for i in range(panels)]

    at, h = mp.mpf(controls[2, 1]), mp.mpf("1e-10")
    angle = ad.tensor(0.05, dtype=ad.float64)
    value = wing.speeds(wing.outline(ad.tensor(controls), panels), angle)
    agree(value, np.array([float(s) for s in speeds(at)]), 1e-12)
    reference = sum(
        2 * s * (a - b) / (2 * h)
        for s, a, b in zip(speeds(at), speeds(at + h), speeds(at - h), strict=True)
    )
    mine = ours(lambda c: wing.speeds(wing.outline(c, panels), angle).square().sum(), controls)
    agree(mine[2, 1], float(reference), 1e-10)
