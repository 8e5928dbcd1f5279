"""The answer of x * x = a as a function of a, and its derivative at a = 2."""

from __future__ import annotations

import drawing
import numpy as np

import adjoint as ad


def main() -> None:
    a = ad.tensor(2.0, dtype=ad.float64, requires_grad=True)
    x = ad.optimize.root(lambda x: x * x - a, 1.0).x
    (slope,) = ad.autograd.grad(x, a)
    figure, axes = drawing.plot(8.4, 2.9, 2)
    places = np.linspace(0.6, 2.0, 100)
    axes[0].axhline(0, color="grey", linewidth=0.8)
    for value, colour in ((2.0, drawing.BLUE), (2.4, drawing.RED)):
        axes[0].plot(places, places**2 - value, color=colour, label=f"x² - {value:g}")
        axes[0].plot(np.sqrt(value), 0, "o", color=colour)
    axes[0].set(xlabel="x", title="a moves the equation, and so its root")
    axes[0].legend(frameon=False)
    many = np.linspace(1, 3.4, 100)
    axes[1].plot(many, np.sqrt(many), color="grey", label="root for each a")
    line = x.item() + slope.item() * (many - 2)
    axes[1].plot(
        many, line, "--", color=drawing.RED, label=f"derivative at a = 2: {slope.item():.4f}"
    )
    axes[1].plot(2.0, x.item(), "o", color=drawing.BLUE)
    axes[1].set(xlabel="a", title="one linear solve gives dx/da")
    axes[1].legend(frameon=False)
    for one in axes:
        one.title.set_size(10)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
