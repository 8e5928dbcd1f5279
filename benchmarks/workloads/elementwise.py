"""An elementwise expression with its gradient, from overhead-bound to memory-bound sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.data import normal


def setup(n: int) -> Callable[[Any], Callable[[], Any]]:
    def prepare(lib: Any) -> Callable[[], Any]:
        x = normal(lib, n, grad=True)

        def work() -> Any:
            x.grad = None
            y = (lib.sin(x) * lib.exp(-x * x) + x**2).sum()
            y.backward()
            return y, x.grad

        return work

    return prepare


SPEEDUPS = {1_000: 4.0, 100_000: 2.5, 1_000_000: 1.5, 10_000_000: 3.0}

WORKLOADS = tuple(
    Workload(
        f"(sin(X)*exp(-X*X)+X**2).sum(), gradient, n={n:.0e}".replace("e+0", "e"),
        setup(n),
        Mark(speedup=speedup),
        threads=(1, 2),
    )
    for n, speedup in SPEEDUPS.items()
)
