"""
A map with its uncertainty
==========================

A Bayesian estimate with its uncertainty: earthquake counts on a map, by a sparse Hessian.

Counts in the cells of a map are Poisson numbers whose logarithmic rates are a smooth random field.
The most probable field (MAP) is found by Newton's method; the Hessian has a few entries in each
row, is found by colours and factored as a sparse matrix. Its inverse is Laplace's estimate of the
uncertainty, and its determinant that of the evidence, by which the smoothness is chosen.

.. code-block:: console

    $ python examples/science/map_laplace.py --save pictures
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.sparse.linalg import splu

import adjoint as ad

WEAK = 0.01  # how strongly the prior holds the mean of the field


def energy(field, smoothness, counts):
    """Minus the logarithm of the posterior density, up to what depends on neither argument."""
    steps = field.diff(dim=0).square().sum() + field.diff(dim=1).square().sum()
    prior = ad.exp(smoothness) * steps / 2 + WEAK * field.square().sum() / 2
    return prior + (ad.exp(field) - counts * field).sum()


def prior_logdet(smoothness, shape):
    """Of the prior's precision, whose eigenvalues are those of two chains."""
    chains = [2 - 2 * ad.cos(ad.arange(n, dtype=ad.float64) * (ad.pi / n)) for n in shape]
    return ad.log(ad.exp(smoothness) * (chains[0][:, None] + chains[1]) + WEAK).sum()


class Posterior:
    """Of the field, by counts on a map; smoothness is the logarithm of the prior's strength."""

    def __init__(self, counts):
        self.shape = counts.shape
        self.energy = lambda x, s: energy(x.reshape(counts.shape), s, counts)
        self.start = ad.log(counts.mean()).expand(counts.numel()).clone()
        self.slope = ad.compile(ad.func.grad(self.energy))
        pattern = ad.func.sparsity(ad.func.grad(self.energy))(self.start, ad.zeros(()).double())
        self.hessian = ad.func.hessian(self.energy, sparsity=pattern, verify=False)

    def most_probable(self, smoothness):
        """The field, by Newton's method, and the factors of the Hessian there."""
        field = self.start
        for _ in range(50):
            factors = splu(self.hessian(field, smoothness).tocsc())
            step = ad.from_numpy(factors.solve(self.slope(field, smoothness).numpy()))
            field = field - step
            if step.abs().max() < 1e-9:  # the next one would be its square
                return field, splu(self.hessian(field, smoothness).tocsc())
        raise RuntimeError(f"no minimum: the last step was {step.abs().max():.1e}")

    def log_evidence(self, smoothness):
        """Laplace's estimate, differentiable by the smoothness."""
        at, factors = self.most_probable(smoothness.detach())
        solve = ad.external(factors.solve, vjp=lambda g, b: factors.solve(g), linear=True)
        # One more step of Newton's: it moves nothing, and gives the field its derivative.
        field = at - solve(ad.func.grad(self.energy)(at, smoothness))
        logdet = self.logdet(field, smoothness, factors)
        return (prior_logdet(smoothness, self.shape) - logdet) / 2 - self.energy(field, smoothness)

    def logdet(self, field, smoothness, factors):
        """Of the Hessian H, with the derivative trace(H⁻¹ dH)."""
        inverse = ad.from_numpy(factors.solve(np.eye(len(field))))

        def part(row, direction):
            slope = ad.func.jvp(
                lambda x: ad.func.grad(self.energy)(x, smoothness), (field,), (direction,)
            )
            return row @ slope[1]

        trace = ad.vmap(part)(inverse, ad.eye(len(field), dtype=ad.float64)).sum()
        value = np.log(np.abs(factors.U.diagonal())).sum()
        return value + trace - trace.detach()


def catalogue(n):
    """The true field, and counts."""
    x, y = ad.meshgrid(*[ad.linspace(0, 1, n, dtype=ad.float64)] * 2, indexing="ij")
    fault = 3 * ad.exp(-(((y - 0.3 - 0.5 * x) / 0.08) ** 2)) + 1.5 * ad.sin(3 * x) * ad.cos(4 * y)
    field = fault - 0.5
    return field, ad.poisson(ad.exp(field))


def smoothest(posterior, start, turns):
    """Climb to the smoothness with the largest evidence, by secants of its derivative."""
    at, seen = start, []
    for _ in range(turns):
        s = ad.tensor(at, dtype=ad.float64, requires_grad=True)
        value = posterior.log_evidence(s)
        (slope,) = ad.autograd.grad(value, s)
        seen.append((at, value.item(), slope.item()))
        curvature = -10.0
        if len(seen) > 1 and seen[-1][0] != seen[-2][0]:
            curvature = (seen[-1][2] - seen[-2][2]) / (seen[-1][0] - seen[-2][0])
        at -= max(-1.0, min(1.0, seen[-1][2] / min(curvature, -1.0)))
    return at, seen


def draw(folder, field, counts, found, deviation, seen):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(9, 8), layout="constrained")
    limits = {"vmin": field.min().item(), "vmax": field.max().item()}
    pictures = (
        ("counts", counts, {"cmap": "magma"}),
        ("logarithm of the true rate", field, limits),
        ("the most probable field", found, limits),
        ("its standard deviation", deviation, {"cmap": "cividis"}),
    )
    for ax, (title, values, how) in zip(axes.flat, pictures, strict=True):
        figure.colorbar(ax.imshow(values.numpy(), **how), ax=ax, shrink=0.8)
        ax.set(title=title, xticks=[], yticks=[])
    figure.savefig(Path(folder) / "map_laplace.png", dpi=90)
    pyplot.close(figure)


def main(argv=None):
    options = argparse.ArgumentParser()
    options.add_argument("--cells", type=int, default=24)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--save", help="a folder for the picture")
    given = options.parse_args(argv)
    ad.manual_seed(0)
    field, counts = catalogue(given.cells)
    posterior = Posterior(counts)
    best, seen = smoothest(posterior, 0.0, given.turns)
    at, factors = posterior.most_probable(ad.tensor(best, dtype=ad.float64))
    deviation = ad.from_numpy(np.diag(factors.solve(np.eye(len(at)))).copy()).sqrt()
    error = at - field.reshape(-1)
    print(
        f"{len(at)} cells, {int(counts.sum())} events, {posterior.hessian.passes} passes a Hessian"
    )
    for s, value, slope in seen:
        print(f"smoothness {s:.4f}: log evidence {value:.3f}, slope {slope:.2e}")
    print(f"error of the field {error.square().mean().sqrt():.2f}")
    print(f"within two standard deviations: {(error.abs() < 2 * deviation).double().mean():.0%}")
    if given.save:
        shape = field.shape
        draw(given.save, field, counts, at.reshape(shape), deviation.reshape(shape), seen)


if __name__ == "__main__":
    main()
