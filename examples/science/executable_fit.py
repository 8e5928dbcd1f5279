"""
A fit through a program
=======================

An inverse problem through an executable: a leaking tank from levels that a program predicts.

The program is a stand-in for any simulation: it reads an input deck, integrates two coupled tanks
in small steps, and writes a table. It knows nothing of derivatives, so they are taken by
differences, two runs at a time on two workers, and handed to a fit as any others.

.. code-block:: console

    $ python examples/science/executable_fit.py --save pictures
"""

import argparse
import sys
import tempfile
from pathlib import Path

import adjoint as ad

DECK = "inflow {{inflow}}\nvalve {{valve}}\nleak {{leak}}\n"
PROGRAM = """
import math
p = {name: float(value) for name, value in (line.split() for line in open("tanks.inp"))}
first, second, dt = 2.0, 0.5, 0.005
print("time first second")
for step in range(2400):
    if step % 100 == 0:
        print(f"{step * dt:.3f} {first:.12g} {second:.12g}")
    through = p["valve"] * math.copysign(math.sqrt(abs(first - second)), first - second)
    first += dt * (p["inflow"] - through)
    second += dt * (through - p["leak"] * math.sqrt(second))
"""


def tanks(folder, workers=2, step=None):
    """The program as a function of inflow, valve and leak that can be differentiated.

    Steps of differences that are not given are chosen, and every derivative is then verified.
    """
    deck, program = Path(folder) / "tanks.inp", Path(folder) / "tanks.py"
    deck.write_text(DECK)
    program.write_text(PROGRAM)
    table = ad.external.parsers.columns(use=["first", "second"], skip=1)
    command = ad.command(
        [sys.executable, "-IS", str(program)],
        inputs=["inflow", "valve", "leak"],
        templates=deck,
        outputs={"levels": table},
    )
    return ad.external(command, noise=1e-11, step=step, workers=workers, timeout=60, name="tanks")


def levels(program, logs):
    """Both levels in the course of time, by the logarithms of the three parameters."""
    return program(*ad.exp(logs))["levels"]


def fit(program, measured, guess):
    return ad.optimize.least_squares(
        lambda logs: (levels(program, logs) - measured).reshape(-1), guess, ftol=1e-8, xtol=1e-6
    )


def draw(folder, program, measured, guess, found):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    time = 0.5 * ad.arange(len(measured)).numpy()
    for k, name in enumerate(("first tank", "second tank")):
        left.plot(time, measured[:, k], f"C{k}o", markersize=4, label=f"{name}, measured")
        left.plot(time, levels(program, guess)[:, k], f"C{k}:", label="by the guess")
        left.plot(time, levels(program, found.x.detach())[:, k], f"C{k}", label="by the fit")
    left.set(title="levels", xlabel="time")
    left.legend(ncols=2, fontsize=8)
    slope = ad.func.jacrev(lambda logs: levels(program, logs))(found.x.detach())
    for k, name in enumerate(("inflow", "valve", "leak")):
        right.plot(time, slope[:, 1, k], f"C{k + 2}", label=name)
    right.set(title="change of the second level with the logarithm of", xlabel="time")
    right.legend()
    figure.savefig(Path(folder) / "executable_fit.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    ad.manual_seed(0)
    truth = ad.tensor([0.6, 0.9, 0.5], dtype=ad.float64).log()
    guess = ad.tensor([0.5, 0.5, 0.5], dtype=ad.float64).log()
    with tempfile.TemporaryDirectory() as folder, tanks(folder) as program:
        measured = levels(program, truth)
        measured = measured + 0.01 * ad.randn(measured.shape, dtype=ad.float64)
        found = fit(program, measured, guess)
        for name, value, true in zip(
            ("inflow", "valve", "leak"), found.x.exp(), truth.exp(), strict=True
        ):
            print(f"{name} {value:.4f} (truth {true:.4f})")
        if given.save:
            draw(given.save, program, measured, guess, found)


if __name__ == "__main__":
    main()
