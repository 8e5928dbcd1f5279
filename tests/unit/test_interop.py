"""Arrays and objects of others: NumPy, DLPack, buffers, pickle, copies, weak references,
subclasses.
"""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.spec import DTYPES, dtype_name

SHARED = [d for group in DTYPES.values() for d in group if d != "bfloat16"]


@pytest.mark.parametrize("dtype", SHARED)
def test_numpy_shares_memory_both_ways(dtype: str) -> None:
    array = np.zeros((2, 3), dtype)
    x = ad.from_numpy(array)
    assert dtype_name(x) == dtype
    array[0, 1] = 1
    assert x[0, 1].item() == 1
    x[1, 2] = 1
    assert array[1, 2] == 1
    back = x.numpy()
    assert np.shares_memory(back, array) and back.dtype == array.dtype


@pytest.mark.parametrize(
    "view", [np.s_[:], np.s_[::2], np.s_[:, 1:], np.s_[1, :, None], np.s_[0, 0, 0], np.s_[:0]]
)
def test_strides_survive_the_way_there_and_back(view: Any) -> None:
    array = np.arange(24.0).reshape(4, 3, 2).transpose(1, 2, 0)[view]
    array = np.asarray(array)
    x = ad.from_numpy(array)
    assert x.stride() == tuple(s // 8 for s in array.strides) or array.size == 0
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal((x + 1).numpy(), array + 1)


def test_memory_outlives_the_owner() -> None:
    x = ad.from_numpy(np.arange(1000.0))
    y = ad.arange(1000.0).numpy()
    gc.collect()
    junk = [np.ones(1000) for _ in range(20)]
    assert x.sum().item() == y.sum() == 499500.0 and len(junk) == 20


@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")
def test_arrays_that_cannot_be_shared_are_refused_or_copied() -> None:
    with pytest.raises(ValueError, match=r"(?i)negative"):
        ad.from_numpy(np.arange(3.0)[::-1])
    with pytest.raises((TypeError, ValueError)):
        ad.from_numpy(np.array([object()]))
    assert ad.tensor(np.arange(3.0)[::-1].copy()).tolist() == [2.0, 1.0, 0.0]


def test_a_tensor_that_requires_grad_does_not_slip_into_numpy() -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        x.numpy()
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        np.asarray(x)
    with pytest.raises(RuntimeError, match=r"detach\(\)"):
        np.sin(x)
    np.testing.assert_array_equal(x.detach().numpy(), [1.0, 1.0])
    assert x.numpy(force=True).tolist() == [1.0, 1.0]


def test_numpy_reads_tensors() -> None:
    x = ad.tensor([1.0, 4.0])
    np.testing.assert_array_equal(np.asarray(x), [1.0, 4.0])
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.shares_memory(np.asarray(x), x.numpy())
    np.testing.assert_array_equal(np.asarray(np.sqrt(x)), [1.0, 2.0])
    assert np.array([ad.tensor(1), ad.tensor(2)]).tolist() == [1, 2]


def test_mixed_arithmetic_with_arrays_and_numpy_numbers_gives_tensors() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64)
    assert isinstance(x * np.float64(2.0), ad.Tensor)
    assert (x * np.float64(2.0)).tolist() == [2.0, 4.0]
    assert (np.float64(2.0) * x).tolist() == [2.0, 4.0]


@pytest.mark.parametrize("dtype", SHARED)
def test_dlpack_shares_memory_with_numpy(dtype: str) -> None:
    x = ad.ones(2, 3, dtype=getattr(ad, dtype))
    if dtype == "bool":
        y = ad.from_dlpack(x)
        assert y.dtype == x.dtype
        return
    array = np.from_dlpack(x.t())
    assert array.shape == (3, 2) and np.shares_memory(array, x.numpy())
    source = np.ones((2, 3), dtype)
    y = ad.from_dlpack(source)
    source[0, 0] = 0
    assert y[0, 0].item() == 0 and dtype_name(y) == dtype


def test_dlpack_with_torch() -> None:
    torch = pytest.importorskip("torch")
    x = ad.arange(6.0).reshape(2, 3).t()
    there = torch.from_dlpack(x)
    there[0, 1] = 9.0
    assert x[0, 1].item() == 9.0 and there.stride() == x.stride()
    back = ad.from_dlpack(torch.arange(3, dtype=torch.bfloat16))
    assert back.dtype == ad.bfloat16 and back.tolist() == [0.0, 1.0, 2.0]
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises((RuntimeError, BufferError)):
        torch.from_dlpack(ad.ones(2, requires_grad=True))


