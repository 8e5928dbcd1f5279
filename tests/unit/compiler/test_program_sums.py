"""Sums of all that a large fused loop makes: taken as it goes, in the order of the plain sum."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad

from .test_program_fusion import check, names, uniform

SIZES = (16384, 16385, 20479, 65536, 131072, 131073, 196613, 1_000_003)


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64])
@pytest.mark.parametrize("n", SIZES)
def test_a_sum_is_part_of_the_loop_that_makes_what_it_sums(n: int, dtype: ad.dtype) -> None:
    program = check(lambda x: (x.sin() * x).sum(), lambda s: [uniform(s, n, dtype=dtype)], 1)
    assert names(program) == ["fused"]


@pytest.mark.parametrize("n", [17_000, 140_000])
def test_means_and_several_sums_of_one_loop(n: int) -> None:
    def f(x: ad.Tensor) -> Any:
        y = x.exp()
        return y.sum(), (y * x).mean(), y, (x * 1).sum(), y.sum()

    program = check(f, lambda s: [uniform(s, n)])
    assert names(program).count("fused") == len(names(program))


def test_a_sum_that_the_rest_needs() -> None:
    def f(x: ad.Tensor) -> Any:
        y = x.exp()
        z = y / y.sum()
        return z, (z * z).sum()

    check(f, lambda s: [uniform(s, 20_000)])


@pytest.mark.parametrize("shape", [(150, 150), (6, 3000), (60, 7, 40), (6000, 3)])
def test_sums_of_broadcast_loops(shape: tuple[int, ...]) -> None:
    last, others = shape[-1], shape[:-1]

    def make(s: int) -> list[ad.Tensor]:
        return [uniform(s, *shape), uniform(s + 9, last), uniform(s + 5, *others, 1)]

    def f(x: ad.Tensor, row: ad.Tensor, column: ad.Tensor) -> Any:
        return ((x - row) * column).sum(), (x * row).mean()

    check(f, make)


def test_sums_of_what_does_not_lie_in_order() -> None:
    check(lambda x: (x.T * 2).sum(), lambda s: [uniform(s, 150, 120)])
    check(lambda x: (x * 2)[:, 1:].sum(), lambda s: [uniform(s, 150, 120)])
    check(lambda x: ((x * 2).T.contiguous() + 1).sum(), lambda s: [uniform(s, 150, 120)])
    check(lambda x: (x * 2).sum(dtype=ad.float64), lambda s: [uniform(s, 18_000)])
    check(lambda x: (x.half() * 2).sum(), lambda s: [uniform(s, 18_000)])


def test_a_sum_does_not_depend_on_threads() -> None:
    x = uniform(0, 500_000)
    f = ad.compile(lambda x: (x.cos() * x).sum())
    threads, found = ad.get_num_threads(), set[float]()
    try:
        for n in (1, 2, 3):
            ad.set_num_threads(n)
            found |= {f(x).item() for _ in range(3)}
    finally:
        ad.set_num_threads(threads)
    assert found == {(x.cos() * x).sum().item()}
