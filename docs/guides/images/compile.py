"""What the first call of a compiled function does, and what later calls do; times are measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import drawing
from drawing import BLUE, GREEN, GREY

import adjoint as ad


def swing(x: ad.Tensor, v: ad.Tensor, k: ad.Tensor) -> ad.Tensor:
    for _ in range(200):
        v = v - 0.01 * k * x
        x = x + 0.01 * v
    return x


def least(f: Callable[..., Any], *args: Any) -> float:
    found = []
    for _ in range(30):
        start = time.perf_counter()
        ad.autograd.grad(f(*args).sum(), args[2])
        found.append(time.perf_counter() - start)
    return min(found) * 1e6


def main() -> None:
    args = ad.linspace(0, 1, 64), ad.zeros(64), ad.full((64,), 4.0, requires_grad=True)
    fast = ad.compile(swing)
    eager, compiled = least(swing, *args), least(fast, *args)
    figure, axes = drawing.canvas(9.6, 2.6, 9.6, 2.6)
    drawing.note(axes, 0.15, 2.1, "first call", BLUE, ha="left", size=10.5)
    drawing.box(
        axes, 2.6, 2.1, "run f in Python,\nrecord operations", BLUE, family="sans-serif", size=9.5
    )
    drawing.arrow(axes, (3.75, 2.1), (4.5, 2.1), GREY)
    drawing.box(axes, 5.6, 2.1, "merge, remove,\nfuse", BLUE, family="sans-serif", size=9.5)
    drawing.arrow(axes, (6.6, 2.1), (7.3, 2.1), GREY)
    drawing.box(axes, 8.3, 2.1, "program:\n1 instruction", GREY, family="sans-serif", size=9.5)
    drawing.note(axes, 0.15, 0.75, "later calls", GREEN, ha="left", size=10.5)
    drawing.box(
        axes, 2.6, 0.75, "compare arguments\nand what f reads", GREEN, family="sans-serif", size=9.5
    )
    drawing.arrow(axes, (3.75, 0.75), (7.2, 0.75), GREEN)
    drawing.note(axes, 5.45, 0.93, "same: no Python runs", GREEN)
    drawing.box(axes, 8.3, 0.75, "run the program\nin C++", GREEN, family="sans-serif", size=9.5)
    drawing.arrow(axes, (8.3, 1.75), (8.3, 1.12), GREY)
    drawing.arrow(axes, (2.6, 1.08), (2.6, 1.75), GREY)
    drawing.note(axes, 2.7, 1.42, "different: record anew", GREY, ha="left")
    times = f"{eager:.0f} µs eagerly, {compiled:.0f} µs compiled"
    text = f"200 steps on 64 numbers, with the gradient: {times}"
    drawing.note(axes, 4.8, 0.15, text, "black")
    drawing.save(figure, __file__)


if __name__ == "__main__":
    main()
