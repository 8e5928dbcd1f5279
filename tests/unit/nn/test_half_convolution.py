"""Convolutions of 16-bit floats: float32 sums, rounded once, the same on any number of threads."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import adjoint as ad

F: Any = ad.nn.functional
STEP = {ad.float16: 2.0**-11, ad.bfloat16: 2.0**-8}  # half a unit in the last place, relative
DTYPES = pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])


def drawn(dtype: ad.dtype, seed: int, *shape: int) -> ad.Tensor:
    values = np.random.default_rng(seed).normal(size=shape)
    return ad.from_numpy(values).to(dtype).requires_grad_()


class Conv:
    """A function with its sizes."""

    def __init__(self, name: str, sizes: tuple[int, ...]) -> None:
        self.function, self.sizes = getattr(F, name), sizes

    def __call__(self, x: ad.Tensor, w: ad.Tensor, b: ad.Tensor) -> Any:
        return self.function(x, w, b, *self.sizes)


def gradients(call: Any, leaves: list[ad.Tensor]) -> list[ad.Tensor]:
    y = call(*leaves)
    return [y.detach(), *ad.autograd.grad(y, leaves, ad.ones_like(y))]


def check(call: Any, leaves: list[ad.Tensor], what: Any) -> None:
    """One rounding to the dtype and those of float32 sums, by the sums of magnitudes."""
    exact = gradients(call, [t.detach().double().requires_grad_() for t in leaves])
    sizes = gradients(call, [t.detach().double().abs().requires_grad_() for t in leaves])
    for got, want, size in zip(gradients(call, leaves), exact, sizes, strict=True):
        assert got.dtype is leaves[0].dtype
        error = (got.double() - want).abs()
        allowed = STEP[got.dtype] * want.abs() + 2.0**-18 * size + 2.0**-25
        assert bool((error <= allowed).all()), (what, error.max())


@DTYPES
def test_drawn_convolutions(dtype: ad.dtype) -> None:
    r = random.Random(7)
    for seed in range(40):
        n, groups = r.choice([1, 2, 2, 3]), r.choice([1, 1, 2, 3])
        ci, co, samples = r.randint(1, 9), r.randint(1, 9), r.randint(1, 5)
        x = drawn(dtype, seed, samples, groups * ci, *(r.randint(4, 9) for _ in range(n)))
        w = drawn(dtype, seed + 1, groups * co, ci, *(r.randint(1, 3) for _ in range(n)))
        b = drawn(dtype, seed + 2, groups * co)
        stride, padding, dilation = r.randint(1, 2), r.randint(0, 2), 1
        steps = (stride, padding, dilation, groups)
        check(Conv(f"conv{n}d", steps), [x, w, b], (seed, steps))
        v = drawn(dtype, seed + 1, groups * ci, co, *(r.randint(1, 3) for _ in range(n)))
        more = (stride, 0, stride - 1, groups)
        check(Conv(f"conv_transpose{n}d", more), [x, v, b], (seed, more))


@DTYPES
def test_bits_do_not_depend_on_threads(dtype: ad.dtype) -> None:
    x, w = drawn(dtype, 0, 5, 9, 20, 21), drawn(dtype, 1, 12, 9, 3, 3)
    threads, found = ad.get_num_threads(), []
    try:
        for count in (1, 2, 5):
            ad.set_num_threads(count)
            found.append(gradients(lambda x, w: F.conv2d(x, w, padding=1), [x, w]))
    finally:
        ad.set_num_threads(threads)
    for a, b in zip(found[0], found[1], strict=True):
        assert (a.view(ad.int16) == b.view(ad.int16)).all()
    for a, b in zip(found[0], found[2], strict=True):
        assert (a.view(ad.int16) == b.view(ad.int16)).all()


@DTYPES
def test_what_is_not_finite_stays_where_it_is_read(dtype: ad.dtype) -> None:
    x, w = ad.ones(3, 3, 1, 9, dtype=dtype), ad.ones(2, 3, 1, 3, dtype=dtype)
    x[2, 2, 0, 4] = float("nan")
    y = F.conv2d(x, w).float().numpy()
    assert np.isnan(y[2, :, 0, 2:5]).all()
    y[2, :, 0, 2:5] = 9
    assert (y == 9).all()


def test_second_derivatives_and_batches() -> None:
    x, w = drawn(ad.bfloat16, 0, 3, 4, 6, 6), drawn(ad.bfloat16, 1, 5, 4, 3, 3)
    wide = [t.detach().float().requires_grad_() for t in (x, w)]

    gradient: Any = ad.autograd.grad

    def second(x: ad.Tensor, w: ad.Tensor) -> Any:
        dx, dw = gradient(F.conv2d(x, w).square().sum(), (x, w), create_graph=True)
        return gradient(dx.square().sum() + dw.square().sum(), (x, w))

    for got, want in zip(second(x, w), second(*wide), strict=True):
        scale = want.abs().max()
        assert bool(((got.float() - want).abs() < 0.06 * scale).all())
    each = ad.func.vmap(lambda x: F.conv2d(x, w.detach()))(x.detach()[:, None])
    assert (each[:, 0] == F.conv2d(x.detach(), w.detach())).all()
