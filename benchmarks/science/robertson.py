"""Stiff reactions with the gradient of a misfit: diffrax's `Kvaerno5`."""

from __future__ import annotations

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import robertson as example

PEER, RTOL, ATOL, AGREE = "diffrax", 1e-6, 1e-10, 1e-3  # each to its tolerance
AT = np.log([0.05, 8e3, 4e7])
TIMES = np.logspace(-5, 5, 31)


def reactions(t: Any, y: Any, rates: Any) -> Any:
    first, second, third = rates[0] * y[0], rates[1] * y[1] * y[2], rates[2] * y[1] * y[1]
    return jnp.stack([second - first, first - second - third, third])


def misfit(logs: Any, times: Any, measured: Any) -> Any:
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(reactions),
        diffrax.Kvaerno5(),
        0.0,
        times[-1],
        1e-6,
        jnp.array([1.0, 0.0, 0.0]),
        args=jnp.exp(logs),
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
    )
    scale = jnp.array([1.0, 1e4, 1.0])
    return ((scale[:, None] * found.ys.T - measured) ** 2).sum()


def measured() -> Any:
    return example.concentrations(example.TRUTH.log(), ad.tensor(TIMES), rtol=1e-9, atol=1e-13)


def ours() -> Work:
    data, times = measured(), ad.tensor(TIMES)
    cost = ad.compile(lambda logs: example.misfit(logs, times, data, rtol=RTOL, atol=ATOL))
    return gradient_of(cost, AT)


def theirs() -> Work:
    data, times = jnp.asarray(measured().numpy()), jnp.asarray(TIMES)
    work = jax.jit(jax.value_and_grad(lambda logs: misfit(logs, times, data)))
    at = jnp.asarray(AT)
    return lambda: jax.block_until_ready(work(at))


OURS = [example.reactions, example.concentrations, example.misfit]
THEIRS = [reactions, misfit]
