"""Strides that lead to no element may be any number: nothing computed from them overflows."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad

FAR = [2**62 + 1, 2**63 - 1]


def axes(far: int) -> list[Any]:
    """Tensors of one element or none, with a stride that does not fit into bytes."""
    x = ad.arange(6.0)
    return [x[::far], x.unfold(0, 1, far), x.as_strided((1, 3), (far, 1)), x[:0].expand(4, 0),
            x.as_strided((0, 3), (1, far))]  # fmt: skip


@pytest.mark.parametrize("far", FAR)
def test_a_stride_to_no_element_fits_into_bytes(far: int) -> None:
    for x in axes(far):
        used = [n > 1 and x.numel() > 0 for n in x.shape]
        assert all(yes or step <= 2**48 for yes, step in zip(used, x.stride(), strict=True))
        dense = ad.tensor(x.tolist()).reshape(x.shape)
        assert ad.equal(x, dense) and ad.equal(x.clone(), dense)
        assert x.sum() == dense.sum() and ad.equal(ad.cat([x, x]), ad.cat([dense, dense]))
        assert x.detach().numpy().tolist() == dense.tolist()


def test_sizes_below_every_number_are_refused() -> None:
    for size in ([1, -(2**63)], [-(2**63), 0, 63], [-(2**63), 2**62]):
        with pytest.raises(RuntimeError, match="negative"):
            ad.arange(6.0).as_strided(size, [1] * len(size))


def test_no_list_is_made_for_an_index_of_nothing() -> None:
    """One for each row would be terabytes."""
    rows = ad.zeros(1).expand(2**40, 1)
    assert rows[:, ad.tensor([], dtype=ad.int64)].shape == (2**40, 0)


def test_places_of_an_empty_tensor_are_not_multiplied() -> None:
    x = ad.arange(6.0)
    x.set_(x.untyped_storage(), 0, [0, 2**62], [0, 2**15])
    x[:, [2**61]] = 0
    assert x[:, [2**61, -1]].shape == (0, 2)
    assert x.index_select(1, ad.tensor([2**61])).shape == (0, 1)


def test_axes_of_an_empty_tensor_are_not_joined_past_64_bits() -> None:
    x = ad.arange(6.0).as_strided([0, 2**63 - 1], [3, 3], 5)
    assert x.sum() == 0 and x.sum(1).shape == (0,)


def test_strides_of_an_empty_tensor_are_not_counted_in_bytes() -> None:
    x = ad.ones(1, 0, dtype=ad.float16).expand(2, 2**61, 0).movedim(-1, -3)
    assert x.add_(x).shape == (0, 2, 2**61)
    assert ad.ones(0, dtype=ad.int32).expand(2, 2**61, 0).sum() == 0


def test_an_empty_result_whose_sizes_do_not_fit_is_refused() -> None:
    rows, one = ad.ones(1, 0).expand(2**32, 0), ad.ones(1, 1, 0).expand(2**32, 1, 0)
    with pytest.raises(RuntimeError, match="overflow"):
        rows + one
