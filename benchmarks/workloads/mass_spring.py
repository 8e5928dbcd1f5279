"""A simulation: a chain of masses and springs, stepped through time, differentiated as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.data import normal

STEPS, PARTICLES = 200, 64


def setup(lib: Any) -> Callable[[], Any]:
    stiffness = lib.tensor(2.0, requires_grad=True)
    start = normal(lib, PARTICLES, grad=True)
    dt = 0.01

    def work() -> Any:
        stiffness.grad = start.grad = None
        position, velocity = start, lib.zeros(PARTICLES)
        for _ in range(STEPS):
            stretch = position[1:] - position[:-1]
            pull = stiffness * stretch
            force = lib.cat([pull, -pull[-1:]]) - lib.cat([pull[:1], pull])
            velocity = velocity + dt * force
            position = position + dt * velocity
        (position * position).sum().backward()
        return stiffness.grad, start.grad

    return work


WORKLOADS = (Workload("mass-spring, 200 steps, 64 particles", setup, Mark(seconds=2e-3)),)
