"""
A force field from moving atoms
===============================

Lennard-Jones atoms with neighbour lists: a force field from the motion of the atoms.

Argon-like atoms in a periodic box move under forces that are gradients of their energy. The depth
and the width of the potential are found from positions observed along the way, by differentiating
through the motion: derivatives of derivatives. Pairs that are near enough are looked for once in
a while, outside the graph; in between the list of pairs is a constant.

.. code-block:: console

    $ python examples/science/lennard_jones.py --save pictures
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

import adjoint as ad

CUT, SKIN, DT = 2.5, 0.4, 0.004


def neighbours(x, box, room):
    """The pairs nearer than the cut and a skin; `room` of them, the rest are pairs of one atom."""
    at = x.detach().numpy() % box
    pairs = cKDTree(at, boxsize=box).query_pairs(CUT + SKIN, output_type="ndarray")
    if len(pairs) > room:
        raise ValueError(f"there are {len(pairs)} pairs, and room for {room}")
    filled = np.zeros((room, 2), dtype=np.int64)
    filled[: len(pairs)] = pairs
    return ad.from_numpy(filled[:, 0]), ad.from_numpy(filled[:, 1])


def energy(x, potential, first, second, box):
    """Of all pairs within the cut; it is zero at the cut."""
    depth, width = potential
    apart = x[first] - x[second]
    apart = apart - box * ad.round(apart / box)  # to the nearest image
    square = (apart * apart).sum(1)
    near = (first != second) & (square < CUT**2)
    ratio = (width**2 / ad.where(near, square, 1.0)) ** 3
    at_cut = (width / CUT) ** 6
    pairs = ratio * ratio - ratio - at_cut * at_cut + at_cut
    return 4 * depth * ad.where(near, pairs, 0.0).sum()


def moved(state, potential, first, second, box, steps):
    """Some steps of velocity Verlet with a list of pairs that stays."""

    def force(x):
        return -ad.func.grad(energy)(x, potential, first, second, box)

    def step(state, _):
        x, v, f = state
        v = v + DT / 2 * f
        x = x + DT * v
        f = force(x)
        return (x, v + DT / 2 * f, f), None

    x, v = state
    (x, v, _), _ = ad.scan(step, (x, v, force(x)), length=steps)
    return x, v


def trajectory(potential, start, box, stretches=4, each=10):
    """Positions at the end of each stretch of `each` steps, for which new pairs are looked for."""
    state, seen = start, []
    for _ in range(stretches):
        pairs = neighbours(state[0], box, room=50 * len(state[0]))
        state = moved(state, potential, *pairs, box, each)
        seen.append(state[0])
    return ad.stack(seen)


def liquid(cells, density=0.8442, temperature=0.728):
    """Atoms on a face-centred lattice with random speeds, and the side of their box."""
    side = (4 / density) ** (1 / 3)
    corner = ad.cartesian_prod(*[ad.arange(cells, dtype=ad.float64)] * 3)
    places = ad.tensor([[0, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 0]], dtype=ad.float64) / 2
    x = side * (corner[:, None] + places).reshape(-1, 3)
    v = temperature**0.5 * ad.randn(x.shape, dtype=ad.float64)
    return (x, v - v.mean(0)), cells * side


def fit(start, box, data, guess, **lengths):
    """Depth and width of the potential from positions, by Gauss and Newton's method."""
    passed = [guess]

    def residuals(potential):
        return (trajectory(potential, start, box, **lengths) - data).reshape(-1)

    for _ in range(6):
        slope = ad.func.jacfwd(residuals)(passed[-1])
        step = ad.linalg.lstsq(slope, residuals(passed[-1])[:, None]).solution[:, 0]
        passed.append((passed[-1] - step).detach())
    return passed


def draw(folder, seen, box, passed, truth):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    x, y, z = (seen[-1] % box).T.numpy()
    shown = left.scatter(x, y, c=z, s=90, cmap="viridis", edgecolor="k", linewidth=0.4)
    figure.colorbar(shown, ax=left, label="height")
    left.set(title=f"{len(x)} atoms at the end", aspect="equal", xlim=(0, box), ylim=(0, box))
    r = ad.linspace(0.85, 2.5, 200, dtype=ad.float64)
    for k, (depth, width) in enumerate(passed):
        ratio = (width / r) ** 6
        name = {0: "guess", len(passed) - 1: "found"}.get(k)
        colour = "C3" if k == 0 else "C0"
        right.plot(
            r, 4 * depth * (ratio**2 - ratio), colour, alpha=0.3 + 0.7 * bool(name), label=name
        )
    ratio = (truth[1] / r) ** 6
    right.plot(r, 4 * truth[0] * (ratio**2 - ratio), "k:", linewidth=3, label="truth")
    right.set(title="the potential, turn by turn", xlabel="distance", ylim=(-1.3, 1.5))
    right.legend()
    figure.savefig(Path(folder) / "lennard_jones.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--cells", type=int, default=4)
    options.add_argument("--each", type=int, default=10)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    ad.manual_seed(0)
    start, box = liquid(given.cells)
    truth = ad.tensor([1.0, 1.0], dtype=ad.float64)
    data = trajectory(truth, start, box, each=given.each)
    guess = ad.tensor([0.8, 0.95], dtype=ad.float64)
    passed = fit(start, box, data, guess, each=given.each)
    print(f"{len(start[0])} atoms, {len(data) * given.each} steps")
    for k, (depth, width) in enumerate(passed):
        print(f"turn {k}: depth {depth:.6f}, width {width:.6f}")
    if given.save:
        draw(given.save, data, box, passed, truth)


if __name__ == "__main__":
    main()
