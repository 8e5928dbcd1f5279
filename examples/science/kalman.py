"""
Kalman filter and smoother
==========================

A Kalman filter and smoother whose noise levels are found by maximum likelihood.

A boat is tracked by noisy positions. Neither the noise nor how much the boat is pushed about is
known: the filter's likelihood is differentiated through all of its steps to find both, and the
smoother then runs back over the track.

.. code-block:: console

    $ python examples/science/kalman.py --save pictures
"""

import argparse
from pathlib import Path

import adjoint as ad

DT = 0.1
NOW = ad.eye(2, dtype=ad.float64)
MOVES = ad.eye(4, dtype=ad.float64) + DT * ad.eye(4, dtype=ad.float64).roll(2, 1).triu()
SEEN = ad.eye(2, 4, dtype=ad.float64)  # the positions, not the speeds
PUSHED = ad.kron(ad.tensor([[DT**3 / 3, DT**2 / 2], [DT**2 / 2, DT]], dtype=ad.float64), NOW)
START = ad.zeros(4, dtype=ad.float64), 10 * ad.eye(4, dtype=ad.float64)


def update(state, z, pushes, noise):
    """The state before a measurement, after it, and minus the logarithm of its likelihood."""
    mean, cov = state
    mean, cov = MOVES @ mean, MOVES @ cov @ MOVES.T + pushes
    spread = SEEN @ cov @ SEEN.T + noise
    surprise = z - SEEN @ mean
    gain = ad.linalg.solve(spread, SEEN @ cov).T
    after = mean + gain @ surprise, cov - gain @ SEEN @ cov
    cost = surprise @ ad.linalg.solve(spread, surprise) + ad.linalg.slogdet(spread)[1]
    return (mean, cov), after, cost / 2


def cost_of(logs, measured):
    """Minus the logarithm of the likelihood of a track.

    `logs` are the logarithms of the strength of the pushes and of the variance of the measurements.
    """
    pushes, noise = ad.exp(logs[0]) * PUSHED, ad.exp(logs[1]) * NOW
    _, costs = ad.scan(lambda s, z: update(s, z, pushes, noise)[1:], START, measured)
    return costs.sum()


def filtered(logs, measured):
    """The states before and after each measurement."""
    pushes, noise = ad.exp(logs[0]) * PUSHED, ad.exp(logs[1]) * NOW

    def step(state, z):
        before, after, _ = update(state, z, pushes, noise)
        return after, (before, after)

    return ad.scan(step, START, measured)[1]


def smoothed(before, after):
    """The states given all measurements (Rauch, Tung and Striebel)."""

    def step(later, rows):
        (mean, cov), (mean_before, cov_before) = rows
        gain = ad.linalg.solve(cov_before, MOVES @ cov).T
        found = (
            mean + gain @ (later[0] - mean_before),
            cov + gain @ (later[1] - cov_before) @ gain.T,
        )
        return found, found

    last = after[0][-1], after[1][-1]
    earlier = (after[0][:-1], after[1][:-1]), (before[0][1:], before[1][1:])
    _, (means, covs) = ad.scan(step, last, earlier, reverse=True)
    return ad.cat([means, last[0][None]]), ad.cat([covs, last[1][None]])


def track(steps, pushes=2.0, noise=0.3):
    """A boat's states, and its measured positions."""
    root = ad.linalg.cholesky(pushes * PUSHED)
    kicks = ad.randn(steps, 4, dtype=ad.float64) @ root.T
    _, states = ad.scan(lambda s, k: (MOVES @ s + k,) * 2, START[0], kicks)
    return states, states[:, :2] + noise * ad.randn(steps, 2, dtype=ad.float64)


def fitted(measured):
    """The logarithms of both noise levels that make the measurements most likely."""
    cost = ad.compile(lambda logs: cost_of(logs, measured))
    start = ad.zeros(2, dtype=ad.float64)
    return ad.optimize.minimize(cost, start, method="L-BFGS-B").x.detach()


def draw(folder, states, measured, after, smooth):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
    first = slice(0, 40)  # where the boat is slow enough for the noise to be seen
    left.plot(*measured[first].T, "o", color="0.75", label="measured")
    left.plot(*states[first, :2].T, "k", label="truth", linewidth=2)
    left.plot(*after[0][first, :2].T, "C1", label="filter")
    left.plot(*smooth[0][first, :2].T, "C0", label="smoother", linewidth=2)
    left.set(title="the first 4 seconds of the track", xlabel="east", ylabel="north")
    left.legend()
    time = DT * ad.arange(len(states)).numpy()
    for (mean, cov), name, colour in ((after, "filter", "C1"), (smooth, "smoother", "C0")):
        speed, width = mean[:, 2], 2 * cov[:, 2, 2].sqrt()
        right.fill_between(time, speed - width, speed + width, color=colour, alpha=0.3, label=name)
    right.plot(time, states[:, 2], "k", label="truth")
    right.set(title="speed to the east, two standard deviations", xlabel="time")
    right.legend()
    figure.savefig(Path(folder) / "kalman.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=300)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    ad.manual_seed(3)
    states, measured = track(given.steps)
    logs = fitted(measured)
    before, after = filtered(logs, measured)
    smooth = smoothed(before, after)
    print(f"strength of the pushes {logs[0].exp():.2f} (truth 2.00)")
    print(f"noise of the measurements {(logs[1] / 2).exp():.3f} (truth 0.300)")
    for name, mean in (("measured", measured), ("filter", after[0]), ("smoother", smooth[0])):
        error = (mean[:, :2] - states[:, :2]).square().mean().sqrt()
        print(f"error of the positions, {name}: {error:.3f}")
    if given.save:
        draw(given.save, states, measured, after, smooth)


if __name__ == "__main__":
    main()
