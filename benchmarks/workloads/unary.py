"""The kernels alone: unary functions of 1e6 numbers into memory that exists already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.data import normal

NAMES = ("exp", "sin", "tanh", "log", "sigmoid")


def setup(name: str) -> Callable[[Any], Callable[[], Any]]:
    def prepare(lib: Any) -> Callable[[], Any]:
        x = normal(lib, 1_000_000)
        if name == "log":
            x = x.abs() + 0.1
        out = lib.empty_like(x)
        function = getattr(lib, name)

        def work() -> Any:
            function(x, out=out)
            return out

        return work

    return prepare


WORKLOADS = tuple(
    Workload(f"{name}, n=1e6, preallocated", setup(name), Mark(speedup=0.95), threads=(1, 2))
    for name in NAMES
)
