"""One step of training: MLP 784-256-256-10, cross entropy, Adam."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.harness import Workload
from benchmarks.workloads.data import normal
from benchmarks.workloads.transforms import array

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


def by_jax(batch: int) -> Callable[[Any], Callable[[], Any]]:
    """The same with Adam written out, the state handed from call to call."""

    def prepare(jax: Any) -> Callable[[], Any]:
        jnp, tree = jax.numpy, jax.tree.map
        shapes = [shape for m, n in pairwise(SIZES) for shape in ((n, m), (n,))]
        params = [array(jax, *s, seed=seed, scale=0.05) for seed, s in enumerate(shapes)]
        zeros = [jnp.zeros(s, jnp.float32) for s in shapes]
        x = array(jax, batch, SIZES[0], seed=10)
        target = jnp.asarray(np.random.default_rng(11).integers(0, SIZES[-1], batch))

        def loss(params: Any, x: Any, target: Any) -> Any:
            w1, b1, w2, b2, w3, b3 = params
            hidden = jax.nn.relu(jax.nn.relu(x @ w1.T + b1) @ w2.T + b2)
            scores = jax.nn.log_softmax(hidden @ w3.T + b3)
            return -jnp.take_along_axis(scores, target[:, None], 1).mean()

        @jax.jit
        def step(x: Any, target: Any, params: Any, first: Any, second: Any, count: Any) -> Any:
            value, grads = jax.value_and_grad(loss)(params, x, target)
            count = count + 1
            first = tree(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
            second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
            one, two = 1 - 0.9**count, 1 - 0.999**count

            def moved(p: Any, m: Any, v: Any) -> Any:
                return p - 1e-5 * (m / one) / (jnp.sqrt(v / two) + 1e-8)

            state = tree(moved, params, first, second), first, second, count
            return state, (value, grads[0])

        state = params, zeros, zeros, jnp.float32(0)

        def work() -> Any:
            nonlocal state
            state, found = jax.block_until_ready(step(x, target, *state))
            return found

        return work

    return prepare


WORKLOADS = tuple(
    Workload(f"MLP 784-256-256-10, Adam step, batch {batch}", setup(batch), threads=(1, 2))
    for batch in (1, 32, 128)
)
