"""The cost of recording: products of three numbers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.data import normal


def one_product(lib: Any) -> Callable[[], Any]:
    x, y = normal(lib, 3, grad=True), normal(lib, 3, seed=1, grad=True)

    def work() -> Any:
        for _ in repeat(None, 1000):
            z = x * y
        return z

    return work


def chain(lib: Any) -> Callable[[], Any]:
    x = normal(lib, 3, grad=True)
    factor = lib.tensor([1.01, 0.99, 1.0])

    def work() -> Any:
        x.grad = None
        y = x
        for _ in repeat(None, 100):
            y = y * factor
        y.sum().backward()
        return x.grad

    return work


WORKLOADS = (
    Workload("x*y, shape (3,), recorded", one_product, Mark(seconds=0.08e-6), calls=1000),
    Workload("chain of 100 products, sum, backward", chain, Mark(seconds=15e-6)),
)
