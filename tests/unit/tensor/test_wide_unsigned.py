"""uint16, uint32 and uint64: stored, moved, converted and saved; what has no loop says so.

`tests/conformance/test_wide_unsigned.py` compares them with PyTorch.
"""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest

import adjoint as ad

NAMES = ["uint16", "uint32", "uint64"]
named = pytest.mark.parametrize("name", NAMES)


def array(name: str, *shape: int) -> Any:
    """Distinct numbers, half of them with the highest bit set."""
    rng = np.random.default_rng(5)
    info = np.iinfo(name)
    values = rng.integers(0, info.max, shape, dtype=name, endpoint=True)
    values.reshape(-1)[:2] = info.max, 0
    return values


def same(tensor: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert str(tensor.dtype) == f"torch.{expected.dtype}"
    np.testing.assert_array_equal(tensor.numpy(), expected)


@named
def test_memory_is_shared_with_numpy_both_ways(name: str) -> None:
    a = array(name, 3, 4)
    t = ad.from_numpy(a)
    t[0, 0] = 7
    assert a[0, 0] == 7 and t.numpy().base is not None
    same(ad.from_dlpack(a), a)
    np.testing.assert_array_equal(np.from_dlpack(t), a)
    assert memoryview(t).format == memoryview(a).format
    same(ad.frombuffer(bytearray(a.tobytes()), dtype=t.dtype), a.reshape(-1))


@named
def test_moves_are_those_of_numpy(name: str) -> None:
    a = array(name, 3, 4)
    t = ad.from_numpy(a)
    i = ad.tensor([2, 0])
    mask = a % 3 == 0
    same(t.flip(1), a[:, ::-1])
    same(t.roll(1, 0), np.roll(a, 1, 0))
    same(t.t().contiguous(), a.T)
    same(t.repeat(2, 1), np.tile(a, (2, 1)))
    same(t[i], a[[2, 0]])
    same(t[ad.from_numpy(mask)], a[mask])
    same(t.index_select(1, i), a[:, [2, 0]])
    same(
        t.gather(1, ad.tensor([[3], [0], [1]])), np.take_along_axis(a, np.array([[3], [0], [1]]), 1)
    )
    same(ad.stack([t, t], 1), np.stack([a, a], 1))
    same(t.tril(), np.tril(a))
    same(t.masked_fill(ad.from_numpy(mask), 9), np.where(mask, np.array(9, name), a))
    same(t.nonzero(), np.argwhere(a))
    same(t.take(ad.tensor([5, 1])), a.reshape(-1)[[5, 1]])
    same(ad.nn.functional.pad(t, (1, 2), value=3), np.pad(a, ((0, 0), (1, 2)), constant_values=3))
    written = t.clone()
    written[ad.tensor([0, 2])] = 5
    written[ad.from_numpy(mask)] = 6
    expected = a.copy()
    expected[[0, 2]] = 5
    expected[mask] = 6
    same(written, expected)


@named
def test_order_is_that_of_numbers_without_a_sign(name: str) -> None:
    a = array(name, 5, 300)
    t = ad.from_numpy(a)
    same(t.sort(1).values, np.sort(a, 1))
    same(t.sort(0, descending=True).values.flip(0), np.sort(a, 0))
    same(t.argsort(1, stable=True), np.argsort(a, 1, kind="stable"))
    same(t.unique(), np.unique(a))
    rows = np.concatenate([a, a[:2]])[:, :3]
    same(ad.from_numpy(rows.copy()).unique(dim=0), np.unique(rows, axis=0))


@named
def test_results_survive_files_and_pickles(name: str, tmp_path: Any) -> None:
    t = ad.from_numpy(array(name, 3, 4))
    file = tmp_path / "t.safetensors"
    ad.save({"t": t, "part": t[1:, ::2], "dtype": t.dtype}, file)
    loaded = ad.load(file)
    same(loaded["t"], t.numpy())
    same(loaded["part"], t[1:, ::2].numpy())
    assert loaded["dtype"] is t.dtype
    same(pickle.loads(pickle.dumps(t)), t.numpy())
    same(copy.deepcopy(t), t.numpy())
    assert pickle.loads(pickle.dumps(t.dtype)) is t.dtype
    numpy_files = pytest.importorskip("safetensors.numpy")
    written = io.BytesIO(numpy_files.save({"t": t.numpy()}))
    same(ad.load(written)["t"], t.numpy())


@named
def test_a_compiled_function_gives_what_the_function_gives(name: str) -> None:
    def f(t: Any, x: Any) -> Any:
        doubled = t * 2
        return ad.where(t == 7, doubled, t & 6).flip(0), doubled.float() * x + t.sum()

    t = ad.from_numpy(array(name, 50))
    t[3] = 7
    x = ad.linspace(0, 1, 50)
    compiled = ad.compile(f, fullgraph=True)
    for _ in range(2):
        for got, want in zip(compiled(t, x), f(t, x), strict=True):
            assert ad.equal(got, want)


@named
def test_gradients_pass_by_integers(name: str) -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    t = ad.tensor([3, 4], dtype=getattr(ad, name))
    (x * t).sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]
    assert not t.requires_grad


def test_ints_up_to_2_to_the_64_are_taken() -> None:
    largest = 2**64 - 1
    t = ad.tensor([0, largest], dtype=ad.uint64)
    assert t.tolist() == [0, largest]
    assert int(t[1]) == largest and t[1].item() == largest
    assert (t == largest).tolist() == [False, True]
    t[0] = 2**63
    assert (t * 1).tolist() == [2**63, largest]
    assert t.fill_(2**63 + 5).tolist() == [2**63 + 5] * 2
    assert float(ad.tensor(1.0) * 2**63) == 2.0**63
    with pytest.raises(OverflowError, match="too big"):
        t * 2**64
    with pytest.raises(OverflowError, match="negative"):
        ad.tensor([-1], dtype=ad.uint64)
    with pytest.raises(IndexError, match=r"out of (range|bounds)"):
        ad.arange(4)[t[0]]
    with pytest.raises(ValueError, match="long long"):
        ad.arange(4).narrow(0, t[0], 1)


@named
def test_what_has_no_loop_says_so_and_how_to_go_on(name: str) -> None:
    t = ad.ones(4, dtype=getattr(ad, name))
    advice = rf"not implemented for '{name}'; fix: convert with \.to\(\), for example to int64"
    for call in (
        t.max,
        t.median,
        lambda: t.view(2, 2) @ t.view(2, 2),
        lambda: ad.cumsum(t, 0, dtype=t.dtype),
    ):
        with pytest.raises(NotImplementedError, match=advice):
            call()
    for call in (lambda: t + t, lambda: t < t, lambda: -t, lambda: t // 2):
        with pytest.raises(NotImplementedError, match=advice):
            call()
    with pytest.raises(NotImplementedError, match=rf"arange.*'{name}'"):
        ad.arange(3, dtype=t.dtype)
    with pytest.raises(RuntimeError, match=f"attempted to promote .*{name}"):
        t * ad.ones(4, dtype=ad.int64)
    with pytest.raises(RuntimeError, match="out of bounds"):
        ad.randint(-1, 4, (2,), dtype=t.dtype)
    with pytest.raises(RuntimeError, match="without overflow"):
        t.fill_(-0.5)


def test_the_array_api_knows_them() -> None:
    info = ad.__array_namespace_info__()
    assert set(NAMES) <= set(info.dtypes(kind="unsigned integer"))
    assert ad.isdtype(ad.uint32, "unsigned integer") and ad.isdtype(ad.uint64, "integral")
    assert not ad.isdtype(ad.uint16, "signed integer")
