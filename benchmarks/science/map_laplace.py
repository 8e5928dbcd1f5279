"""The evidence of a smooth field by Laplace with its derivative: dense Hessians of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import map_laplace as example

PEER, CELLS, WEAK, AT = "JAX", 24, example.WEAK, np.array(-0.3)


def energy(x: Any, smoothness: Any, counts: Any) -> Any:
    field = x.reshape(counts.shape)
    steps = (jnp.diff(field, axis=0) ** 2).sum() + (jnp.diff(field, axis=1) ** 2).sum()
    prior = jnp.exp(smoothness) * steps / 2 + WEAK * (field**2).sum() / 2
    return prior + (jnp.exp(field) - counts * field).sum()


def prior_logdet(smoothness: Any, shape: Any) -> Any:
    chains = [2 - 2 * jnp.cos(jnp.arange(n) * (jnp.pi / n)) for n in shape]
    return jnp.log(jnp.exp(smoothness) * (chains[0][:, None] + chains[1]) + WEAK).sum()


def log_evidence(smoothness: Any, counts: Any) -> Any:
    slope, hessian = jax.grad(energy), jax.hessian(energy)
    given = jax.lax.stop_gradient(smoothness)

    def newton(state: Any) -> Any:
        x, _ = state
        step = jnp.linalg.solve(hessian(x, given, counts), slope(x, given, counts))
        return x - step, jnp.abs(step).max()

    start = jnp.full(counts.size, jnp.log(counts.mean()))
    at, _ = jax.lax.while_loop(lambda s: s[1] > 1e-9, newton, (start, jnp.inf))
    at = jax.lax.stop_gradient(at)
    at = at - jnp.linalg.solve(hessian(at, given, counts), slope(at, smoothness, counts))
    logdet = jnp.linalg.slogdet(hessian(at, smoothness, counts))[1]
    prior = prior_logdet(smoothness, counts.shape)
    return (prior - logdet) / 2 - energy(at, smoothness, counts)


def counts() -> Any:
    ad.manual_seed(0)
    return example.catalogue(CELLS)[1]


def ours() -> Work:
    return gradient_of(example.Posterior(counts()).log_evidence, AT)


def theirs() -> Work:
    given, at = jnp.asarray(counts().numpy()), jnp.asarray(AT)
    work = jax.jit(jax.value_and_grad(lambda s: log_evidence(s, given)))
    return lambda: jax.block_until_ready(work(at))


OURS = [example.energy, example.prior_logdet, example.Posterior]
THEIRS = [energy, prior_logdet, log_evidence]
