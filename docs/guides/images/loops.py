"""The pictures of loops.md: `python docs/guides/images/loops.py` (needs matplotlib, jax and torch).

Times are the least of a few runs, in one thread.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import jax
import matplotlib
import torch

import adjoint as ad

matplotlib.use("Agg")
from matplotlib import pyplot

HERE = Path(__file__).parent
CELLS = 1000


def least(work: Callable[[], Any], times: int = 3) -> float:
    work()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


# -- memory against recomputation ------------------------------------------------------------------


def heat(rate: Any) -> Callable[[Any, Any], Any]:
    return lambda u, _: (u + rate * (u.roll(1) - 2 * u + u.roll(-1)), None)


def recomputation() -> None:
    """Time of a gradient by what is kept."""
    steps = 10_000
    rate, start = ad.tensor(0.2, requires_grad=True), ad.randn(CELLS)
    step = heat(rate)

    def gradient(**kept: Any) -> Callable[[], None]:
        return lambda: ad.scan(step, start, length=steps, **kept)[0].square().sum().backward()

    state = CELLS * 4 / 1e6
    snapshots = [3, 5, 10, 20, 50, 100, 300, 1000]
    figure, ax = pyplot.subplots(figsize=(6, 3.8), layout="constrained")
    times = [least(gradient(snapshots=k), 1) / steps * 1e6 for k in snapshots]
    ax.loglog([k * state for k in snapshots], times, "o-", label="snapshots=k")
    for budget in ("1MB", "3MB", "10MB", "30MB"):
        taken = least(gradient(memory=budget), 1) / steps * 1e6
        label = 'memory="..MB"' if budget == "1MB" else None
        ax.loglog(float(budget[:-2]), taken, "C1s", label=label)
    root = steps**0.5
    ax.loglog(
        2.5 * root * state,
        least(gradient(memory="sqrt"), 1) / steps * 1e6,
        "C2^",
        label='memory="sqrt"',
    )
    ax.axhline(least(gradient(), 1) / steps * 1e6, color="C3", label='memory="all"')
    ax.set(xlabel="kept for the backward pass, MB", ylabel="time of a step with its gradient, us")
    ax.set_title(f"heat equation, {CELLS} cells, {steps:,} steps")
    ax.legend()
    ax.grid(alpha=0.3)
    figure.savefig(HERE / "loops_recomputation.png", dpi=90)


# -- time against length ---------------------------------------------------------------------------


def by_scan(steps: int) -> float:
    rate, start = ad.tensor(0.2, requires_grad=True), ad.randn(CELLS)
    step = heat(rate)
    return least(lambda: ad.scan(step, start, length=steps)[0].square().sum().backward())


def by_loop(lib: Any, steps: int) -> float:
    rate, start = lib.tensor(0.2, requires_grad=True), lib.randn(CELLS)
    step = heat(rate)

    def gradient() -> None:
        u = start
        for _ in range(steps):
            u, _y = step(u, None)
        u.square().sum().backward()

    return least(gradient, 2)


def by_jax(steps: int) -> float:
    start = jax.random.normal(jax.random.key(0), (CELLS,))

    def energy(rate: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            return u + rate * (jax.numpy.roll(u, 1) - 2 * u + jax.numpy.roll(u, -1)), None

        return (jax.lax.scan(step, start, None, steps)[0] ** 2).sum()

    work = jax.jit(jax.grad(energy))
    return least(lambda: work(0.2).block_until_ready())


def lengths() -> None:
    """Time of a gradient by the number of steps."""
    figure, ax = pyplot.subplots(figsize=(6, 3.8), layout="constrained")
    ways: tuple[tuple[str, Callable[[int], float], int], ...] = (
        ("adjoint, scan", by_scan, 100_000),
        ("JAX, lax.scan, jit", by_jax, 100_000),
        ("adjoint, plain loop", lambda n: by_loop(ad, n), 10_000),
        ("PyTorch, plain loop", lambda n: by_loop(torch, n), 10_000),
    )
    for name, way, longest in ways:
        counts = [n for n in (30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000) if n <= longest]
        times = [way(n) for n in counts]
        ax.loglog(counts, times, "o-", label=name)
        print(f"{name:22}", *(f"{n}: {t * 1e3:.2f} ms" for n, t in zip(counts, times, strict=True)))
    ax.set(xlabel="steps", ylabel="gradient, s", title=f"heat equation, {CELLS} cells, one thread")
    ax.legend()
    ax.grid(alpha=0.3)
    figure.savefig(HERE / "loops_lengths.png", dpi=90)


# -- assimilation ----------------------------------------------------------------------------------


def assimilation() -> None:
    """Four frames of examples/science/shallow_water.py."""
    path = HERE.parents[2] / "examples/science/shallow_water.py"
    spec = importlib.util.spec_from_file_location("shallow_water", path)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    cells, steps = 64, 200
    places = ad.arange(1, cells, 8)
    rows, columns = ad.meshgrid(places, places, indexing="ij")
    sea = example.Sea(cells, (rows.flatten(), columns.flatten()))
    start = 0.15 * example.bump(cells, 0.3, 0.6, 0.12) - 0.1 * example.bump(cells, 0.7, 0.7, 0.15)
    with ad.no_grad():
        data, truth = sea.run(start, steps, sea.gauges), sea.run(start, steps)
    found = example.assimilate(sea, data, cells, 40)
    with ad.no_grad():
        again = sea.run(found, steps)
    figure, axes = pyplot.subplots(2, 4, figsize=(8, 4.2), layout="constrained")
    for column, at in enumerate((0, 40, 100, 199)):
        for row, (name, heights) in enumerate((("truth", truth), ("assimilated", again))):
            ax = axes[row, column]
            ax.imshow(heights[at].numpy().T, origin="lower", cmap="RdBu_r", vmin=-0.1, vmax=0.1)
            ax.plot(*(t.numpy() for t in sea.gauges), "k.", markersize=1.5)
            ax.set(title=f"{name}, step {at + 1}", xticks=[], yticks=[])
            ax.title.set_fontsize(9)
    figure.savefig(HERE / "loops_assimilation.png", dpi=80)


if __name__ == "__main__":
    ad.set_num_threads(1)
    torch.set_num_threads(1)
    recomputation()
    lengths()
    assimilation()
