"""sin and cos of one value are computed together by a program, with the bits of each by itself."""

from __future__ import annotations

import random

import numpy as np
import pytest

import adjoint as ad

from .test_program_fusion import check

SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, 1e5, -3e7, 1e30, np.pi, -np.pi / 4, 0.5]


def values(seed: int, n: int, dtype: ad.dtype) -> ad.Tensor:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n) * 10.0 ** rng.integers(-6, 8, n)
    x[: len(SPECIAL)] = SPECIAL[:n]
    return ad.tensor(x, dtype=ad.float64).to(dtype)


@pytest.mark.parametrize("n", [1, 7, 100, 5000, 20_000])
@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.float16])
def test_both_functions_and_both_gradients(n: int, dtype: ad.dtype) -> None:
    def f(x: ad.Tensor, g: ad.Tensor) -> list[ad.Tensor | None]:
        sine, cosine = x.sin(), x.cos()
        return [
            cosine,
            sine,
            *ad.autograd.grad(sine, [x], g, retain_graph=True),
            *ad.autograd.grad(cosine, [x], g),
        ]

    check(
        f,
        lambda s: [
            values(s, max(n, len(SPECIAL)), dtype).requires_grad_(),
            values(0, max(n, 12), dtype),
        ],
    )


@pytest.mark.parametrize("seed", range(20))
def test_chains_of_them_and_their_derivatives(seed: int) -> None:
    rng = random.Random(seed)
    steps = [rng.choice(["sin", "cos", "mul", "again"]) for _ in range(8)]
    size = rng.choice([(), (3,), (40, 30), (100, 100)])

    def f(x: ad.Tensor) -> list[ad.Tensor | None]:
        a, b = x, x * 0.5
        for step in steps:
            if step == "mul":
                a, b = a * b, a
            elif step == "again":
                b = a.sin() + a.cos()
            else:
                a, b = getattr(a, step)(), b
        total = (a + b).sum()
        (first,) = ad.autograd.grad(total, [x], create_graph=True)
        assert first is not None
        return [total, first, *ad.autograd.grad(first.sum(), [x], allow_unused=True)]

    def make(s: int) -> list[ad.Tensor]:
        x = np.random.default_rng(s).standard_normal(size).astype(np.float32)
        return [ad.tensor(x, requires_grad=True)]

    check(f, make)
