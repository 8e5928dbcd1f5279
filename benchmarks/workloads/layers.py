"""Building blocks of networks: layer norm, softmax cross entropy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Workload
from benchmarks.workloads.data import normal


def layer_norm(lib: Any) -> Callable[[], Any]:
    x = normal(lib, 4096, 512, grad=True)
    weight, bias = (normal(lib, 512, seed=s, grad=True) for s in (1, 2))
    c = normal(lib, 4096, 512, seed=3)

    def work() -> Any:
        x.grad = weight.grad = bias.grad = None
        y = lib.nn.functional.layer_norm(x, (512,), weight, bias)
        (y * c).sum().backward()
        return x.grad, weight.grad, bias.grad

    return work


def cross_entropy(lib: Any) -> Callable[[], Any]:
    x = normal(lib, 256, 10_000, grad=True)
    target = lib.from_numpy(np.random.default_rng(1).integers(0, 10_000, 256))

    def work() -> Any:
        x.grad = None
        loss = lib.nn.functional.cross_entropy(x, target)
        loss.backward()
        return loss, x.grad

    return work


WORKLOADS = (
    Workload("layer norm 4096x512, gradients", layer_norm, threads=(1, 2)),
    Workload("softmax cross entropy 256x10,000, gradient", cross_entropy, threads=(1, 2)),
)
