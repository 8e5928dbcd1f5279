"""Running sums, sorts, medians, distances and rows of a table, each with gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Mark, Setup, Workload
from benchmarks.workloads.data import normal


def gradient_of(shape: tuple[int, ...], function: Callable[[Any, Any], Any]) -> Setup:
    """The gradient of a weighted sum of what the function gives."""

    def setup(lib: Any) -> Callable[[], Any]:
        x = normal(lib, *shape, grad=True)
        weights = normal(lib, *function(lib, x).shape, seed=1)

        def work() -> Any:
            x.grad = None
            y = function(lib, x)
            y.backward(weights)
            return y, x.grad

        return work

    return setup


def distances(lib: Any) -> Callable[[], Any]:
    x, y = normal(lib, 100, 3, grad=True), normal(lib, 100, 3, seed=1, grad=True)
    weights = normal(lib, 100, 100, seed=2)

    def work() -> Any:
        x.grad = y.grad = None
        d = lib.cdist(x, y)
        d.backward(weights)
        return d, x.grad, y.grad

    return work


def embedding(lib: Any) -> Callable[[], Any]:
    table = normal(lib, 50_000, 128, grad=True)
    rows = lib.tensor(np.random.default_rng(1).integers(0, 50_000, 8192))
    weights = normal(lib, 8192, 128, seed=2)

    def work() -> Any:
        table.grad = None
        y = lib.nn.functional.embedding(rows, table)
        y.backward(weights)
        return y, table.grad

    return work


def sort(lib: Any) -> Callable[[], Any]:
    # Different numbers: where there are equal ones, torch's order of them is its own.
    rng = np.random.default_rng(0)
    numbers = np.unique(rng.standard_normal(1_100_000).astype(np.float32))
    x = lib.from_numpy(rng.permutation(numbers)[:1_000_000]).requires_grad_()
    weights = normal(lib, 1_000_000, seed=1)

    def work() -> Any:
        x.grad = None
        y = lib.sort(x).values
        y.backward(weights)
        return y, x.grad

    return work


def cumsum(lib: Any, x: Any) -> Any:
    return lib.cumsum(x, 0)


def median(lib: Any, x: Any) -> Any:
    return lib.median(x, 1).values


LIKE_PEER = Mark(speedup=1.0)
WORKLOADS = [
    Workload("cumsum of 1e6, gradient", gradient_of((1_000_000,), cumsum), LIKE_PEER),
    Workload("sort of 1e6, gradient", sort, LIKE_PEER),
    Workload("median of 1000x1000 along rows", gradient_of((1000, 1000), median), LIKE_PEER),
    Workload("cdist of 100 and 100 points, gradients", distances, LIKE_PEER),
    Workload("embedding, 8192 of 50,000x128, gradient", embedding, Mark(speedup=2.0)),
]
