"""The simulation of docs/start/simulation.md: what was seen, the first guess, and the fit."""

from __future__ import annotations

from dataclasses import dataclass

import drawing
import numpy as np

import adjoint as ad


@ad.composite(arithmetic=True)
@dataclass
class State:
    x: ad.Tensor
    v: ad.Tensor


TIMES = np.arange(0, 10, 0.05)
wind = ad.external(lambda speed: speed**2 * np.sin(3 * TIMES))


def simulate(stiffness: ad.Tensor, speed: ad.Tensor, start: State) -> ad.Tensor:
    def step(s: State, push: ad.Tensor) -> tuple[State, ad.Tensor]:
        s = s + 0.05 * State(s.v, push - stiffness * s.x - 0.1 * s.v)
        return s, s.x

    return ad.scan(step, start, wind(speed))[1]


def unknowns(*values: float) -> dict[str, object]:
    stiffness, speed, x, v = (ad.tensor(value, dtype=ad.float64) for value in values)
    return {"stiffness": stiffness, "speed": speed, "start": State(x, v)}


def main() -> None:
    seen = simulate(**unknowns(2.6, 0.6, 0.8, 0.2))
    guess = unknowns(2.0, 0.5, 1.0, 0.0)
    found = ad.optimize.least_squares(lambda p: simulate(**p) - seen, guess).x
    figure, axes = drawing.plot(8.4, 2.8)
    axes.plot(TIMES[::5], seen[::5].numpy(), "o", color=drawing.GREY, markersize=4, label="seen")
    label = "guess: stiffness 2"
    axes.plot(TIMES, simulate(**guess).numpy(), "--", color=drawing.RED, label=label)
    label = f"found: stiffness {found['stiffness'].item():.2f}"
    axes.plot(TIMES, simulate(**found).numpy(), color=drawing.BLUE, label=label)
    axes.set(xlabel="time", ylabel="place of the mass")
    axes.legend(frameon=False, loc="upper right", ncols=3)
    axes.set_ylim(-1.1, 1.45)
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
