"""Step sweeps of a right and of a wrong derivative."""

from __future__ import annotations

from typing import Any

import drawing
import numpy as np


def sweep(wrong: float) -> tuple[np.ndarray, np.ndarray]:
    steps = 2.0 ** -np.arange(2, 44)
    f, slope = (lambda x: np.sin(x) * np.exp(x)), lambda x: np.exp(x) * (np.sin(x) + np.cos(x))
    at = 0.5
    claimed = slope(at) * (1 + wrong)
    differences = (f(at + steps) - f(at - steps)) / (2 * steps)
    return steps, np.abs(differences - claimed) / abs(claimed)


def main() -> None:
    figure, axes = drawing.plot(8, 2.9, 2, sharey=True)
    cases: list[tuple[Any, float, str]] = [
        (axes[0], 0.0, "right: a V, down to rounding"),
        (axes[1], 1e-4, "wrong by 1e-4: a plateau at 1e-4"),
    ]
    for one, wrong, title in cases:
        steps, errors = sweep(wrong)
        one.loglog(steps, np.maximum(errors, 1e-13), color=drawing.RED if wrong else drawing.BLUE)
        one.set_title(title, size=10)
        one.set_xlabel("step")
        one.invert_xaxis()
    axes[0].set_ylabel("differences against backward")
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
