"""Products of float32 by panels: right for every layout, the same on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint as ad

# Whole tiles and panels, and such that hang over in rows, columns and along k.
SHAPES = [(32, 32, 1024), (33, 50, 700), (771, 129, 30), (40, 97, 385), (1031, 48, 64)]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = ad.get_num_threads()
    yield
    ad.set_num_threads(before)


def layouts(values: Any) -> list[ad.Tensor]:
    """The same matrix by rows, by columns, within a larger one, and with gaps between elements."""
    rows, columns = values.shape
    wide = np.zeros((rows + 1, columns + 3), np.float32)
    wide[1:, 3:] = values
    apart = np.zeros((2 * rows, 2 * columns), np.float32)
    apart[::2, ::2] = values
    return [
        ad.from_numpy(values),
        ad.from_numpy(np.ascontiguousarray(values.T)).t(),
        ad.from_numpy(wide)[1:, 3:],
        ad.from_numpy(apart)[::2, ::2],
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_products_of_every_layout_are_right_and_alike(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(0)
    left, right, added = (
        rng.standard_normal(s).astype(np.float32) for s in ((m, k), (k, n), (m, n))
    )
    exact = left.astype(np.float64) @ right
    allowed = 2.0**-20 * np.abs(left) @ np.abs(right)
    first = None
    for count in (1, 2, 3):
        ad.set_num_threads(count)
        for a in layouts(left):
            for b in layouts(right):
                got = ad.mm(a, b).numpy()
                first = got if first is None else first
                assert (got == first).all()  # neither threads nor layout change a bit
    assert first is not None and (np.abs(first - exact) <= allowed).all()
    sums = ad.addmm(ad.from_numpy(added), ad.from_numpy(left), ad.from_numpy(right)).numpy()
    assert (np.abs(sums - (exact + added)) <= allowed + 2.0**-20).all()


def test_rows_and_columns_that_repeat() -> None:
    rng = np.random.default_rng(1)
    row, column = (ad.from_numpy(rng.standard_normal(s).astype(np.float32)) for s in (300, 64))
    got = ad.mm(row.expand(64, 300), column[:, None].expand(64, 300).t())
    exact = (row.double().sum() * column.double()).numpy()
    assert np.allclose(got.numpy(), np.broadcast_to(exact, (64, 64)), rtol=1e-4, atol=1e-3)


def test_nan_and_infinity_reach_their_row_and_column_only() -> None:
    a, b = ad.ones(100, 130), ad.ones(130, 100)
    a[7, 3], b[5, 99] = float("nan"), float("inf")
    got = ad.mm(a, b)
    assert bool(got[7].isnan().all()) and bool(got[:7, 99].isinf().all())
    assert bool((got[8:, :99] == 130).all()) and bool((got[:7, :99] == 130).all())


@pytest.mark.parametrize("shape", SHAPES)
def test_a_bias_is_added_as_to_a_matrix_that_starts_with_it(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(2)
    x, w, b = (
        ad.from_numpy(rng.standard_normal(s).astype(np.float32)) for s in ((m, k), (n, k), n)
    )
    got = ad.nn.functional.linear(x, w, b)
    assert bool((got == ad.addmm(b, x, w.t())).all())
    spread = b.repeat_interleave(2)[::2]  # the same numbers, apart in memory
    assert bool((got == ad.nn.functional.linear(x, w, spread)).all())


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "float16", "int64"])
@pytest.mark.parametrize("batch", [2, 7, 64])
def test_vectors_that_share_a_matrix_are_those_of_single_products(dtype: str, batch: int) -> None:
    """A matrix that is the same in the whole batch, times one column or row of each entry."""
    rng = np.random.default_rng(1)
    kind = getattr(ad, dtype)
    w, x, start = (
        ad.from_numpy(rng.standard_normal(s) * 4).to(kind)
        for s in ((20, 33), (33, batch, 2), (batch, 20, 1))
    )
    # columns of a matrix, far apart in memory, and rows of its transpose
    vectors = x[:, :, :1].transpose(0, 1)
    columns = ad.bmm(w.expand(batch, 20, 33), vectors)
    sums = ad.baddbmm(start, w.expand(batch, 20, 33), vectors, beta=2)
    rows = ad.bmm(vectors.transpose(1, 2), w.t().expand(batch, 33, 20))
    for k in range(batch):
        single = ad.mm(w, vectors[k])
        spread = 0.0 if dtype == "int64" else 2e-2 if dtype == "float16" else 1e-4
        for found in (columns[k], rows[k].t(), sums[k] - 2 * start[k]):
            ad.testing.assert_close(found, single, rtol=spread, atol=spread)
