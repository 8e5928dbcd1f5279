"""
An ensemble of stochastic paths
===============================

An ensemble of stochastic paths: a double well from the statistics of what moves in it.

A particle in a double well is kicked by noise (Euler and Maruyama's steps). Thousands of paths run
side by side; depth of the well and strength of the noise are found from mean and variance of the
ensemble in the course of time, by gradients along each path. The paths are the same at each
evaluation, so the ensemble is a smooth function of the parameters.

.. code-block:: console

    $ python examples/science/sde_ensemble.py --save pictures
"""

import argparse
from pathlib import Path

import adjoint as ad

DT = 0.02


def paths(parameters, kicks):
    """Places of all particles, step by step; the well is depth * (x² - 1)²."""
    depth, noise = ad.exp(parameters)

    def step(x, kick):
        x = x - DT * 4 * depth * x * (x * x - 1) + noise * DT**0.5 * kick
        return x, x

    start = ad.full_like(kicks[0], 0.2)
    return ad.scan(step, start, kicks)[1]


def statistics(parameters, kicks):
    """Mean and variance of the ensemble at each step."""
    x = paths(parameters, kicks)
    return ad.stack([x.mean(1), x.var(1)])


def misfit(parameters, kicks, observed):
    return (statistics(parameters, kicks) - observed).square().sum() * DT


def fit(kicks, observed, start, turns):
    """Logarithms of both parameters, turn by turn."""
    parameters, passed = start.clone().requires_grad_(), []
    search = ad.optim.LBFGS([parameters], line_search_fn="strong_wolfe", max_iter=4)
    cost = ad.compile(misfit)

    def evaluate():
        search.zero_grad()
        value = cost(parameters, kicks, observed)
        value.backward()
        return value

    for _ in range(turns):
        passed.append(parameters.detach().clone())
        search.step(evaluate)
    return [*passed, parameters.detach()]


def draw(folder, kicks, observed, passed):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(12, 4), layout="constrained")
    time = DT * ad.arange(1, len(kicks) + 1).numpy()
    axes[0].plot(time, paths(passed[-1], kicks)[:, :60], color="C0", alpha=0.25, linewidth=0.6)
    axes[0].set(title="60 paths of the ensemble found", xlabel="time", ylabel="place")
    for ax, k, name in ((axes[1], 0, "mean"), (axes[2], 1, "variance")):
        ax.plot(time, observed[k], "k", linewidth=3, alpha=0.4, label="observed")
        ax.plot(time, statistics(passed[0], kicks)[k], "C3:", label="guess")
        ax.plot(time, statistics(passed[-1], kicks)[k], "C0", label="found")
        ax.set(title=name, xlabel="time")
        ax.legend()
    figure.savefig(Path(folder) / "sde_ensemble.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--paths", type=int, default=2000)
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--turns", type=int, default=6)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    ad.manual_seed(0)
    truth = ad.tensor([0.8, 0.7], dtype=ad.float64).log()
    # What was observed is another ensemble than the one that the parameters are fitted with.
    observed = statistics(truth, ad.randn(given.steps, 20_000, dtype=ad.float64))
    kicks = ad.randn(given.steps, given.paths, dtype=ad.float64)
    guess = ad.tensor([0.3, 0.3], dtype=ad.float64).log()
    passed = fit(kicks, observed, guess, given.turns)
    for name, found, true in zip(("depth", "noise"), passed[-1].exp(), truth.exp(), strict=True):
        print(f"{name} {found:.3f} (truth {true:.3f})")
    if given.save:
        draw(given.save, kicks, observed, passed)


if __name__ == "__main__":
    main()
