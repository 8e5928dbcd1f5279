"""Two Jacobians and their difference, for a backward that forgets the neighbour at one edge."""

from __future__ import annotations

import drawing
import numpy as np

import adjoint as ad


def main() -> None:
    u = ad.linspace(0.5, 1.5, 8, dtype=ad.float64)
    f = lambda u: u.roll(1) * u  # noqa: E731
    numerical = np.stack(
        [((f(u + 1e-6 * e) - f(u - 1e-6 * e)) / 2e-6).numpy() for e in ad.eye(8, dtype=ad.float64)]
    )
    analytical = ad.func.jacrev(f)(u).mT.numpy().copy()
    analytical[7, 0] = 0.0  # the mistake
    figure, axes = drawing.plot(8.2, 2.9, 3)
    for one, (title, values) in zip(
        axes,
        (
            ("numerical, by differences", numerical),
            ("analytical, by backward", analytical),
            ("their difference", numerical - analytical),
        ),
        strict=True,
    ):
        shown = one.imshow(values, cmap="RdBu_r", vmin=-1.6, vmax=1.6)
        one.set_title(title, size=10)
        one.set(xticks=[], yticks=[], xlabel="output elements")
        one.spines[["top", "right"]].set_visible(True)
    axes[0].set_ylabel("input elements")
    axes[2].annotate("one wrong entry", (0, 7), (1.2, 4.2), arrowprops={"arrowstyle": "->"}, size=9)
    figure.colorbar(shown, ax=axes, shrink=0.8)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
