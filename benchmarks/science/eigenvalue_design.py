"""The lowest tone of a beam with its gradient: `jnp.linalg.eigh`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import eigenvalue_design as example

PEER = "JAX"
AT = np.sin(np.arange(30.0))
THIN = example.THIN


def stiffness_and_mass(thickness: Any) -> Any:
    n = len(thickness)
    h = 1 / n
    bend = jnp.array(
        [
            [12, 6 * h, -12, 6 * h],
            [6 * h, 4 * h * h, -6 * h, 2 * h * h],
            [-12, -6 * h, 12, -6 * h],
            [6 * h, 2 * h * h, -6 * h, 4 * h * h],
        ]
    )
    move = jnp.array(
        [
            [156, 22 * h, 54, -13 * h],
            [22 * h, 4 * h * h, 13 * h, -3 * h * h],
            [54, 13 * h, 156, -22 * h],
            [-13 * h, -3 * h * h, -22 * h, 4 * h * h],
        ]
    )
    rows = 2 * jnp.arange(n)[:, None] + jnp.arange(4)

    def assembled(factor: Any, element: Any) -> Any:
        parts = factor[:, None, None] * element
        whole = jnp.zeros((2 * n + 2, 2 * n + 2))
        return whole.at[rows[:, :, None], rows[:, None, :]].add(parts)[2:, 2:]

    return assembled(thickness**3 / h**3, bend), assembled(thickness * h / 420, move)


def lowest_tone(p: Any) -> Any:
    stiffness, mass = stiffness_and_mass(THIN + (1 - THIN) * len(p) * jax.nn.softmax(p))
    root = jnp.linalg.cholesky(mass)
    half = jax.scipy.linalg.solve_triangular(root, stiffness, lower=True)
    values, _ = jnp.linalg.eigh(jax.scipy.linalg.solve_triangular(root, half.T, lower=True))
    return jnp.sqrt(values[0])


def ours() -> Work:
    return gradient_of(ad.compile(example.lowest_tone), AT)


def theirs() -> Work:
    work, at = jax.jit(jax.value_and_grad(lowest_tone)), jnp.asarray(AT)
    return lambda: jax.block_until_ready(work(at))


OURS = [example.stiffness_and_mass, example.modes, example.profile, example.lowest_tone]
THEIRS = [stiffness_and_mass, lowest_tone]
