"""
Across a river in the least time
================================

Optimal control with constraints: a boat crosses a river in the least time.

The current is strong in the middle, there is an island on the way, and the rudder turns slowly. The
headings of the boat and the time it takes are found together; the derivative of the best time by
the strength of the current is that of the answer, not of the search.

.. code-block:: console

    $ python examples/science/optimal_control.py --save pictures
"""

import argparse
from pathlib import Path

from scipy.optimize import NonlinearConstraint

import adjoint as ad

ISLAND, RADIUS, HARBOUR, TURN = (0.75, 0.5), 0.2, (1.2, 1.0), 0.35


def path(unknowns, current):
    """Places of the boat after each of its steps, and its headings.

    The unknowns are the first heading, how far the rudder turns after each step, and the logarithm
    of the time.
    """
    headings, time = unknowns[:-1].cumsum(0), ad.exp(unknowns[-1])
    step = time / len(headings)

    def sail(place, heading):
        x, y = place
        flow = current * 4 * y * (1 - y)
        place = x + step * (ad.cos(heading) + flow), y + step * ad.sin(heading)
        return place, place

    zero = ad.zeros((), dtype=ad.float64)
    _, (x, y) = ad.scan(sail, (zero, zero), headings)
    return x, y, headings


def time_of(unknowns):
    return ad.exp(unknowns[-1])


def rules(unknowns, current):
    """Where the boat ends, and how far off the island it is (squared) after each step."""
    x, y, _ = path(unknowns, current)
    off = (x - ISLAND[0]) ** 2 + (y - ISLAND[1]) ** 2
    return ad.cat([x[-1:], y[-1:], off])


def best(current, steps, start=None):
    """The unknowns of the least time, differentiable by the current."""
    if start is None:
        start = ad.cat([ad.full((1,), 1.3), ad.zeros(steps)]).double()  # straight, above the island
    obeyed = NonlinearConstraint(
        lambda u: rules(u, current),
        [*HARBOUR, *[RADIUS**2] * steps],
        [*HARBOUR, *[float("inf")] * steps],
    )
    free, turn = (None, None), (-TURN, TURN)
    return ad.optimize.minimize(
        time_of,
        start,
        method="SLSQP",
        bounds=[free, *[turn] * (steps - 1), free],
        constraints=obeyed,
        options={"ftol": 1e-12, "maxiter": 300},
    ).x


def draw(folder, current, found):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(7, 5), layout="constrained")
    at = ad.linspace(0, 1, 11).numpy()
    for column in ad.linspace(-0.2, 1.3, 8).tolist():
        flow = float(current) * 4 * at * (1 - at)
        ax.quiver([column] * 11, at, flow, 0 * at, color="C0", alpha=0.35, scale=12, width=0.003)
    ax.add_patch(pyplot.Circle(ISLAND, RADIUS, color="C2", alpha=0.6))
    ax.plot(0, 0, "ks", markersize=10)
    ax.plot(*HARBOUR, "k*", markersize=16)
    for strength, colour in ((0.5, "C1"), (float(current), "C3"), (1.2, "C4")):
        u = best(ad.tensor(strength, dtype=ad.float64), len(found) - 1, found)
        x, y, headings = path(u, strength)
        zero = ad.zeros(1, dtype=ad.float64)
        x, y = ad.cat([zero, x]), ad.cat([zero, y])
        label = f"current {strength:.1f}: time {u[-1].exp():.3f}"
        ax.plot(x, y, "o-", color=colour, markersize=3, label=label)
        ax.quiver(
            x[:-1], y[:-1], headings.cos(), headings.sin(), color=colour, scale=25, width=0.003
        )
    ax.set(title="the least time across, with the headings", aspect="equal", xlim=(-0.3, 1.5))
    ax.legend(loc="upper left")
    figure.savefig(Path(folder) / "optimal_control.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    current = ad.tensor(0.8, dtype=ad.float64, requires_grad=True)
    found = best(current, given.steps)
    time = found[-1].exp()
    time.backward()
    print(f"least time {time:.6f}")
    nearest = rules(found, current)[2:].min().sqrt()
    print(f"nearest to the middle of the island {nearest:.4f} (its radius is {RADIUS})")
    print(f"change of the time with the current {current.grad:.6f}")
    if given.save:
        draw(given.save, current, found.detach())


if __name__ == "__main__":
    main()
