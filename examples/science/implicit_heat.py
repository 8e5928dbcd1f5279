"""
Heat in a plate, implicitly
===========================

The conductivity of a plate from temperatures in the course of time, through implicit steps.

Explicit steps would have to be tiny; an implicit one solves a sparse linear system for all cells.
Its matrix is the same for all steps, so it is factored once, and the backward pass uses the same
factors. Thermometers see part of the plate; the conductivity is found by gradients through all
solves.

.. code-block:: console

    $ python examples/science/implicit_heat.py --save pictures
"""

import argparse
from pathlib import Path

import adjoint as ad

DT = 0.02


class Plate:
    """An n by n plate with edges at zero, heated in two corners."""

    def __init__(self, n):
        self.n = n
        cells = ad.arange(n * n).reshape(n, n)
        first = ad.cat([cells[:-1].reshape(-1), cells[:, :-1].reshape(-1)])
        second = ad.cat([cells[1:].reshape(-1), cells[:, 1:].reshape(-1)])
        edge = ad.cat([cells[0], cells[-1], cells[:, 0], cells[:, -1]])
        self.faces, self.edge, diagonal = (first, second), edge, ad.arange(n * n)
        rows = ad.cat([first, second, first, second, edge, diagonal])
        columns = ad.cat([second, first, first, second, edge, diagonal])
        self.places = rows, columns
        at = (ad.arange(n, dtype=ad.float64) + 0.5) / n
        x, y = ad.meshgrid(at, at, indexing="ij")
        hot = ad.exp(-((x - 0.25) ** 2 + (y - 0.25) ** 2) / 0.02)
        hot = hot + ad.exp(-((x - 0.75) ** 2 + (y - 0.7) ** 2) / 0.02)
        self.x, self.y, self.heat = x, y, 10 * hot.reshape(-1)

    def matrix(self, logs):
        """The matrix of an implicit step, by the logarithm of the conductivity of each cell."""
        k = ad.exp(logs).reshape(-1)
        i, j = self.faces
        through = DT * self.n**2 * 2 * k[i] * k[j] / (k[i] + k[j])  # two half cells in a row
        edge = DT * self.n**2 * 2 * k[self.edge]
        values = ad.cat([-through, -through, through, through, edge, ad.ones_like(k)])
        return ad.sparse.coo_array((values, self.places), shape=(self.n**2, self.n**2))

    def temperatures(self, logs, steps):
        """All temperatures after each step, from a cold plate."""
        implicit = ad.sparse.linalg.splu(self.matrix(logs))
        u, seen = ad.zeros(self.n**2, dtype=ad.float64), []
        for _ in range(steps):
            u = implicit.solve(u + DT * self.heat)
            seen.append(u)
        return ad.stack(seen)


def misfit(plate, logs, seen, measured):
    """What thermometers would show against what they did, and a taste for smooth fields."""
    found = plate.temperatures(logs, len(measured))[:, seen]
    rough = logs.diff(dim=0).square().sum() + logs.diff(dim=1).square().sum()
    return (found - measured).square().sum() + 1e-5 * rough


def recover(plate, seen, measured, turns):
    logs = ad.zeros(plate.n, plate.n, dtype=ad.float64, requires_grad=True)
    search = ad.optim.LBFGS([logs], max_iter=turns, history_size=20, line_search_fn="strong_wolfe")

    def evaluate():
        search.zero_grad()
        value = misfit(plate, logs, seen, measured)
        value.backward()
        return value

    search.step(evaluate)
    return logs.detach()


def draw(folder, plate, truth, found, seen, last):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
    limits = {"vmin": truth.exp().min().item(), "vmax": truth.exp().max().item(), "cmap": "viridis"}
    n = plate.n
    for ax, title, values, how in (
        (axes[0], "temperature at the end", last.reshape(n, n), {"cmap": "inferno"}),
        (axes[1], "true conductivity", truth.exp(), limits),
        (axes[2], "conductivity found", found.exp(), limits),
    ):
        figure.colorbar(ax.imshow(values.numpy(), **how), ax=ax, shrink=0.8)
        ax.set(title=title, xticks=[], yticks=[])
    axes[0].plot(seen % n, seen // n, "c.", markersize=3, label="thermometers")
    axes[0].legend(loc="upper right")
    figure.savefig(Path(folder) / "implicit_heat.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--cells", type=int, default=24)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--turns", type=int, default=60)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    ad.manual_seed(0)
    plate = Plate(given.cells)
    truth = 0.8 * ad.sin(5 * plate.x) * ad.cos(4 * plate.y) - 0.5
    every = ad.arange(given.cells**2).reshape(given.cells, given.cells)
    seen = every[1::2, 1::2].reshape(-1)
    reading = plate.temperatures(truth, given.steps)
    measured = reading[:, seen] + 1e-4 * ad.randn(given.steps, len(seen), dtype=ad.float64)
    found = recover(plate, seen, measured, given.turns)
    error = (found - truth).square().mean().sqrt()
    print(f"{given.cells**2} cells, {given.steps} steps, {len(seen)} thermometers")
    print(
        f"error of the logarithm of the conductivity {error:.3f} (it varies by {truth.std():.3f})"
    )
    if given.save:
        draw(given.save, plate, truth, found, seen, reading[-1])


if __name__ == "__main__":
    main()
