"""Loops read what is rolled, joined, padded or sliced where it lies, box by box.

Random stencils on grids of one to four axes, small and large, contiguous and transposed, and their
gradients. Everything is compared to the last bit.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import adjoint as ad

from .test_program_fusion import check, names, uniform

SMALL = [
    (1000,),
    (63,),
    (7,),
    (1,),
    (64, 64),
    (3, 700),
    (700, 3),
    (9, 1, 11),
    (8, 9, 10),
    (2, 3, 4, 5),
]
LARGE = [(20_000,), (130, 131), (3, 80, 90), (300, 2, 40)]


def moved(rng: random.Random, t: ad.Tensor) -> ad.Tensor:
    """Draw what has the same shape and is put together from parts of `t`."""
    axis = rng.randrange(t.dim())
    n, by = t.size(axis), rng.choice([1, 1, 2, -1, -3, 5])
    kind = rng.randrange(8)
    if kind < 3:
        return t.roll(by, axis)
    if kind == 3:
        axes = rng.sample(range(t.dim()), min(2, t.dim()))
        return t.roll([by] * len(axes), axes)
    k = min(abs(by), n)
    if kind == 4:
        zeros = ad.zeros_like(t.narrow(axis, 0, k))
        return ad.cat([zeros, t.narrow(axis, 0, n - k)], axis)
    if kind == 5:
        return ad.cat([t.narrow(axis, k, n - k), -t.narrow(axis, n - k, k)], axis)
    if kind == 6:
        pad = [0, 0] * (t.dim() - 1 - axis) + [k, -k]
        return ad.nn.functional.pad(t, pad)
    return ad.stack([t, t * 2]).sum(0) + t.roll(by)


def stencil(seed: int) -> Any:
    def f(x: ad.Tensor) -> list[ad.Tensor | None]:
        rng = random.Random(seed)
        pool = [x, x * 0.5]
        for _ in range(7):
            t, other = rng.choice(pool), rng.choice(pool)
            pool.append((moved(rng, t) - 2 * other + moved(rng, other)) * 0.25)
            if rng.random() < 0.2:
                n = pool[-1].size(0) - 1
                between = pool[-1].narrow(0, 1, n) - pool[-1].narrow(0, 0, n)
                pool.append(ad.cat([between, between.narrow(0, 0, min(1, n))]) if n else t)
        total = sum((t * t).mean() for t in pool[2:])
        return [total, *ad.autograd.grad(total, [x]), *rng.sample(pool[2:], 2)]

    return f


def grid(rng: random.Random, shape: tuple[int, ...], dtype: ad.dtype) -> Any:
    order = list(range(len(shape)))
    rng.shuffle(order)
    turned = rng.random() < 0.3

    def make(seed: int) -> list[ad.Tensor]:
        if not turned:
            return [uniform(seed, *shape, dtype=dtype).requires_grad_()]
        t = uniform(seed, *(shape[k] for k in order), dtype=dtype)
        return [t.permute([order.index(k) for k in range(len(shape))]).requires_grad_()]

    return make


@pytest.mark.parametrize("seed", range(60))
def test_random_stencils(seed: int) -> None:
    rng = random.Random(seed + 1000)
    shape = rng.choice(SMALL if seed % 4 else LARGE)
    dtype = rng.choice([ad.float32, ad.float32, ad.float64, ad.bfloat16])
    check(stencil(seed), grid(rng, shape, dtype), runs=1)


@pytest.mark.parametrize("shape", [(1000,), (64, 64), (200, 300)])
def test_a_stencil_is_one_loop(shape: tuple[int, ...]) -> None:
    def f(u: ad.Tensor) -> ad.Tensor:
        for axis in range(u.dim()):
            u = u + 0.1 * (u.roll(1, axis) - 2 * u + u.roll(-1, axis))
        return u

    program = check(f, lambda s: [uniform(s, *shape)])
    assert set(names(program)) == {"fused"}


def test_gradients_of_slices_are_read_where_they_lie() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor | None]:
        y = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        return list(ad.autograd.grad(y, [x]))

    program = check(f, lambda s: [uniform(s, 50_000).requires_grad_()])
    assert set(names(program)) == {"fused"}


def test_what_is_changed_in_place_is_not_read_later() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        y = x * 2
        moved = y.roll(1)
        y.add_(1)
        return [moved * 3 + x, y]

    check(f, lambda s: [uniform(s, 100)])


def test_a_part_may_be_all() -> None:
    def f(x: ad.Tensor) -> list[ad.Tensor]:
        return [ad.cat([x * 2]) + x, x.roll(0) * 3, ad.nn.functional.pad(x, [0, 0]) - 1]

    check(f, lambda s: [uniform(s, 30)])
