"""`out=`, in-place dtypes and other small promises about the results of ops."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad


@pytest.mark.parametrize("half", [ad.float16, ad.bfloat16])
@pytest.mark.parametrize("wide", [ad.float32, ad.float64, ad.complex64])
def test_halves_are_rounded_before_they_are_widened(half: ad.dtype, wide: ad.dtype) -> None:
    x = ad.linspace(0.1, 2, 37).to(half)
    for f in (ad.sin, ad.exp, ad.square, ad.reciprocal):
        assert f(x, out=ad.empty(37, dtype=wide)).equal(f(x).to(wide))
    assert ad.mul(x, x, out=ad.empty(37, dtype=wide)).equal((x * x).to(wide))


@pytest.mark.parametrize("name", ["abs", "sgn", "round", "neg", "floor", "nan_to_num"])
def test_some_ops_write_their_input_s_dtype_alone(name: str) -> None:
    f: Any = getattr(ad, name)
    x = ad.ones(3, dtype=ad.uint8)
    assert f(x, out=ad.empty(3, dtype=ad.uint8)).dtype == ad.uint8
    with pytest.raises(RuntimeError, match="Found dtype int64 but expected uint8"):
        f(x, out=ad.empty(3, dtype=ad.int64))


@pytest.mark.parametrize("name", ["signbit", "isposinf", "isneginf"])
def test_answers_are_written_into_bool_alone(name: str) -> None:
    f: Any = getattr(ad, name)
    assert not f(ad.ones(2), out=ad.empty(2, dtype=ad.bool)).any()
    with pytest.raises(RuntimeError, match="does not support non-boolean outputs"):
        f(ad.ones(2), out=ad.empty(2, dtype=ad.int8))


def test_running_sums_in_place_keep_their_dtype() -> None:
    for name in ("cumsum_", "cumprod_"):
        x = ad.tensor([1.5, 2.5])
        with pytest.raises(
            RuntimeError, match=r"Bad in-place call: .* float32 .* int8 should match"
        ):
            getattr(x, name)(0, dtype=ad.int8)
        assert x.tolist() == [1.5, 2.5]
        getattr(x, name)(0, dtype=ad.float32)


@pytest.mark.parametrize("dtype", [ad.float32, ad.float64, ad.complex128])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_equal_elements_have_no_variance(dtype: ad.dtype, dim: int | None) -> None:
    x = ad.full((7, 3), 0.1, dtype=dtype)
    assert not x.var(dim).any() and not x.std(dim).any()


def test_positions_from_the_end_and_outside() -> None:
    x = ad.arange(6).reshape(2, 3)
    assert ad.take_along_dim(x, ad.tensor([[-1], [-3]]), 1).tolist() == [[2], [3]]
    with pytest.raises(RuntimeError, match="index -4 is out of bounds for dimension 1 with size 3"):
        ad.take_along_dim(x, ad.tensor([[-4], [0]]), 1)
    taken = ad.vmap(lambda row, at: ad.take_along_dim(row, at, 0))(x, ad.tensor([[-1], [1]]))
    assert taken.tolist() == [[2], [4]]
