"""The misfit of a shallow-water model to tide gauges with its gradient: `jax.lax.scan`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import shallow_water as example

PEER, CELLS, STEPS, AGREE = "JAX", 64, 200, 1e-4  # in float32
DT, GRAVITY = example.DT, example.GRAVITY


def misfit(start: Any, data: Any, depth: Any, gauges: Any) -> Any:
    def step(state: Any, _: None) -> Any:
        h, u, v = state
        u = u - DT * GRAVITY * (jnp.roll(h, -1, 0) - h)
        v = v - DT * GRAVITY * (jnp.roll(h, -1, 1) - h)
        flow_u, flow_v = (depth + h) * u, (depth + h) * v
        h = h - DT * (flow_u - jnp.roll(flow_u, 1, 0) + flow_v - jnp.roll(flow_v, 1, 1))
        return (h, u, v), h[gauges]

    still = jnp.zeros_like(start)
    _, measured = jax.lax.scan(step, (start, still, still), length=len(data))
    rough = ((start - jnp.roll(start, 1, 0)) ** 2).sum()
    rough = rough + ((start - jnp.roll(start, 1, 1)) ** 2).sum()
    return ((measured - data) ** 2).sum() + 1e-3 * rough


def sea() -> Any:
    places = ad.arange(1, CELLS, 8)
    rows, columns = ad.meshgrid(places, places, indexing="ij")
    found = example.Sea(CELLS, (rows.flatten(), columns.flatten()))
    with ad.no_grad():
        data = found.run(0.15 * example.bump(CELLS, 0.3, 0.6, 0.12), STEPS, found.gauges)
    return found, data


AT = 0.1 * np.random.default_rng(0).normal(size=(CELLS, CELLS)).astype(np.float32)


def ours() -> Work:
    model, data = sea()
    return gradient_of(ad.compile(lambda start: example.misfit(model, start, data)), AT)


def theirs() -> Work:
    model, data = sea()
    gauges = tuple(jnp.asarray(t.numpy()) for t in model.gauges)
    fixed = jnp.asarray(data.numpy()), jnp.asarray(model.depth.numpy()), gauges
    work, at = jax.jit(jax.value_and_grad(lambda start: misfit(start, *fixed))), jnp.asarray(AT)
    return lambda: jax.block_until_ready(work(at))


OURS, THEIRS = [example.Sea.step, example.Sea.run, example.misfit], [misfit]
