"""
A power grid as a layer
=======================

An implicit layer: the voltages of a power grid, found as a root and differentiated as an answer.

What the generators of a grid feed in decides its voltages, by equations without a formula for their
solution. A layer solves them by Newton's method; gradient descent through the layer then finds the
voltages of the generators that lose the least power in the lines.

.. code-block:: console

    $ python examples/science/implicit_layer.py --save pictures
"""

import argparse
from pathlib import Path

import adjoint as ad


class Grid:
    """Buses on a ring with chords; the first is the slack, every fifth has a generator."""

    def __init__(self, buses):
        ring = ad.arange(buses)
        self.lines = ad.cat([ad.stack([ring, (ring + k) % buses]) for k in (1, 7)], 1)
        resistance = 0.01 + 0.02 * ad.rand(self.lines.shape[1], dtype=ad.float64)
        self.conductance = resistance / (resistance**2 + (4 * resistance) ** 2)
        self.susceptance = -4 * self.conductance
        self.g, self.b = (self._matrix(y, buses) for y in (self.conductance, self.susceptance))
        self.generators = ring[::5]
        self.loads = ring[ring % 5 != 0]
        self.active = -0.3 * ad.rand(buses, dtype=ad.float64)
        self.reactive = 0.4 * self.active
        self.active[self.generators[1:]] = 0.8

    def _matrix(self, y, buses):
        i, j = self.lines
        m = ad.zeros(buses, buses, dtype=ad.float64)
        m = m.index_put((i, j), -y, accumulate=True).index_put((j, i), -y, accumulate=True)
        return m - ad.diag(m.sum(1))

    def voltages(self, unknowns, levels):
        """Magnitudes and angles at all buses; `levels` are the magnitudes at the generators."""
        n = len(self.active)
        angles = ad.cat([ad.zeros(1, dtype=ad.float64), unknowns[: n - 1]])
        magnitudes = ad.zeros(n, dtype=ad.float64).index_put((self.generators,), levels)
        return magnitudes.index_put((self.loads,), unknowns[n - 1 :]), angles

    def mismatch(self, unknowns, levels):
        """What does not balance: active power beyond the slack, reactive power at the loads."""
        v, angles = self.voltages(unknowns, levels)
        x, y = v * ad.cos(angles), v * ad.sin(angles)
        in_x, in_y = self.g @ x - self.b @ y, self.g @ y + self.b @ x  # currents
        active, reactive = x * in_x + y * in_y - self.active, y * in_x - x * in_y - self.reactive
        return ad.cat([active[1:], reactive[self.loads]])

    def layer(self, levels):
        """Magnitudes and angles, differentiable by the levels of the generators."""
        n = len(self.active)
        flat = ad.cat([ad.zeros(n - 1), ad.ones(len(self.loads))]).double()
        return self.voltages(ad.optimize.root(self.mismatch, flat, args=(levels,)).x, levels)

    def loss(self, levels):
        """What the lines turn into heat, and a fine for voltages more than 6 % off."""
        v, angles = self.layer(levels)
        (vi, vj), (ai, aj) = v[self.lines], angles[self.lines]
        heat = (self.conductance * (vi**2 + vj**2 - 2 * vi * vj * ad.cos(ai - aj))).sum()
        return heat + 10 * ((v - 1).abs() - 0.06).clamp(min=0).square().sum()


def improve(grid, turns):
    """Gradient descent on the levels; losses turn by turn."""
    levels = ad.ones(len(grid.generators), dtype=ad.float64, requires_grad=True)
    descent = ad.optim.Adam([levels], lr=0.003)
    losses = []
    for _ in range(turns):
        descent.zero_grad()
        loss = grid.loss(levels)
        loss.backward()
        descent.step()
        losses.append(loss.item())
    return levels.detach(), losses


def draw(folder, grid, levels, losses):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    v, _ = grid.layer(levels)
    turn = ad.arange(len(v)) * (2 * ad.pi / len(v))
    x, y = turn.cos(), turn.sin()
    for i, j in grid.lines.T.tolist():
        left.plot([x[i], x[j]], [y[i], y[j]], color="0.8", zorder=0, linewidth=1)
    shown = left.scatter(x, y, c=v, s=90, cmap="plasma", edgecolor="k")
    at = grid.generators
    left.scatter(x[at], y[at], s=260, facecolor="none", edgecolor="C2", linewidth=2)
    figure.colorbar(shown, ax=left, label="voltage")
    left.set(title="the grid (generators in green)", aspect="equal", xticks=[], yticks=[])
    right.plot(losses)
    right.set(title="power lost in the lines", xlabel="turn", ylabel="loss")
    right.grid(alpha=0.3)
    figure.savefig(Path(folder) / "implicit_layer.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--buses", type=int, default=50)
    options.add_argument("--turns", type=int, default=150)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    ad.manual_seed(0)
    grid = Grid(given.buses)
    levels, losses = improve(grid, given.turns)
    print(f"{given.buses} buses, {len(levels)} generators")
    print(f"lost at first {losses[0]:.5f}, at last {losses[-1]:.5f}")
    if given.save:
        draw(given.save, grid, levels, losses)


if __name__ == "__main__":
    main()
