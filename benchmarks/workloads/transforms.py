"""Per-sample gradients, a Jacobian, a Hessian: beside PyTorch's loops, its transforms, and JAX.

The work of each library is written in its own way: PyTorch eager is what `torch.autograd` does
row by row, PyTorch vectorised is `torch.func`, JAX is compiled. The mark is to be at or ahead of
both forms of PyTorch; JAX is shown beside.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.harness import Mark, Setup, Workload
from benchmarks.workloads.data import normal

Work = Callable[[], Any]
SIZES, BATCH = (64, 128, 128, 10), 64
WIDTH = 256
VARIABLES = 100


def array(lib: Any, *shape: int, seed: int, scale: float = 1.0) -> Any:
    """The numbers of `normal`, also for JAX."""
    if lib.__name__ != "jax":
        return normal(lib, *shape, seed=seed, scale=scale)
    values = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    return lib.numpy.asarray(values * np.float32(scale))


def compiled(jax: Any, function: Callable[..., Any], *args: Any) -> Work:
    fast = jax.jit(function)
    return lambda: jax.block_until_ready(fast(*args))


# --- per-sample gradients -----------------------------------------------------------------------


def layers(lib: Any) -> list[Any]:
    found = []
    for i, (m, n) in enumerate(pairwise(SIZES)):
        found += [array(lib, n, m, seed=2 * i, scale=0.1), array(lib, n, seed=2 * i + 1, scale=0.1)]
    return found


def samples(lib: Any) -> tuple[Any, Any]:
    return array(lib, BATCH, SIZES[0], seed=10), array(lib, BATCH, SIZES[-1], seed=11)


def loss(tanh: Any, params: list[Any], x: Any, target: Any) -> Any:
    w1, b1, w2, b2, w3, b3 = params
    hidden = tanh(w2 @ tanh(w1 @ x + b1) + b2)
    return ((w3 @ hidden + b3 - target) ** 2).sum()


def per_sample(lib: Any) -> Work:
    """`vmap` of `grad`: adjoint, and PyTorch vectorised."""
    params, (x, target) = layers(lib), samples(lib)

    def of_one(params: list[Any], x: Any, target: Any) -> Any:
        return loss(lib.tanh, params, x, target)

    gradients = lib.func.vmap(lib.func.grad(of_one), in_dims=(None, 0, 0))
    return lambda: gradients(params, x, target)


def per_sample_loop(lib: Any) -> Work:
    params, (x, target) = [p.requires_grad_() for p in layers(lib)], samples(lib)

    def work() -> Any:
        rows = [
            lib.autograd.grad(loss(lib.tanh, params, x[i], target[i]), params) for i in range(BATCH)
        ]
        return [lib.stack(column) for column in zip(*rows, strict=True)]

    return work


def per_sample_jax(jax: Any) -> Work:
    params, (x, target) = layers(jax), samples(jax)

    def of_one(params: list[Any], x: Any, target: Any) -> Any:
        return loss(jax.numpy.tanh, params, x, target)

    return compiled(jax, jax.vmap(jax.grad(of_one), in_axes=(None, 0, 0)), params, x, target)


# --- a Jacobian ---------------------------------------------------------------------------------


def network(lib: Any, tanh: Any) -> tuple[Callable[[Any], Any], Any]:
    first, second = (array(lib, WIDTH, WIDTH, seed=s, scale=0.1) for s in (0, 1))
    return lambda x: tanh(second @ tanh(first @ x)), array(lib, WIDTH, seed=2)


def jacobian(lib: Any) -> Work:
    f, x = network(lib, lib.tanh)
    rows = lib.func.jacrev(f)
    return lambda: rows(x)


def jacobian_loop(lib: Any) -> Work:
    f, x = network(lib, lib.tanh)
    return lambda: lib.autograd.functional.jacobian(f, x)


def jacobian_jax(jax: Any) -> Work:
    f, x = network(jax, jax.numpy.tanh)
    return compiled(jax, jax.jacrev(f), x)


# --- a Hessian ----------------------------------------------------------------------------------


def rosenbrock(x: Any) -> Any:
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def hessian(lib: Any) -> Work:
    x, curvature = array(lib, VARIABLES, seed=0), lib.func.hessian(rosenbrock)
    return lambda: curvature(x)


def hessian_loop(lib: Any) -> Work:
    x = array(lib, VARIABLES, seed=0)
    return lambda: lib.autograd.functional.hessian(rosenbrock, x)


def hessian_jax(jax: Any) -> Work:
    return compiled(jax, jax.hessian(rosenbrock), array(jax, VARIABLES, seed=0))


def beside(name: str, setup: Setup, loop: Setup, jax: Setup) -> tuple[Workload, ...]:
    mark = Mark(speedup=1.0)
    return (
        Workload(f"{name}, beside PyTorch eager", setup, mark, peer_setup=loop),
        Workload(f"{name}, beside PyTorch vectorised", setup, mark),
        Workload(f"{name}, beside JAX", setup, peer="jax", peer_setup=jax),
    )


WORKLOADS = (
    *beside(
        "per-sample gradients, MLP 64-128-128-10, batch 64",
        per_sample,
        per_sample_loop,
        per_sample_jax,
    ),
    *beside("Jacobian 256x256", jacobian, jacobian_loop, jacobian_jax),
    *beside("Hessian, Rosenbrock of 100 variables", hessian, hessian_loop, hessian_jax),
)
