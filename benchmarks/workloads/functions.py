"""The cost of custom functions: the call recorded, with saved tensors, and there and back."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.data import normal


def doubling(lib: Any) -> Any:
    class Double(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 2

    return Double


def product(lib: Any) -> Any:
    class Product(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            x, y = ctx.saved_tensors
            return grad * y, grad * x

    return Product


def trivial(lib: Any) -> Callable[[], Any]:
    double, x = doubling(lib), normal(lib, 3, grad=True)

    def work() -> Any:
        for _ in repeat(None, 1000):
            y = double.apply(x)
        return y

    return work


def saving(lib: Any) -> Callable[[], Any]:
    multiply = product(lib)
    x, y = normal(lib, 3, grad=True), normal(lib, 3, seed=1, grad=True)

    def work() -> Any:
        for _ in repeat(None, 1000):
            z = multiply.apply(x, y)
        return z

    return work


def there_and_back(lib: Any) -> Callable[[], Any]:
    multiply, x = product(lib), normal(lib, 3, grad=True)
    factor = lib.tensor([1.01, 0.99, 1.0])

    def work() -> Any:
        x.grad = None
        y = x
        for _ in repeat(None, 100):
            y = multiply.apply(y, factor)
        y.sum().backward()
        return x.grad

    return work


WORKLOADS = (
    Workload("custom function of x*2, recorded", trivial, Mark(seconds=1.5e-6), calls=1000),
    Workload("custom function that saves x and y, recorded", saving, Mark(speedup=4.0), calls=1000),
    Workload("chain of 100 custom products, sum, backward", there_and_back, Mark(speedup=4.0)),
)
