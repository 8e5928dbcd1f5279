"""One step of training: MLP 784-256-256-10, cross entropy, Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Workload
from benchmarks.workloads.data import normal

SIZES = (784, 256, 256, 10)


def model(lib: Any) -> Any:
    nn = lib.nn
    net = nn.Sequential(
        nn.Linear(SIZES[0], SIZES[1]),
        nn.ReLU(),
        nn.Linear(SIZES[1], SIZES[2]),
        nn.ReLU(),
        nn.Linear(SIZES[2], SIZES[3]),
    )
    with lib.no_grad():
        for seed, parameter in enumerate(net.parameters()):
            parameter.copy_(normal(lib, *parameter.shape, seed=seed, scale=0.05))
    return net


def setup(batch: int) -> Callable[[Any], Callable[[], Any]]:
    def prepare(lib: Any) -> Callable[[], Any]:
        net = model(lib)
        optimizer = lib.optim.Adam(
            net.parameters(), lr=1e-5
        )  # slow, so that no round is timed on vanished gradients
        loss_function = lib.nn.CrossEntropyLoss()
        x = normal(lib, batch, SIZES[0], seed=10)
        target = lib.from_numpy(np.random.default_rng(11).integers(0, SIZES[-1], batch))

        def work() -> Any:
            optimizer.zero_grad()
            loss = loss_function(net(x), target)
            loss.backward()
            optimizer.step()
            return loss, next(net.parameters()).grad

        return work

    return prepare


WORKLOADS = tuple(
    Workload(f"MLP 784-256-256-10, Adam step, batch {batch}", setup(batch), threads=(1, 2))
    for batch in (1, 32, 128)
)
