"""The likelihood of a Kalman filter with its gradient: `jax.lax.scan`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import kalman as example

PEER, STEPS = "JAX", 1000
LOGS = np.array([0.3, -1.0])


def cost_of(logs: Any, measured: Any, moves: Any, seen: Any, pushed: Any, start: Any) -> Any:
    pushes, noise = jnp.exp(logs[0]) * pushed, jnp.exp(logs[1]) * jnp.eye(2)

    def step(state: Any, z: Any) -> Any:
        mean, cov = state
        mean, cov = moves @ mean, moves @ cov @ moves.T + pushes
        spread = seen @ cov @ seen.T + noise
        surprise = z - seen @ mean
        gain = jnp.linalg.solve(spread, seen @ cov).T
        after = mean + gain @ surprise, cov - gain @ seen @ cov
        cost = surprise @ jnp.linalg.solve(spread, surprise) + jnp.linalg.slogdet(spread)[1]
        return after, cost / 2

    return jax.lax.scan(step, start, measured)[1].sum()


def data() -> Any:
    ad.manual_seed(3)
    return example.track(STEPS)[1]


def ours() -> Work:
    measured = data()
    return gradient_of(ad.compile(lambda logs: example.cost_of(logs, measured)), LOGS)


def theirs() -> Work:
    measured = jnp.asarray(data().numpy())
    fixed = [jnp.asarray(t.numpy()) for t in (example.MOVES, example.SEEN, example.PUSHED)]
    start = tuple(jnp.asarray(t.numpy()) for t in example.START)
    work = jax.jit(jax.value_and_grad(lambda logs: cost_of(logs, measured, *fixed, start)))
    logs = jnp.asarray(LOGS)
    return lambda: jax.block_until_ready(work(logs))


OURS, THEIRS = [example.update, example.cost_of], [cost_of]
