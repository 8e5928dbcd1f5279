"""
Data from tide gauges
=====================

Data assimilation: the first state of a shallow-water model from a few tide gauges.

A wave runs over a square sea with a shallow bank. Gauges measure its height in the course of time;
the state it started from is found by gradient descent through all time steps, by L-BFGS.

.. code-block:: console

    $ python examples/science/shallow_water.py --cells 64 --steps 300 --turns 40 --save pictures
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import adjoint as ad

GRAVITY, DT = 9.81, 0.02


def bump(cells: int, x: float, y: float, width: float) -> ad.Tensor:
    at = ad.arange(cells) / cells
    across, along = ad.meshgrid(at, at, indexing="ij")
    return ad.exp(-((across - x) ** 2 + (along - y) ** 2) / width**2)


class Sea:
    """Heights h and flows u, v on a periodic grid, over a bottom that is not flat.

    Parameters
    ----------
    cells
        Along each side.
    gauges
        Rows and columns where the height is measured.
    """

    def __init__(self, cells: int, gauges: tuple[ad.Tensor, ad.Tensor]) -> None:
        self.depth = 1 - 0.6 * bump(cells, 0.6, 0.4, 0.2)
        self.gauges = gauges

    def step(self, state: Any) -> Any:
        h, u, v = state
        u = u - DT * GRAVITY * (h.roll(-1, 0) - h)
        v = v - DT * GRAVITY * (h.roll(-1, 1) - h)
        flow_u, flow_v = (self.depth + h) * u, (self.depth + h) * v
        h = h - DT * (flow_u - flow_u.roll(1, 0) + flow_v - flow_v.roll(1, 1))
        return h, u, v

    def run(self, start: ad.Tensor, steps: int, seen: Any = ...) -> ad.Tensor:
        """The heights at some places (everywhere, if none are given), step by step."""

        def step(state: Any, _: None) -> Any:
            state = self.step(state)
            return state, state[0][seen]

        still = ad.zeros_like(start)
        return ad.scan(step, (start, still, still), length=steps)[1]


def misfit(sea: Sea, start: ad.Tensor, data: ad.Tensor) -> ad.Tensor:
    """What the gauges would have measured against what they did, and a taste for smooth states."""
    measured = sea.run(start, len(data), sea.gauges)
    rough = (start - start.roll(1, 0)).square().sum() + (start - start.roll(1, 1)).square().sum()
    return (measured - data).square().sum() + 1e-3 * rough


def assimilate(sea: Sea, data: ad.Tensor, cells: int, turns: int) -> ad.Tensor:
    """The first heights that explain the data best."""
    start = ad.zeros(cells, cells, requires_grad=True)
    search = ad.optim.LBFGS([start], max_iter=turns, history_size=10, line_search_fn="strong_wolfe")

    def evaluate() -> ad.Tensor:
        search.zero_grad()
        loss = misfit(sea, start, data)
        loss.backward()
        return loss

    search.step(evaluate)
    return start.detach()


def draw(folder: str, truth: ad.Tensor, found: ad.Tensor, sea: Sea) -> None:
    """Both waves in the course of time, one above the other."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 4, figsize=(10, 5.4), layout="constrained")
    for column, at in enumerate(ad.linspace(0, len(truth) - 1, 4).long().tolist()):
        for ax, name, heights in zip(
            axes[:, column], ("truth", "assimilated"), (truth, found), strict=True
        ):
            ax.imshow(heights[at].numpy().T, origin="lower", cmap="RdBu_r", vmin=-0.1, vmax=0.1)
            ax.plot(*sea.gauges, "k.", markersize=2)
            ax.set(title=f"{name}, step {at + 1}", xticks=[], yticks=[])
    figure.savefig(Path(folder) / "shallow_water.png", dpi=100)
    pyplot.close(figure)


def main(argv: list[str] | None = None) -> None:
    """Measure a wave, forget it, and find it again."""
    options = argparse.ArgumentParser()
    options.add_argument("--cells", type=int, default=16)
    options.add_argument("--steps", type=int, default=60)
    options.add_argument("--turns", type=int, default=25)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    cells = given.cells
    places = ad.arange(1, cells, max(cells // 8, 2))
    rows, columns = ad.meshgrid(places, places, indexing="ij")
    sea = Sea(cells, (rows.flatten(), columns.flatten()))
    start = 0.15 * bump(cells, 0.3, 0.6, 0.12) - 0.1 * bump(cells, 0.7, 0.7, 0.15)
    with ad.no_grad():
        data, truth = sea.run(start, given.steps, sea.gauges), sea.run(start, given.steps)
    found = assimilate(sea, data, cells, given.turns)
    with ad.no_grad():
        again = sea.run(found, given.steps)
    error = (found - start).norm() / start.norm()
    print(f"{cells} x {cells} cells, {given.steps} steps, {len(sea.gauges[0])} gauges")
    print(f"error of the first state: {error.item():.0%}")
    if given.save:
        draw(given.save, truth, again, sea)


if __name__ == "__main__":
    main()