def test_a_dlpack_capsule_keeps_the_memory_alive() -> None:
    x = ad.arange(1000.0)
    array = np.from_dlpack(x)
    del x
    gc.collect()
    assert array.sum() == 499500.0
    capsule = ad.ones(3).__dlpack__()
    del capsule  # never consumed: freed once
    gc.collect()


def test_frombuffer_reads_bytes() -> None:
    data = bytearray(np.arange(4, dtype=np.int32).tobytes())
    x = ad.frombuffer(data, dtype=ad.int32, offset=4)
    assert x.tolist() == [1, 2, 3]
    data[4] = 7
    assert x[0].item() == 7
    with pytest.raises(ValueError):
        ad.frombuffer(data, dtype=ad.int32, offset=99)


def test_the_buffer_protocol() -> None:
    x = ad.arange(6, dtype=ad.int32).reshape(2, 3)
    view = memoryview(x)
    assert view.shape == (2, 3) and view.tolist() == [[0, 1, 2], [3, 4, 5]]
    view[1, 2] = 50
    assert x[1, 2].item() == 50


@pytest.mark.parametrize("dtype", [*SHARED, "bfloat16"])
def test_pickle_keeps_values_dtype_and_requires_grad(dtype: str) -> None:
    x = ad.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(ad, dtype)).t()
    y = pickle.loads(pickle.dumps(x))
    assert y.dtype == x.dtype and y.tolist() == x.tolist() and y.data_ptr() != x.data_ptr()
    if x.is_floating_point():
        leaf = pickle.loads(pickle.dumps(x.clone().requires_grad_()))
        assert leaf.requires_grad and leaf.is_leaf


def test_copies() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    x.grad = ad.ones(2)
    shallow, deep = copy.copy(x), copy.deepcopy(x)
    assert shallow.data_ptr() == x.data_ptr() and deep.data_ptr() != x.data_ptr()
    assert deep.requires_grad and deep.is_leaf and deep.grad.tolist() == [1.0, 1.0]
    assert deep.grad.data_ptr() != x.grad.data_ptr()
    with pytest.raises(RuntimeError, match=r"(?i)graph leaves|leaf"):
        copy.deepcopy(x * 2)


def test_a_deepcopy_keeps_what_is_shared_shared() -> None:
    x = ad.zeros(3)
    a, b = copy.deepcopy([x, x[1:]])
    a[1] = 5.0
    assert b[0].item() == 5.0
    c, d = copy.deepcopy([x, x])
    assert c is d


def test_weak_references_and_attributes() -> None:
    x = ad.ones(2)
    x.note = "kept"
    gone: list[int] = []
    reference = weakref.ref(x, lambda _: gone.append(1))
    assert reference() is x
    del x
    gc.collect()
    assert reference() is None and gone == [1]


def test_a_tensor_with_attributes_lives_in_the_graph() -> None:
    """The object that comes out of `variable` is the one that went in, attributes and all."""
    x = ad.ones(2, requires_grad=True)
    x.note = ["mine"]
    y = x * 2
    assert y.grad_fn.next_functions[0][0].variable is x
    assert y.grad_fn.next_functions[0][0].variable.note == ["mine"]


def test_hash_is_by_identity_and_equality_by_element() -> None:
    x, y = ad.ones(2), ad.ones(2)
    assert hash(x) == hash(x) and len({x, y}) == 2
    assert (x == y).tolist() == [True, True]
    assert {x: 1}[x] == 1


class Named(ad.Tensor):  # type: ignore[misc]
    """A subclass with an attribute and a method."""

    unit = "m"

    def doubled(self) -> Any:
        return self * 2


def test_subclasses_keep_their_attributes() -> None:
    x = ad.ones(3).as_subclass(Named)
    assert isinstance(x, Named) and isinstance(x, ad.Tensor)
    x.unit = "s"
    assert x.unit == "s" and x.doubled().tolist() == [2.0, 2.0, 2.0]
    p = ad.nn.Parameter(ad.ones(2))
    assert isinstance(p, ad.Tensor) and p.requires_grad and p.is_leaf
    y = pickle.loads(pickle.dumps(x))
    assert type(y) is Named and y.unit == "s"
