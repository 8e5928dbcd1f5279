"""Matrix products with both gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.data import normal


def setup(n: int) -> Callable[[Any], Callable[[], Any]]:
    def prepare(lib: Any) -> Callable[[], Any]:
        a, b = normal(lib, n, n, grad=True), normal(lib, n, n, seed=1, grad=True)
        c = normal(lib, n, n, seed=2)

        def work() -> Any:
            a.grad = b.grad = None
            ((a @ b) * c).sum().backward()
            return a.grad, b.grad

        return work

    return prepare


SPEEDUPS = {64: 1.5, 256: 0.95, 1024: 0.95}

WORKLOADS = tuple(
    Workload(f"((A@B)*C).sum(), gradients, n={n}", setup(n), Mark(speedup=speedup), threads=(1, 2))
    for n, speedup in SPEEDUPS.items()
)
