"""Bodies that attract one another: 32 of them, 100 steps of leapfrog, the energy differentiated.

Arrays of points, whose last axis is three long, are what loops over memory do worst.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.transforms import array, compiled

STEPS, BODIES, DT = 100, 32, 0.01


def forces(x: Any, mass: Any, root: Callable[[Any], Any]) -> Any:
    apart = x[None] - x[:, None]
    squares = (apart * apart).sum(-1) + 0.01
    return (apart * (mass[None, :] / (squares * root(squares)))[:, :, None]).sum(1)


def energy(x: Any, mass: Any, velocity: Any, root: Callable[[Any], Any]) -> Any:
    pull = forces(x, mass, root)
    for _ in range(STEPS):
        velocity = velocity + DT / 2 * pull
        x = x + DT * velocity
        pull = forces(x, mass, root)
        velocity = velocity + DT / 2 * pull
    return 0.5 * (mass * (velocity * velocity).sum(-1)).sum()


def start(lib: Any) -> tuple[Any, Any]:
    mass = np.random.default_rng(1).uniform(0.5, 1.5, BODIES).astype(np.float32) / BODIES
    return array(lib, BODIES, 3, seed=0), mass


def setup(lib: Any) -> Callable[[], Any]:
    x, mass = start(lib)
    x, mass = x.requires_grad_(), lib.tensor(mass, requires_grad=True)
    rest = lib.zeros(BODIES, 3)

    def work() -> Any:
        x.grad = mass.grad = None
        value = energy(x, mass, rest, lib.sqrt)
        value.backward()
        return value, x.grad, mass.grad

    return work


def by_jax(jax: Any) -> Callable[[], Any]:
    """The loop as `lax.scan`, JAX's best form."""
    jnp = jax.numpy
    x, mass = start(jax)

    def f(x: Any, mass: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            x, velocity, pull = state
            velocity = velocity + DT / 2 * pull
            x = x + DT * velocity
            pull = forces(x, mass, jnp.sqrt)
            return (x, velocity + DT / 2 * pull, pull), None

        first = (x, jnp.zeros((BODIES, 3), jnp.float32), forces(x, mass, jnp.sqrt))
        (_, velocity, _), _ = jax.lax.scan(step, first, None, STEPS)
        return 0.5 * (mass * (velocity * velocity).sum(-1)).sum()

    both = jax.value_and_grad(f, (0, 1))

    def flat(x: Any, mass: Any) -> Any:
        value, gradients = both(x, mass)
        return value, *gradients

    return compiled(jax, flat, x, jnp.asarray(mass))


WORKLOADS = (Workload("32 bodies, 100 steps", setup, Mark(speedup=1.0)),)
