"""A loop over scalars: 1,000 steps of a = sin(a)*b + 0.1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Mark, Workload


def setup(lib: Any) -> Callable[[], Any]:
    start = lib.tensor(0.3, requires_grad=True)
    b = lib.tensor(1.2, requires_grad=True)

    def work() -> Any:
        start.grad = b.grad = None
        a = start
        for _ in range(1000):
            a = lib.sin(a) * b + 0.1
        a.backward()
        return a, start.grad, b.grad

    return work


WORKLOADS = (Workload("scalar recurrence, 1,000 steps", setup, Mark(speedup=25)),)
