"""The pressure on a wing section with the gradient of a misfit: `jnp`, and SciPy's spline."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.interpolate import CubicSpline

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import spline_geometry as example

PEER, PANELS, CONTROLS, ANGLE = "JAX", 80, 17, 0.05


def weights(controls: int, panels: int) -> Any:
    """A spline is linear in its controls: JAX has none, SciPy gives the matrix."""
    nodes, at = np.linspace(0, 1, controls), np.linspace(0, 1, panels + 1)
    return jnp.asarray(CubicSpline(nodes, np.eye(controls))(at))


def speeds(corners: Any, angle: Any) -> Any:
    a, b = corners[:-1], corners[1:]
    middle, along = (a + b) / 2, b - a
    length = jnp.sqrt((along**2).sum(1))
    tangent = along / length[:, None]
    normal = jnp.stack([-tangent[:, 1], tangent[:, 0]], 1)
    apart = middle[:, None] - a
    x = (apart * tangent).sum(2)
    y = (apart * normal).sum(2)
    own = jnp.eye(len(a), dtype=bool)
    y = jnp.where(own, 0.0, y)
    near, far = x * x + y * y, (x - length) ** 2 + y * y
    log = jnp.log(far / near) / 2
    turn = jnp.where(own, jnp.pi, jnp.arctan2(y * length, y * y + x * (x - length)))
    second = (x * turn + y * log) / length, (x * log + length - y * turn) / length
    first = turn - second[0], log - second[1]
    by_x = jnp.stack([first[0], second[0]]) / (2 * jnp.pi)
    by_y = jnp.stack([first[1], second[1]]) / (2 * jnp.pi)
    flow = by_x[..., None] * tangent + by_y[..., None] * normal

    def on(direction: Any) -> Any:
        part = (flow * direction[:, None]).sum(3)
        none = jnp.zeros((len(a), 1))
        return jnp.concatenate([part[0], none], 1) + jnp.concatenate([none, part[1]], 1)

    wind = jnp.stack([jnp.cos(angle), jnp.sin(angle)])
    kutta = jnp.zeros((1, len(a) + 1)).at[0, 0].set(1).at[0, -1].set(1)
    matrix = jnp.concatenate([on(normal), kutta])
    right = -jnp.concatenate([normal @ wind, jnp.zeros(1)])
    strength = jnp.linalg.solve(matrix, right)
    return tangent @ wind + on(tangent) @ strength


def misfit(controls: Any, spline: Any, wanted: Any) -> Any:
    return ((1 - speeds(spline @ controls, ANGLE) ** 2 - wanted) ** 2).mean()


def problem() -> Any:
    target = example.section(CONTROLS, 0.15, 0.04)
    wanted = example.pressure(target, PANELS, ad.tensor(ANGLE, dtype=ad.float64))
    return example.section(CONTROLS, 0.1).numpy(), wanted


def ours() -> Work:
    at, wanted = problem()
    angle = ad.tensor(ANGLE, dtype=ad.float64)

    def misfit(controls: Any) -> Any:
        return (example.pressure(controls, PANELS, angle) - wanted).square().mean()

    return gradient_of(ad.compile(misfit), at)


def theirs() -> Work:
    at, wanted = problem()
    spline, wanted = weights(CONTROLS, PANELS), jnp.asarray(wanted.numpy())
    work, at = jax.jit(jax.value_and_grad(lambda c: misfit(c, spline, wanted))), jnp.asarray(at)
    return lambda: jax.block_until_ready(work(at))


OURS, THEIRS = [example.outline, example.speeds, example.pressure], [weights, speeds, misfit]
