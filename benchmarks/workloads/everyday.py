"""What ordinary programs spend their time in: recurrent and transformer layers, loading of data."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import Mark, Workload
from benchmarks.workloads.data import normal

SAMPLES, BATCH = 10_000, 100


def filled(lib: Any, module: Any) -> Any:
    """The same weights in both libraries."""
    with lib.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(lib, *parameter.shape, seed=seed, scale=0.05))
    return module


def through(make: Callable[[Any], Any], *shape: int) -> Callable[[Any], Callable[[], Any]]:
    """Forward and backward through a module, to its input and its parameters."""

    def prepare(lib: Any) -> Callable[[], Any]:
        module = filled(lib, make(lib))
        x = normal(lib, *shape, seed=50, grad=True)
        weights = None

        def work() -> Any:
            nonlocal weights
            module.zero_grad()
            x.grad = None
            y = module(x)
            y = y[0] if isinstance(y, tuple) else y
            if weights is None:
                weights = normal(lib, *y.shape, seed=51)
            y.backward(weights)
            return y, x.grad, next(module.parameters()).grad

        return work

    return prepare


def lstm(lib: Any) -> Any:
    return lib.nn.LSTM(128, 128, num_layers=2)


def encoder(lib: Any) -> Any:
    return lib.nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)


def loader(workers: int) -> Callable[[Any], Callable[[], Any]]:
    """One pass over small samples, shuffled."""

    def prepare(lib: Any) -> Callable[[], Any]:
        data = lib.utils.data
        rng = np.random.default_rng(0)
        x = lib.from_numpy(rng.standard_normal((SAMPLES, 8)).astype(np.float32))
        y = lib.from_numpy(rng.integers(0, 10, SAMPLES))
        batches = data.DataLoader(
            data.TensorDataset(x, y), batch_size=BATCH, shuffle=True, num_workers=workers
        )

        def work() -> Any:
            lib.manual_seed(0)  # the same order in both
            return lib.stack([values[0, 0] + labels[0] for values, labels in batches])

        return work

    return prepare


def saved(lib: Any) -> Callable[[], Any]:
    """A state of a hundred megabytes to a file and back."""
    state = {f"layer{i}.weight": normal(lib, 1000, 2500, seed=i) for i in range(10)}
    folder = tempfile.TemporaryDirectory()

    def work() -> Any:
        path = os.path.join(folder.name, "state.pt")
        lib.save(state, path)
        loaded = lib.load(path)
        return [loaded[name][::100, ::100] for name in state]

    return work


WORKLOADS = (
    Workload(
        "LSTM, 64 steps of 32x128, 2 layers, gradients",
        through(lstm, 64, 32, 128),
        Mark(speedup=1.5),
    ),
    Workload(
        "transformer encoder layer, 16x64x128, gradients",
        through(encoder, 16, 64, 128),
        Mark(speedup=1.2),
    ),
    Workload("DataLoader, 10,000 samples in batches of 100", loader(0), Mark(speedup=1.5)),
    Workload("DataLoader, 10,000 samples, 2 workers", loader(2), Mark(speedup=1.5), threads=(2,)),
    Workload("save and load, 10 tensors of 10 MB", saved, Mark(speedup=1.0)),
)
