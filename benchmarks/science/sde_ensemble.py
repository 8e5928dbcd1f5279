"""Statistics of an ensemble of stochastic paths with their gradient: `jax.lax.scan`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import sde_ensemble as example

PEER, DT = "JAX", example.DT
AT = np.log([0.5, 0.5])


def misfit(parameters: Any, kicks: Any, observed: Any) -> Any:
    depth, noise = jnp.exp(parameters)

    def step(x: Any, kick: Any) -> Any:
        x = x - DT * 4 * depth * x * (x * x - 1) + noise * DT**0.5 * kick
        return x, x

    _, x = jax.lax.scan(step, jnp.full_like(kicks[0], 0.2), kicks)
    found = jnp.stack([x.mean(1), x.var(1, ddof=1)])
    return ((found - observed) ** 2).sum() * DT


def data() -> Any:
    ad.manual_seed(0)
    kicks = ad.randn(200, 2000, dtype=ad.float64)
    return kicks, example.statistics(ad.tensor([0.8, 0.7], dtype=ad.float64).log(), kicks)


def ours() -> Work:
    kicks, observed = data()
    return gradient_of(ad.compile(lambda p: example.misfit(p, kicks, observed)), AT)


def theirs() -> Work:
    fixed = [jnp.asarray(t.numpy()) for t in data()]
    work, at = jax.jit(jax.value_and_grad(lambda p: misfit(p, *fixed))), jnp.asarray(AT)
    return lambda: jax.block_until_ready(work(at))


OURS, THEIRS = [example.paths, example.statistics, example.misfit], [misfit]
