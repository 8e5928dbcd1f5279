"""
Stiff reactions
===============

Stiff kinetics: the rates of Robertson's reactions from concentrations over nine decades of time.

Three reactions at rates that are nine powers of ten apart: explicit methods would take a billion
steps. An implicit method takes a few hundred, and the gradient of a fit goes back through them.

.. code-block:: console

    $ python examples/science/robertson.py --save pictures
"""

import argparse
from pathlib import Path

import adjoint as ad

SCALE = ad.tensor([1.0, 1e4, 1.0], dtype=ad.float64)  # the second substance is rare
TRUTH = ad.tensor([0.04, 1e4, 3e7], dtype=ad.float64)


def reactions(t, y, rates):
    """A → B, B + C → A + C, 2 B → B + C."""
    first, second, third = rates[0] * y[0], rates[1] * y[1] * y[2], rates[2] * y[1] * y[1]
    return ad.stack([second - first, first - second - third, third])


def concentrations(logs, times, method="Rodas3", rtol=1e-6, atol=1e-10):
    """Scaled concentrations at some times, by the logarithms of the rates."""
    start = ad.tensor([1.0, 0.0, 0.0], dtype=ad.float64)
    found = ad.integrate.solve_ivp(
        reactions,
        (0.0, times[-1]),
        start,
        method,
        times,
        args=(ad.exp(logs),),
        rtol=rtol,
        atol=atol,
    )
    return SCALE[:, None] * found.y


def misfit(logs, times, measured, **how):
    return (concentrations(logs, times, **how) - measured).square().sum()


def fit(times, measured, guess):
    """The logarithms of the rates, and how well the data determine them."""
    found = ad.optimize.least_squares(
        lambda logs: (concentrations(logs, times) - measured).reshape(-1), guess
    )
    information = found.jac.T @ found.jac
    variance = 2 * found.cost / (measured.numel() - 3)
    return found.x.detach(), (variance * ad.linalg.inv(information).diagonal()).sqrt()


def draw(folder, times, measured, guess, found):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    fine = ad.logspace(-5, 6, 200, dtype=ad.float64)
    for k, name in enumerate(("A", "10⁴ B", "C")):
        ax.semilogx(times, measured[k], f"C{k}o", markersize=4)
        ax.semilogx(fine, concentrations(guess, fine)[k], f"C{k}:", alpha=0.6)
        ax.semilogx(fine, concentrations(found, fine)[k], f"C{k}", label=name)
    ax.set(
        title="Robertson's reactions: measured, by the guess (dotted), by the fit", xlabel="time"
    )
    ax.legend()
    figure.savefig(Path(folder) / "robertson.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--times", type=int, default=34)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    ad.manual_seed(0)
    times = ad.logspace(-5, 6, given.times, dtype=ad.float64)
    measured = concentrations(TRUTH.log(), times)
    measured = measured + 0.01 * ad.randn(measured.shape, dtype=ad.float64)
    guess = (TRUTH * ad.tensor([2.0, 0.4, 3.0], dtype=ad.float64)).log()
    found, deviation = fit(times, measured, guess)
    for k, (log, error, true) in enumerate(zip(found, deviation, TRUTH, strict=True)):
        print(f"rate {k + 1}: {log.exp():.4g} ± {error:.1%} (truth {true:.4g})")
    if given.save:
        draw(given.save, times, measured, guess, found)


if __name__ == "__main__":
    main()
