"""Values inside a block may lie in another memory order than eager ones: nothing can be told of it.

Random programs on arrays of points: short last axes, views, sums over any axes, products and
pieces between them, and their gradients. Everything is compared to the last bit.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import adjoint as ad

from .test_program_fusion import check, uniform

SHAPES = [
    (32, 3),
    (17, 2),
    (16, 16, 3),
    (12, 9, 4),
    (5, 7, 2, 2),
    (40, 8),
    (20, 1, 3),
    (33, 5),
    (6, 6, 3, 3),
]


def step(rng: random.Random, t: ad.Tensor, other: ad.Tensor) -> ad.Tensor:
    """Draw something that is done to a tensor of some shape; the result has any shape."""
    n = t.dim()
    axis = rng.randrange(n) if n else 0
    kind = rng.randrange(16)
    if kind < 4 or n == 0:
        return [t * 1.5, t.sin(), t + 0.25, t * t][kind % 4]
    if kind == 4:
        return t - t.mean(axis, keepdim=True)
    if kind == 5:
        return t * t.sum(axis, keepdim=True)
    if kind == 6 and n > 1:
        return t.sum(axis) * 0.5 + 1
    if kind == 7 and t.size(axis) > 1:
        return t.narrow(axis, 1, t.size(axis) - 1) * 2 - t.narrow(axis, 0, t.size(axis) - 1)
    if kind == 8:
        order = list(range(n))
        rng.shuffle(order)
        return t.permute(order) * 2
    if kind == 9:
        return t.reshape(-1, t.size(-1)) + 1
    if kind == 10:
        return ad.cat([t, t * 2], axis)
    if kind == 11 and n == 2 and t.numel() < 2000:
        return t[:, None] - t[None]
    if kind == 12 and n == 2:
        return (t @ t.T) * 0.1
    if kind == 13:
        return t.flip(axis) + t
    if kind == 14:
        return t[..., ::2] * 3
    return t + other.sum() if n < 4 else t.sum((0, 1)) + 1


def program(seed: int) -> Any:
    def f(x: ad.Tensor) -> list[ad.Tensor | None]:
        rng = random.Random(seed)
        pool = [x * 1.0, x + 0.5]
        for _ in range(10):
            t = step(rng, rng.choice(pool), pool[0])
            if 0 < t.numel() < 6000:
                pool.append(t.clamp(-4, 4))
        total = pool[-1].sum() + sum(t.mean() for t in pool[2:])
        return [total, *ad.autograd.grad(total, [x]), *rng.sample(pool, 2)]

    return f


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_on_points(seed: int) -> None:
    rng = random.Random(seed + 1000)
    shape, dtype = rng.choice(SHAPES), rng.choice([ad.float32, ad.float32, ad.float64])
    check(program(seed), lambda s: [uniform(s, *shape, dtype=dtype).requires_grad_()], runs=1)


@pytest.mark.parametrize("n", [3, 7, 8, 16, 31, 32, 40])
@pytest.mark.parametrize("d", [2, 3, 8])
def test_forces_between_points(n: int, d: int) -> None:
    def f(x: ad.Tensor, m: ad.Tensor) -> list[ad.Tensor | None]:
        apart = x[None] - x[:, None]
        squares = (apart * apart).sum(-1) + 0.01
        force = (apart * (m[None, :] / (squares * squares.sqrt()))[:, :, None]).sum(1)
        energy = (m * (force * force).sum(-1)).sum()
        return [energy, *ad.autograd.grad(energy, [x, m])]

    check(f, lambda s: [uniform(s, n, d).requires_grad_(), uniform(s, n).abs().requires_grad_()])
