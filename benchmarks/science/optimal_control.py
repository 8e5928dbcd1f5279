"""The least time across a river with its derivative by the current: SciPy's SLSQP on JAX's functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import optimal_control as example

PEER, STEPS, CURRENT, AGREE = "JAX and SciPy", 20, 0.8, 1e-5
ISLAND, RADIUS, HARBOUR, TURN = example.ISLAND, example.RADIUS, example.HARBOUR, example.TURN


def path(unknowns: Any, current: Any) -> Any:
    headings, time = unknowns[:-1], jnp.exp(unknowns[-1])
    step = time / len(headings)

    def sail(place: Any, heading: Any) -> Any:
        x, y = place
        flow = current * 4 * y * (1 - y)
        place = x + step * (jnp.cos(heading) + flow), y + step * jnp.sin(heading)
        return place, place

    return jax.lax.scan(sail, (0.0, 0.0), headings)[1]


def arrival(unknowns: Any, current: Any) -> Any:
    x, y = path(unknowns, current)
    return jnp.stack([x[-1] - HARBOUR[0], y[-1] - HARBOUR[1]])


def room(unknowns: Any, current: Any) -> Any:
    x, y = path(unknowns, current)
    off = (x - ISLAND[0]) ** 2 + (y - ISLAND[1]) ** 2 - RADIUS**2
    turns = jnp.diff(unknowns[:-1])
    return jnp.concatenate([off, TURN - turns, TURN + turns])


def compiled() -> Any:
    slopes = [jax.jit(jax.jacrev(f)) for f in (arrival, room)]
    by_current = [jax.jit(jax.jacfwd(f, 1)) for f in (arrival, room)]
    return [jax.jit(arrival), jax.jit(room)], slopes, by_current


def best(current: Any, steps: int, functions: Any) -> Any:
    """The least time, and its derivative by the current: that of the Lagrangian."""
    values, slopes, by_current = functions
    constraints = [
        {"type": kind, "fun": f, "jac": s, "args": (current,)}
        for kind, f, s in zip(("eq", "ineq"), values, slopes, strict=True)
    ]
    last = np.zeros(steps + 1)
    found = minimize(
        lambda u: np.exp(u[-1]),
        np.linspace(1.2, 0.2, steps + 1),
        jac=lambda u: np.append(last[:-1], np.exp(u[-1])),
        method="SLSQP",
        constraints=constraints,
        options={"ftol": 1e-12, "maxiter": 300},
    )
    u = found.x
    holds = [np.ones(2, bool), np.asarray(values[1](u, current)) < 1e-8]
    rows = np.concatenate([np.asarray(s(u, current))[h] for s, h in zip(slopes, holds, strict=True)])
    multipliers = np.linalg.lstsq(rows.T, np.append(last[:-1], np.exp(u[-1])), rcond=None)[0]
    change = np.concatenate(
        [np.asarray(d(u, current))[h] for d, h in zip(by_current, holds, strict=True)]
    )
    return np.exp(u[-1]), -multipliers @ change


def ours() -> Work:
    return gradient_of(lambda current: example.best(current, STEPS)[-1].exp(), np.array(CURRENT))


def theirs() -> Work:
    functions = compiled()
    return lambda: best(CURRENT, STEPS, functions)


OURS = [example.path, example.arrival, example.room, example.best]
THEIRS = [path, arrival, room, compiled, best]
