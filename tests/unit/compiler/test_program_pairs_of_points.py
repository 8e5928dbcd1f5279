"""Differences of all pairs of points that are read late are computed again, to the last bit.

With what goes with them: operands that repeat along rows, sums over lanes and over a few rows, and
two plain ops in one loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad

STEPS = 8


@pytest.fixture(params=["never", "always"])
def native(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "always":
        pytest.importorskip("llvmlite.binding")
    ad.compiler.set_native(request.param)
    yield request.param
    ad.compiler.set_native("auto")


def energy(x: ad.Tensor, mass: ad.Tensor) -> tuple[ad.Tensor, ...]:
    """Points that attract one another: what backward reads was made long before."""
    velocity = ad.zeros_like(x)
    for _ in range(STEPS):
        apart = x[None] - x[:, None]
        squares = (apart * apart).sum(-1) + 0.01
        pull = (apart * (mass[None, :] / (squares * squares.sqrt()))[:, :, None]).sum(1)
        velocity = velocity + 0.01 * pull
        x = x + 0.01 * velocity
    value = (mass * (velocity * velocity).sum(-1)).sum()
    return value, x, velocity


def bits(found: Any) -> list[bytes]:
    return [t.detach().numpy().tobytes() for t in found]


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("bodies", [32, 33, 40])
def test_bodies_have_the_bits_of_eager_execution(native: str, bodies: int, dtype: ad.dtype) -> None:
    rng = np.random.default_rng(bodies)
    x = ad.tensor(rng.standard_normal((bodies, 3)), dtype=dtype).requires_grad_()
    mass = ad.tensor(rng.uniform(0.5, 1.5, bodies), dtype=dtype).requires_grad_()

    def work(x: ad.Tensor, mass: ad.Tensor) -> tuple[ad.Tensor, ...]:
        value, end, velocity = energy(x, mass)
        return (value, end, velocity, *ad.autograd.grad(value, (x, mass)))

    expected = bits(work(x, mass))
    f = ad.compile(work, fullgraph=True)
    for _ in range(4):
        assert bits(f(x, mass)) == expected


def test_what_is_computed_again_may_be_read_as_a_view_too(native: str) -> None:
    x = ad.tensor(np.random.default_rng(0).standard_normal((32, 3)), dtype=ad.float32)

    def work(x: ad.Tensor) -> tuple[ad.Tensor, ...]:
        apart = x[None] - x[:, None]
        first, total = apart * 2, x
        for k in range(6):
            first = (first * 1.01 + apart).sin()
            total = total + first.sum(k % 2)
        return (
            total,
            (first * apart).sum(1),
            apart.reshape(-1)[5:100] * 3,
            apart.transpose(0, 1) + 1,
        )

    expected = bits(work(x))
    f = ad.compile(work, fullgraph=True)
    for _ in range(4):
        assert bits(f(x)) == expected


@pytest.mark.parametrize("shape", [(64,), (7, 9), (40, 33)])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
def test_two_ops_in_one_loop_round_twice(shape: tuple[int, ...], dtype: ad.dtype) -> None:
    rng = np.random.default_rng(len(shape))
    a, b, c = (ad.tensor(rng.standard_normal(shape), dtype=dtype) for _ in range(3))
    plain = [lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y]

    def work(a: ad.Tensor, b: ad.Tensor, c: ad.Tensor) -> list[ad.Tensor]:
        return [
            found
            for first in plain
            for then in plain
            for found in (then(first(a, b), c), then(c, first(a, b)), then(first(a, 0.3), c))
        ]

    expected = bits(work(a, b, c))
    f = ad.compile(work, fullgraph=True)
    for _ in range(3):
        assert bits(f(a, b, c)) == expected


@pytest.mark.parametrize("rows", [1, 3, 8, 11, 64, 127, 128, 300])
def test_sums_of_columns_add_in_the_order_of_eager_execution(rows: int) -> None:
    x = ad.tensor(np.random.default_rng(rows).standard_normal((2, rows, 21)), dtype=ad.float32)

    def work(x: ad.Tensor) -> list[ad.Tensor]:
        y = x * 1.5 + 1
        return [y.sum(1), y.sum((0, 1)), y.sum(2), y[0].sum(0), y.sum(), y[1, :, 3].sum()]

    expected = bits(work(x))
    f = ad.compile(work, fullgraph=True)
    for _ in range(3):
        assert bits(f(x)) == expected
