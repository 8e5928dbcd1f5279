"""A solution, and how each of its times answers to a parameter."""

from __future__ import annotations

import drawing

import adjoint as ad


def main() -> None:
    t = ad.linspace(0, 15, 200, dtype=ad.float64)

    def solved(mu: ad.Tensor) -> ad.Tensor:
        slope = lambda t, y: ad.stack([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])  # noqa: E731
        return ad.integrate.solve_ivp(slope, (0, 15), [2.0, 0.0], t_eval=t, rtol=1e-8, atol=1e-8).y[
            0
        ]

    mu = ad.tensor(1.0, dtype=ad.float64)
    path, slope = ad.func.jvp(solved, (mu,), (ad.ones_like(mu),))
    moved = solved(mu + 0.1)
    figure, axes = drawing.plot(8.2, 2.9)
    axes.plot(t, path, color=drawing.BLUE, label="y, van der Pol with mu = 1")
    axes.plot(t, moved, color="grey", linewidth=1, label="y with mu = 1.1")
    axes.plot(
        t, path + 0.1 * slope, ":", color=drawing.RED, label="y + 0.1 dy/dmu, from one derivative"
    )
    axes.set(xlabel="t", ylim=(-3, 4.6))
    axes.legend(frameon=False, fontsize=8.5, ncols=3, loc="upper center")
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
