"""Products of 16-bit floats: sums in float32, rounded once, the same on any number of threads."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

STEP = {ad.float16: 2.0**-11, ad.bfloat16: 2.0**-8}  # half a unit in the last place, relative
DTYPES = pytest.mark.parametrize("dtype", [ad.float16, ad.bfloat16])


def matrix(r: random.Random, rows: int, columns: int, dtype: ad.dtype) -> ad.Tensor:
    """One that lies in memory in any way: by rows, by columns, in part, the wrong way round."""
    data = np.random.default_rng(r.randrange(2**32)).normal(size=(rows + 2, 2 * columns + 1))
    whole = ad.from_numpy(data).to(dtype)
    ways: list[Callable[[], ad.Tensor]] = [
        lambda: whole[:rows, :columns].contiguous(),
        lambda: whole[:rows, :columns].t().contiguous().t(),
        lambda: whole[1 : rows + 1, 1 : 2 * columns + 1 : 2],
        lambda: whole[:rows, :columns].flip(0),
        lambda: whole[:1, :columns].expand(rows, columns),
    ]
    return r.choice(ways)()


def check(result: Any, exact: Any, size: Any) -> None:
    """One rounding to the dtype and those of float32 sums: `size` is the sum of magnitudes."""
    got = result.double().numpy()
    allowed = STEP[result.dtype] * np.abs(exact) + 2.0**-20 * size + 2.0**-25
    assert (np.abs(got - exact) <= allowed).all(), np.abs(got - exact).max()


@DTYPES
def test_drawn_products(dtype: ad.dtype) -> None:
    r = random.Random(3)
    for _ in range(60):
        m, n, k = (r.choice([1, 2, 7, 8, 9, 16, 31, 47, 48, 49, 100, 250]) for _ in range(3))
        a, b = matrix(r, m, k, dtype), matrix(r, k, n, dtype)
        x, y = a.double().numpy(), b.double().numpy()
        check(a @ b, x @ y, np.abs(x) @ np.abs(y))
        if r.random() < 0.3:
            c = matrix(r, m, n, dtype)
            z = 0.5 * c.double().numpy() + 2.0 * (x @ y)
            size = 2 * np.abs(x) @ np.abs(y) + np.abs(c.double().numpy())
            check(ad.addmm(c, a, b, beta=0.5, alpha=2.0), z, size)


@DTYPES
@pytest.mark.parametrize("sizes", [(530, 97, 513), (9, 300, 2100), (300, 5, 4200)])
def test_products_of_several_blocks(dtype: ad.dtype, sizes: tuple[int, int, int]) -> None:
    r = random.Random(5)
    m, n, k = sizes
    for _ in range(4):
        a, b = matrix(r, m, k, dtype), matrix(r, k, n, dtype)
        x, y = a.double().numpy(), b.double().numpy()
        check(a @ b, x @ y, np.abs(x) @ np.abs(y))


@DTYPES
def test_sums_are_in_float32(dtype: ad.dtype) -> None:
    ones = ad.ones(3, 5000, dtype=dtype)
    assert (ones @ ones.t()).tolist() == [[float(ad.tensor(5000.0).to(dtype))] * 3] * 3
    assert float((ones[0] @ ones[1]).float()) == float(ad.tensor(5000.0).to(dtype))


@DTYPES
def test_bits_do_not_depend_on_threads(dtype: ad.dtype) -> None:
    r, threads = random.Random(5), ad.get_num_threads()
    for m, n, k in [(300, 260, 70), (16, 16, 9000), (1, 3000, 700), (3000, 1, 700)]:
        a, b = matrix(r, m, k, dtype), matrix(r, k, n, dtype)
        found = []
        try:
            for count in (1, 2, 5):
                ad.set_num_threads(count)
                found.append((a @ b).view(ad.int16).numpy())
        finally:
            ad.set_num_threads(threads)
        assert (found[0] == found[1]).all()
        assert (found[0] == found[2]).all()


@DTYPES
def test_what_is_not_finite_stays_in_its_row(dtype: ad.dtype) -> None:
    a, b = ad.ones(20, 9, dtype=dtype), ad.ones(9, 50, dtype=dtype)
    a[3, 8], a[4, 0], a[5, 2] = float("nan"), float("inf"), float("-inf")
    result = (a @ b).float().numpy()
    assert np.isnan(result[3]).all()
    assert (result[4] == np.inf).all()
    assert (result[5] == -np.inf).all()
    assert (np.delete(result, [3, 4, 5], 0) == 9).all()


@DTYPES
def test_empty_and_batched_products(dtype: ad.dtype) -> None:
    assert (ad.ones(3, 0, dtype=dtype) @ ad.ones(0, 2, dtype=dtype)).tolist() == [[0.0] * 2] * 3
    assert (ad.ones(0, 4, dtype=dtype) @ ad.ones(4, 2, dtype=dtype)).shape == (0, 2)
    a = ad.from_numpy(np.random.default_rng(0).normal(size=(5, 6, 7))).to(dtype)
    b = ad.from_numpy(np.random.default_rng(1).normal(size=(5, 7, 3))).to(dtype)
    each = ad.stack([x @ y for x, y in zip(a, b, strict=True)])
    assert ((a @ b) == each).all()


@DTYPES
def test_gradients_have_the_dtype(dtype: ad.dtype) -> None:
    a = ad.from_numpy(np.random.default_rng(0).normal(size=(6, 70))).to(dtype).requires_grad_()
    b = ad.from_numpy(np.random.default_rng(1).normal(size=(70, 9))).to(dtype).requires_grad_()
    da, db = ad.autograd.grad((a @ b).sum(), (a, b))
    x, y = a.detach().double().numpy(), b.detach().double().numpy()
    check(da, np.ones((6, 9)) @ y.T, np.ones((6, 9)) @ np.abs(y.T))
    check(db, x.T @ np.ones((6, 9)), np.abs(x.T) @ np.ones((6, 9)))


@pytest.mark.parametrize("isa", ["base", "v3"])
def test_other_instruction_sets_agree(isa: str) -> None:
    """The packing and the tiles of each instruction set, on shapes with rests in all directions."""
    program = (
        "import adjoint as ad, numpy as np\n"
        "a = ad.from_numpy(np.random.default_rng(0).normal(size=(37, 61)))\n"
        "b = ad.from_numpy(np.random.default_rng(1).normal(size=(61, 53)))\n"
        "for d in (ad.float16, ad.bfloat16):\n"
        "    x, y = a.to(d), b.to(d)\n"
        "    exact = x.double() @ y.double()\n"
        "    worst = ((x @ y).double() - exact).abs().max() / exact.abs().max()\n"
        "    assert worst < (1e-3 if d is ad.float16 else 8e-3), worst\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "ADJOINT_ISA": isa}, check=True
    )
