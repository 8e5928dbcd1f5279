"""Tangents of views in compiled functions: recorded wherever the arguments lie in their memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad


def normal(seed: int, *shape: int) -> ad.Tensor:
    return ad.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def same(f: Callable[..., Any], *given: Any) -> None:
    compiled = ad.compile(f, fullgraph=True)
    for _ in range(3):
        got, want = compiled(*given), f(*given)
        assert got.numpy().tobytes() == want.numpy().tobytes()


VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x.T,
    lambda x: x[1:],
    lambda x: x[2:, 1::2],
    lambda x: x[1:].T[1:],
    lambda x: x[3],
    lambda x: x.unsqueeze(0).expand(2, 6, 4)[:, 1:],
    lambda x: x.reshape(-1)[3:],
    lambda x: x.diagonal(1),
    lambda x: x[6:],
]


@pytest.mark.parametrize("view", VIEWS)
def test_tangents_of_views(view: Callable[[Any], Any]) -> None:
    def of(x: ad.Tensor, v: ad.Tensor) -> Any:
        return ad.func.jvp(lambda x: view(x).sin() + view(x * 2), (x,), (v,))[1]

    x, v = normal(0, 6, 4), normal(1, 6, 4)
    same(of, x, v)
    # One recording serves arguments that lie elsewhere in their memory.
    compiled = ad.compile(of, fullgraph=True)
    compiled(x, v)
    for inside in (normal(2, 8, 4)[2:], normal(3, 9, 4)[1:7]):
        for a, b in ((inside, v), (x, inside), (inside, inside)):
            assert compiled(a, b).numpy().tobytes() == of(a, b).numpy().tobytes()


def test_the_product_of_a_hessian_of_a_network_with_a_vector() -> None:
    first, second, x = normal(0, 8, 5), normal(1, 3, 8), normal(2, 7, 5)

    def loss(first: ad.Tensor) -> ad.Tensor:
        return ((x @ first.T).tanh() @ second.T).pow(2).mean()

    same(lambda w, v: ad.func.jvp(ad.func.grad(loss), (w,), (v,))[1], first, normal(3, 8, 5))
    same(lambda w, v: ad.func.grad(lambda w: ad.func.jvp(loss, (w,), (v,))[1])(w), first, first)
    same(lambda x: ad.func.hessian(lambda x: (x[1:] * x[:-1].sin()).sum())(x), normal(4, 9))
