"""The least time across a river with its derivative: SciPy's SLSQP on functions of JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize

from benchmarks.science.race import Work, gradient_of
from examples.science import optimal_control as example

PEER, STEPS, CURRENT, AGREE = "JAX and SciPy", 20, 0.8, 1e-5
ISLAND, RADIUS, HARBOUR, TURN = example.ISLAND, example.RADIUS, example.HARBOUR, example.TURN


def path(unknowns: Any, current: Any) -> Any:
    headings, time = jnp.cumsum(unknowns[:-1]), jnp.exp(unknowns[-1])
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


def off(unknowns: Any, current: Any) -> Any:
    x, y = path(unknowns, current)
    return (x - ISLAND[0]) ** 2 + (y - ISLAND[1]) ** 2 - RADIUS**2


def compiled() -> Any:
    slopes = [jax.jit(jax.jacrev(f)) for f in (arrival, off)]
    by_current = [jax.jit(jax.jacfwd(f, 1)) for f in (arrival, off)]
    return [jax.jit(arrival), jax.jit(off)], slopes, by_current


def best(current: Any, steps: int, functions: Any) -> Any:
    """The least time, and its derivative by the current: that of the Lagrangian."""
    values, slopes, by_current = functions
    constraints = [
        {"type": kind, "fun": f, "jac": s, "args": (current,)}
        for kind, f, s in zip(("eq", "ineq"), values, slopes, strict=True)
    ]
    none = np.zeros(steps)
    u = minimize(
        lambda u: np.exp(u[-1]),
        np.array([1.3] + [0.0] * steps),
        jac=lambda u: np.append(none, np.exp(u[-1])),
        method="SLSQP",
        bounds=[(None, None)] + [(-TURN, TURN)] * (steps - 1) + [(None, None)],
        constraints=constraints,
        options={"ftol": 1e-12, "maxiter": 300},
    ).x
    holds = [np.ones(2, bool), np.asarray(values[1](u, current)) < 1e-8]
    rows = [np.asarray(s(u, current))[h] for s, h in zip(slopes, holds, strict=True)]
    at_bound = np.abs(np.abs(u[:-1]) - TURN) < 1e-8
    rows = np.concatenate([*rows, np.eye(steps + 1)[:-1][at_bound]])
    multipliers = np.linalg.lstsq(rows.T, np.append(none, np.exp(u[-1])), rcond=None)[0]
    change = [np.asarray(d(u, current))[h] for d, h in zip(by_current, holds, strict=True)]
    change = np.concatenate([*change, np.zeros(at_bound.sum())])
    return np.exp(u[-1]), -multipliers @ change


def ours() -> Work:
    return gradient_of(lambda current: example.best(current, STEPS)[-1].exp(), np.array(CURRENT))


def theirs() -> Work:
    functions = compiled()
    return lambda: best(CURRENT, STEPS, functions)


OURS = [example.path, example.time_of, example.rules, example.best]
THEIRS = [path, arrival, off, compiled, best]
