"""The losses of a power grid with their gradient, through a root: optimistix's `Newton`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optimistix

import adjoint as ad
from benchmarks.science.race import Work, gradient_of
from examples.science import implicit_layer as example

PEER, BUSES = "optimistix", 50


def voltages(unknowns: Any, levels: Any, grid: Any) -> Any:
    n = len(grid["active"])
    angles = jnp.concatenate([jnp.zeros(1), unknowns[: n - 1]])
    magnitudes = jnp.zeros(n).at[grid["generators"]].set(levels)
    return magnitudes.at[grid["loads"]].set(unknowns[n - 1 :]), angles


def mismatch(unknowns: Any, given: Any) -> Any:
    levels, grid = given
    v, angles = voltages(unknowns, levels, grid)
    x, y = v * jnp.cos(angles), v * jnp.sin(angles)
    in_x, in_y = grid["g"] @ x - grid["b"] @ y, grid["g"] @ y + grid["b"] @ x
    active = x * in_x + y * in_y - grid["active"]
    reactive = y * in_x - x * in_y - grid["reactive"]
    return jnp.concatenate([active[1:], reactive[grid["loads"]]])


def loss(levels: Any, grid: Any) -> Any:
    flat = jnp.concatenate([jnp.zeros(len(grid["active"]) - 1), jnp.ones(len(grid["loads"]))])
    solver = optimistix.Newton(rtol=1e-12, atol=1e-12)
    root = optimistix.root_find(mismatch, solver, flat, args=(levels, grid)).value
    v, angles = voltages(root, levels, grid)
    (vi, vj), (ai, aj) = v[grid["lines"]], angles[grid["lines"]]
    heat = (grid["conductance"] * (vi**2 + vj**2 - 2 * vi * vj * jnp.cos(ai - aj))).sum()
    return heat + 10 * (jnp.clip(jnp.abs(v - 1) - 0.06, 0) ** 2).sum()


def problem() -> Any:
    ad.manual_seed(0)
    grid = example.Grid(BUSES)
    return grid, 1 + 0.05 * np.sin(np.arange(float(len(grid.generators))))


def ours() -> Work:
    grid, at = problem()
    return gradient_of(grid.loss, at)


def theirs() -> Work:
    grid, at = problem()
    names = ("g", "b", "active", "reactive", "generators", "loads", "lines", "conductance")
    arrays = {name: jnp.asarray(getattr(grid, name).numpy()) for name in names}
    work, at = jax.jit(jax.value_and_grad(lambda levels: loss(levels, arrays))), jnp.asarray(at)
    return lambda: jax.block_until_ready(work(at))


OURS = [example.Grid.voltages, example.Grid.mismatch, example.Grid.layer, example.Grid.loss]
THEIRS = [voltages, mismatch, loss]
