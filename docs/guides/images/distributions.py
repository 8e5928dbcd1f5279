"""How far two estimates of one gradient scatter: through samples, and by the score function."""

from __future__ import annotations

import drawing
import numpy as np

import adjoint as ad
from adjoint import distributions as D


def estimate(through: bool, draws: int) -> float:
    """The derivative of the mean of x**2 by the mean of a normal distribution, which is 2."""
    mean = ad.tensor(1.0, requires_grad=True)
    normal = D.Normal(mean, 0.5)
    if through:
        loss = (normal.rsample((draws,)) ** 2).mean()
    else:
        x = normal.sample((draws,))
        loss = (x**2 * normal.log_prob(x)).mean()
    return ad.autograd.grad(loss, mean)[0].item()


def main() -> None:
    ad.manual_seed(0)
    figure, axes = drawing.plot(6.8, 2.7)
    bins = np.arange(0.4, 3.6, 0.05)
    for through, name, colour in (
        (False, "score function: x**2 * log_prob(x)", drawing.RED),
        (True, "through the samples: rsample", drawing.BLUE),
    ):
        found = [estimate(through, 100) for _ in range(2000)]
        axes.hist(found, bins, color=colour, alpha=0.7, label=name)
    axes.axvline(2.0, color="black", linewidth=1)
    axes.set(xlabel="estimate of the gradient from 100 samples (exact: 2)", yticks=[])
    axes.legend(frameon=False, fontsize=8.5)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
