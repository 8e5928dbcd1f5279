"""What is read while memory is written: results are those of operands copied beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

# More than the elements that a loop takes at once, and enough for several threads.
SIZES = [5, 1500, 70_000]
Write = Callable[[Any, Any], Any]


# Writes to `x`, reading `y`: one of each way that ops have to write.
WRITES: dict[str, Write] = {
    "add_": lambda x, y: x.add_(y),
    "copy_": lambda x, y: x.copy_(y),
    "out=": lambda x, y: ad.sub(y, 1, out=x),
    "addcmul_": lambda x, y: x.addcmul_(y, y),
    "where out=": lambda x, y: ad.where(y > 2, y, x, out=x),
    "cumsum out=": lambda x, y: ad.cumsum(y, 0, out=x),
    "index_select out=": lambda x, y: ad.index_select(y, 0, ad.arange(len(x)).flip(0), out=x),
    "round out=": lambda x, y: ad.round(y, out=x),
    "index_copy_": lambda x, y: x.index_copy_(0, ad.arange(len(x)).flip(0), y),
    "index_add_": lambda x, y: x.index_add_(0, ad.arange(len(x)).flip(0), y),
    "index_put_": lambda x, y: x.index_put_((ad.arange(len(x)).flip(0),), y),
    "scatter_": lambda x, y: x.scatter_(0, ad.arange(len(x)).flip(0), y),
    "scatter_add_": lambda x, y: x.scatter_add_(0, ad.arange(len(x)).flip(0), y),
    "scatter_reduce_": lambda x, y: x.scatter_reduce_(0, ad.arange(len(x)).flip(0), y, "prod"),
    "put_": lambda x, y: x.put_(ad.arange(len(x)).flip(0), y),
    "masked_scatter_": lambda x, y: x.masked_scatter_(ad.ones(len(x), dtype=ad.bool), y),
    "bernoulli_": lambda x, y: x.bernoulli_((y % 2).mul_(0).add_(y * 0 + 1)),
    "x[:] = y": lambda x, y: x.__setitem__(slice(None), y),
    "x[::2] = y[::2]": lambda x, y: x.__setitem__(slice(None, None, 2), y[::2]),
}


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("outside", [False, True], ids=["one storage", "two storages"])
@pytest.mark.parametrize("shift", [0, 1, 3])
@pytest.mark.parametrize("name", WRITES)
def test_what_is_overwritten_is_read_first(
    name: str, shift: int, outside: bool, count: int
) -> None:
    """Two storages: both tensors lie on one array from outside."""

    def pair() -> tuple[Any, Any]:
        whole = np.arange(count + 3.0) % 11
        if outside:
            return ad.from_numpy(whole[shift : count + shift]), ad.from_numpy(whole[:count])
        memory = ad.from_numpy(whole)
        return memory[shift : count + shift], memory[:count]

    x, y = pair()
    WRITES[name](x, y)
    want, source = pair()
    want, source = want.clone(), source.clone()
    WRITES[name](want, source)
    assert ad.equal(x, want)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize(("narrow", "wide"), [("float32", "float64"), ("int16", "int64")])
def test_elements_of_two_sizes_at_one_address_are_told_apart(
    narrow: str, wide: str, count: int
) -> None:
    """They have one address, one shape and one stride, but not one place each."""

    def pair() -> tuple[Any, Any]:
        x = (ad.arange(count) % 100).to(getattr(ad, wide))
        return x.view(getattr(ad, narrow))[:count], x

    for write in (lambda x, y: x.copy_(y), lambda x, y: ad.mul(y, 2, out=x)):
        few, many = pair()
        assert few.data_ptr() == many.data_ptr()
        want = write(few.clone(), many.clone())
        assert ad.equal(write(few, many), want)
        few, many = pair()
        want = write(many.clone(), few.clone())
        assert ad.equal(write(many, few).nan_to_num(0), want.nan_to_num(0))


@pytest.mark.parametrize("count", SIZES)
def test_a_comparison_into_the_bytes_of_its_operand(count: int) -> None:
    x = ad.arange(float(count)) % 7
    want = x.clone() > 3
    ad.gt(x, 3, out=x.view(ad.uint8)[:count].view(ad.bool))
    assert ad.equal(x.view(ad.uint8)[:count].view(ad.bool), want)


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("strides", [(1, 1), (1, 2), (2, 1)])
def test_windows_that_overlap_are_written_as_from_a_copy(
    count: int, strides: tuple[int, int]
) -> None:
    """Each element is that of before plus one, not plus as many as the windows it lies in."""
    memory = ad.zeros(2 * count + 6)
    memory.as_strided((count, 3), strides).add_(1)
    assert memory.max() == 1


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("strides", [(1, 1), (1, 2), (2, 1)])
def test_of_elements_that_share_a_place_the_last_counts(
    count: int, strides: tuple[int, int]
) -> None:
    reach = (count - 1) * strides[0] + 2 * strides[1] + 1
    got, want = ad.zeros(reach), np.zeros(reach)
    values = np.arange(count * 3.0, dtype=np.float32).reshape(count, 3)
    got.as_strided((count, 3), strides).copy_(ad.from_numpy(values))
    places = np.arange(count)[:, None] * strides[0] + np.arange(3) * strides[1]
    for place, value in zip(places.ravel(), values.ravel(), strict=True):
        want[place] = value
    assert got.tolist() == want.tolist()


def test_all_of_a_tensor_without_axes_is_one_element() -> None:
    """Its result has no axis that could be empty, so there is a value to be written."""
    for k in (0, 1):
        found = ad.tensor(5).topk(k)
        assert (found.values.item(), found.indices.item()) == (5, 0)


@pytest.mark.parametrize("axis", [0, 1])
def test_sums_into_windows_that_overlap_lose_nothing(axis: int) -> None:
    """Threads that add to one place would."""
    memory = ad.zeros(2_000_001)
    windows = memory.as_strided((2, 2_000_000), (1, 1))
    windows = windows if axis else windows.T
    for _ in range(5):
        windows.index_add_(axis, ad.arange(2_000_000)[: windows.shape[axis]], ad.ones_like(windows))
    assert memory[1:-1].min() == memory.max() == 10


def test_results_into_one_place_are_refused() -> None:
    memory = ad.zeros(2)
    with pytest.raises(RuntimeError, match=r"results 0 and 1 are to be written into the same mem"):
        ad.aminmax(ad.arange(3.0), out=(memory[0], memory[0]))
    ad.aminmax(ad.arange(3.0), out=(memory[0], memory[1]))
    assert memory.tolist() == [0, 2]


def test_a_mean_of_complex_numbers_is_one_and_of_bools_changes_nothing() -> None:
    index = ad.tensor([0, 0, 2])
    x = ad.zeros(3, dtype=ad.complex64)
    x.scatter_reduce_(0, index, ad.tensor([3j, 3, 2j]), "mean")
    assert ad.allclose(x, ad.tensor([1 + 1j, 0, 1j]))
    mask = ad.tensor([True, False, False])
    with pytest.raises(NotImplementedError, match="mean is not implemented for dtype bool"):
        mask.scatter_reduce_(0, index, ad.tensor([False, True, True]), "mean")
    assert mask.tolist() == [True, False, False]


def test_bytes_seen_as_bools_count_by_being_zero_or_not() -> None:
    x = ad.tensor([2, 0, 190, 1], dtype=ad.uint8).view(ad.bool)
    index = ad.arange(4)
    assert x.sort().values.tolist() == [False, True, True, True]
    assert ad.zeros(4, dtype=ad.bool).scatter(0, index, x).tolist() == x.tolist()
    assert ad.ones(4, dtype=ad.bool).scatter_reduce(0, index, x, "amin").tolist() == x.tolist()
