"""The error of a difference against its step, and the steps that `ad.external` chose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drawing
import numpy as np

import adjoint as ad

Function = Callable[[Any], Any]
CASES: list[tuple[str, Function, Function, float, str]] = [
    ("sin(x)", np.sin, np.cos, 0.7, "C0"),
    ("sin(1e6 x)", lambda x: np.sin(1e6 * x), lambda x: 1e6 * np.cos(1e6 * x), 0.7, "C1"),
    ("sin(x), printed with 6 digits", lambda x: np.round(np.sin(x), 6), np.cos, 0.7, "C2"),
]


def chosen(f: Function, at: float) -> list[float]:
    """Half the distances of the pairs that the gradient was made of."""
    seen: list[float] = []

    def counted(x: Any) -> Any:
        seen.append(float(x) - at)
        return f(x)

    x = ad.tensor(at, dtype=ad.float64, requires_grad=True)
    external = ad.external(counted)
    external(x).backward()
    seen.clear()
    again = x.detach().requires_grad_()
    external(again).backward()  # steps are known by now: this pair is the derivative
    return [abs(step) for step in seen if step]


def main() -> None:
    figure, axes = drawing.plot(7.2, 3.4)
    steps = 10.0 ** np.arange(-13, 0.3, 0.25)
    for name, f, slope, at, colour in CASES:
        differences = np.array([(f(at + h) - f(at - h)) / (2 * h) for h in steps])
        errors = np.abs(differences - slope(at)) / abs(slope(at))
        axes.loglog(steps, np.maximum(errors, 1e-13), color=colour, linewidth=1.4, label=name)
        step = max(chosen(f, at))
        error = abs((f(at + step) - f(at - step)) / (2 * step) - slope(at)) / abs(slope(at))
        axes.plot(step, error, "o", color=colour, markersize=9)
    axes.plot([], [], "o", color="grey", label="the step that adjoint chose")
    axes.axvline(1e-6, color="grey", linewidth=0.8, linestyle=":")
    axes.annotate("a fixed step of 1e-6 ", (1e-6, 3e-13), size=8, color="grey", ha="right")
    axes.set(xlabel="step of the difference", ylabel="relative error", ylim=(1e-13, 30))
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
