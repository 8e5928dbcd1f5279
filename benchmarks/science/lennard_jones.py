"""The motion of atoms with neighbour lists, differentiated by their potential: `jax.lax.scan`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import lennard_jones as example

PEER = "JAX"
CUT, DT, EACH = example.CUT, example.DT, 10
AT = np.array([0.95, 0.99])


def energy(x: Any, potential: Any, first: Any, second: Any, box: float) -> Any:
    depth, width = potential
    apart = x[first] - x[second]
    apart = apart - box * jnp.round(apart / box)
    square = (apart * apart).sum(1)
    near = (first != second) & (square < CUT**2)
    ratio = (width**2 / jnp.where(near, square, 1.0)) ** 3
    at_cut = (width / CUT) ** 6
    pairs = ratio * ratio - ratio - at_cut * at_cut + at_cut
    return 4 * depth * jnp.where(near, pairs, 0.0).sum()


def moved(state: Any, potential: Any, first: Any, second: Any, box: float) -> Any:
    def force(x: Any) -> Any:
        return -jax.grad(energy)(x, potential, first, second, box)

    def step(state: Any, _: None) -> Any:
        x, v, f = state
        v = v + DT / 2 * f
        x = x + DT * v
        f = force(x)
        return (x, v + DT / 2 * f, f), None

    x, v = state
    (x, v, _), _ = jax.lax.scan(step, (x, v, force(x)), length=EACH)
    return x, v


def start() -> Any:
    """A liquid after a few steps, and the pairs that both use."""
    ad.manual_seed(0)
    (x, v), box = example.liquid(4)
    pairs = example.neighbours(x, box, room=50 * len(x))
    return (x, v), box, pairs


def ours() -> Work:
    state, box, pairs = start()

    @ad.compile
    def far(potential: Any) -> Any:
        return example.moved(state, potential, *pairs, box, EACH)[0].square().sum()

    return gradient_of(far, AT)


def theirs() -> Work:
    state, box, pairs = start()
    first, second = (jnp.asarray(p.numpy()) for p in pairs)
    state = tuple(jnp.asarray(t.numpy()) for t in state)

    def far(potential: Any) -> Any:
        return (moved(state, potential, first, second, box)[0] ** 2).sum()

    work, at = jax.jit(jax.value_and_grad(far)), jnp.asarray(AT)
    return lambda: jax.block_until_ready(work(at))


OURS, THEIRS = [example.energy, example.moved], [energy, moved]
