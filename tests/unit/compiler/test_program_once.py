"""Arithmetic with rows and numbers, some of which is the same in every tile and done once."""

from __future__ import annotations

import random
from typing import Any

import pytest

import adjoint as ad

from .test_program_fusion import check, uniform

SHAPES = ((5,), (700,), (33, 40), (60, 100), (3, 20, 90))


def with_zeros(seed: int, *shape: int, dtype: ad.dtype) -> ad.Tensor:
    """Draw numbers of which some are zeros, of either sign."""
    t = uniform(seed, *shape, dtype=dtype)
    t[t.abs() < 0.3] = 0.0
    return t * ad.where(uniform(seed + 50, *shape, dtype=dtype) < 0, -1.0, 1.0)


def scaled(a: ad.Tensor, b: ad.Tensor) -> ad.Tensor:
    """Give `a * (b * 2)` by the op that derivatives of squares use."""
    a, b = ad.broadcast_tensors(a, b)
    made: ad.Tensor = ad.func.vjp(ad.square, b)[1](a)[0]
    return made


def arithmetic(rng: random.Random) -> Any:
    """Draw sums, differences, negations and scaled products, as gradients have them."""
    steps = [(rng.randrange(7), rng.randrange(8), rng.randrange(8)) for _ in range(9)]
    kept = rng.randrange(2, 6)

    def f(x: ad.Tensor, y: ad.Tensor, row: ad.Tensor) -> list[ad.Tensor]:
        found = [x, y, row, -x, x * row, -row, x - y, -(x * 2)]
        for what, i, j in steps:
            a, b = found[i], found[j]
            made = [a + b, a - b, -a, -a + b, -scaled(a, b), scaled(-a, b), a * b]
            found[(i + j) % 8] = made[what]
        return found[:kept]

    return f


@pytest.mark.parametrize("seed", range(40))
def test_what_all_tiles_share(seed: int) -> None:
    rng = random.Random(seed)
    f, shape = arithmetic(rng), rng.choice(SHAPES)
    dtype = rng.choice([ad.float32, ad.float32, ad.float64])
    narrow = rng.choice([shape[-1:], (1,), shape])
    check(
        f,
        lambda s: [
            with_zeros(s + k, *n, dtype=dtype) for k, n in enumerate((shape, shape, narrow))
        ],
        runs=2,
    )


@pytest.mark.parametrize("shape", [(40,), (30, 50), (4, 700)])
def test_a_number_that_comes_as_a_tensor_may_change(shape: tuple[int, ...]) -> None:
    numbers = [1.5, 1.5, -0.0, 0.0, float("inf"), 1.5, 2.0]

    def make(run: int) -> list[ad.Tensor]:
        pair = ad.tensor([numbers[run - 1], 3.0])
        return [uniform(run, *shape), pair, ad.tensor(numbers[-run], dtype=ad.float64)]

    def f(x: ad.Tensor, pair: ad.Tensor, other: ad.Tensor) -> list[ad.Tensor]:
        return [x * pair[0] + pair[1], (x - pair[0]) * other, (x + other).sum()]

    check(f, make, runs=len(numbers))


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("function", [ad.tanh, ad.sin, ad.square])
def test_rows_of_jacobians_share_derivatives(function: Any, dtype: ad.dtype) -> None:
    weights = 0.1 * uniform(5, 90, 90, dtype=dtype)
    rows = ad.func.jacrev(lambda x: function(weights @ function(x) + x))
    check(rows, lambda s: [uniform(s, 90, dtype=dtype)])
