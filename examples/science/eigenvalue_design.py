"""
The tone of a beam
==================

Eigenvalue design: the thickness of a cantilever that makes its lowest tone as high as can be.

A beam of beam elements (Euler and Bernoulli), clamped at one end, vibrates at the square roots of
the eigenvalues of K v = λ M v. Its stiffness grows with the cube of its thickness, its mass with
the thickness itself; there is a given amount of material.

.. code-block:: console

    $ python examples/science/eigenvalue_design.py --save pictures
"""

import argparse
from pathlib import Path

import adjoint as ad

THIN = 0.3  # of the mean thickness: nothing thinner can be made


def stiffness_and_mass(thickness):
    """The matrices of a beam of unit length; each node has a deflection and a slope."""
    n = len(thickness)
    h = 1 / n
    bend = ad.tensor(
        [
            [12, 6 * h, -12, 6 * h],
            [6 * h, 4 * h * h, -6 * h, 2 * h * h],
            [-12, -6 * h, 12, -6 * h],
            [6 * h, 2 * h * h, -6 * h, 4 * h * h],
        ],
        dtype=ad.float64,
    )
    move = ad.tensor(
        [
            [156, 22 * h, 54, -13 * h],
            [22 * h, 4 * h * h, 13 * h, -3 * h * h],
            [54, 13 * h, 156, -22 * h],
            [-13 * h, -3 * h * h, -22 * h, 4 * h * h],
        ],
        dtype=ad.float64,
    )
    rows = 2 * ad.arange(n)[:, None] + ad.arange(4)  # of an element in the whole matrix
    where = (rows[:, :, None] * (2 * n + 2) + rows[:, None, :]).reshape(-1)

    def assembled(factor, element):
        parts = factor[:, None, None] * element
        whole = ad.zeros((2 * n + 2) ** 2, dtype=ad.float64).index_add(0, where, parts.reshape(-1))
        return whole.reshape(2 * n + 2, -1)[2:, 2:]  # the first node is clamped

    return assembled(thickness**3 / h**3, bend), assembled(thickness * h / 420, move)


def modes(thickness):
    """Eigenvalues, lowest first, and the deflections of their modes."""
    stiffness, mass = stiffness_and_mass(thickness)
    root = ad.linalg.cholesky(mass)
    half = ad.linalg.solve_triangular(root, stiffness, upper=False)
    values, vectors = ad.linalg.eigh(ad.linalg.solve_triangular(root, half.mT, upper=False))
    return values, ad.linalg.solve_triangular(root.mT, vectors, upper=True)[::2]


def profile(p):
    """A thickness of mean 1, nowhere below `THIN`, from any numbers."""
    return THIN + (1 - THIN) * len(p) * ad.softmax(p, 0)


def lowest_tone(p):
    return modes(profile(p))[0][0].sqrt()


def design(elements, turns):
    """Climb to the highest lowest tone."""
    tone = ad.compile(lowest_tone)
    start = ad.zeros(elements, dtype=ad.float64)
    cost = ad.scipy_callback(lambda p: -tone(p), start)
    from scipy.optimize import minimize

    found = minimize(
        cost.fun_and_jac, cost.x0, jac=True, method="L-BFGS-B", options={"maxiter": turns}
    )
    return cost.unpack(found.x)


def draw(folder, plain, best):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(10, 5), layout="constrained", sharex=True)
    for (top, bottom), name, thickness in zip(
        axes.T, ("uniform", "designed"), (plain, best), strict=True
    ):
        values, shapes = modes(thickness)
        n = len(thickness)
        half = thickness.numpy() / 2
        top.stairs(half, ad.linspace(0, 1, n + 1).numpy(), baseline=-half, fill=True)
        top.set(title=f"{name}: lowest tone {values[0].sqrt():.2f}", ylim=(-2, 2), yticks=[])
        at = ad.arange(1, n + 1) / n
        for k in range(3):
            shape = shapes[:, k] / shapes[:, k].abs().max()
            bottom.plot(at, shape, label=f"tone {values[k].sqrt():.1f}")
        bottom.set(xlabel="along the beam", ylabel="deflection")
        bottom.legend()
    figure.savefig(Path(folder) / "eigenvalue_design.png", dpi=100)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--elements", type=int, default=30)
    options.add_argument("--turns", type=int, default=200)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    best = profile(design(given.elements, given.turns))
    plain = ad.ones(given.elements, dtype=ad.float64)
    before, after = (modes(t)[0][0].sqrt() for t in (plain, best))
    # The lowest tone of a uniform beam with unit properties is 1.8751 squared.
    print(f"lowest tone of the uniform beam {before:.5f} (theory 3.51602)")
    print(f"lowest tone of the designed beam {after:.5f}")
    print(f"it is thickest at the clamp: {bool(best.argmax() == 0)}")
    if given.save:
        draw(given.save, plain, best)


if __name__ == "__main__":
    main()
