"""Implicit steps of a heat equation with the gradient of a misfit: conjugate gradients of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import cg

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import implicit_heat as example

PEER, CELLS, STEPS, DT = "JAX", 24, 20, example.DT
AT = 0.3 * np.sin(np.arange(CELLS * CELLS, dtype=float)).reshape(CELLS, CELLS)


def operator(logs: Any) -> Any:
    """JAX has no factors of sparse matrices: products with the matrix of an implicit step."""
    n, k = len(logs), jnp.exp(logs)

    def harmonic(a: Any, b: Any) -> Any:
        return DT * n**2 * 2 * a * b / (a + b)

    down, right = harmonic(k[:-1], k[1:]), harmonic(k[:, :-1], k[:, 1:])
    edge = jnp.zeros((n, n)).at[0].add(1).at[-1].add(1).at[:, 0].add(1).at[:, -1].add(1)
    edge = DT * n**2 * 2 * k * edge

    def product(u: Any) -> Any:
        flow, across = down * (u[:-1] - u[1:]), right * (u[:, :-1] - u[:, 1:])
        found = u + edge * u
        found = found.at[:-1].add(flow).at[1:].add(-flow)
        return found.at[:, :-1].add(across).at[:, 1:].add(-across)

    return product


def temperatures(logs: Any, heat: Any, steps: int) -> Any:
    product = operator(logs)

    def step(u: Any, _: None) -> Any:
        u, _info = cg(product, u + DT * heat, x0=u, tol=1e-11)
        return u, u

    return jax.lax.scan(step, jnp.zeros_like(heat), length=steps)[1]


def misfit(logs: Any, heat: Any, seen: Any, measured: Any) -> Any:
    found = temperatures(logs, heat, len(measured)).reshape(len(measured), -1)[:, seen]
    rough = (jnp.diff(logs, axis=0) ** 2).sum() + (jnp.diff(logs, axis=1) ** 2).sum()
    return ((found - measured) ** 2).sum() + 1e-5 * rough


def problem() -> Any:
    plate = example.Plate(CELLS)
    truth = 0.8 * ad.sin(5 * plate.x) * ad.cos(4 * plate.y) - 0.5
    seen = ad.arange(CELLS**2).reshape(CELLS, CELLS)[1::2, 1::2].reshape(-1)
    return plate, seen, plate.temperatures(truth, STEPS)[:, seen]


def ours() -> Work:
    plate, seen, measured = problem()
    return gradient_of(lambda logs: example.misfit(plate, logs, seen, measured), AT)


def theirs() -> Work:
    plate, seen, measured = problem()
    heat = jnp.asarray(plate.heat.numpy()).reshape(CELLS, CELLS)
    fixed = heat, jnp.asarray(seen.numpy()), jnp.asarray(measured.numpy())
    work, at = jax.jit(jax.value_and_grad(lambda logs: misfit(logs, *fixed))), jnp.asarray(AT)
    return lambda: jax.block_until_ready(work(at))


OURS = [example.Plate.matrix, example.Plate.temperatures, example.misfit]
THEIRS = [operator, temperatures, misfit]
