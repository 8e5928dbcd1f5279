"""Making tensors: from data, filled, ranges, grids; dtype, shape, what is shared and what is
copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.spec import DTYPES, dtype_name

NAMES = [d for group in DTYPES.values() for d in group]


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (True, "bool"), (3, "int64"), (2.5, "float32"), (1j, "complex64"), ([], "float32"),
        ([True, False], "bool"), ([1, 2], "int64"), ([1, 2.5], "float32"), ([True, 2], "int64"),
        ([[1], [2]], "int64"), ([1, 2j], "complex64"), ((1, 2), "int64"), ([[], []], "float32"),
        (range(3), "int64"), (np.float64(1.5), "float64"), (np.int32(3), "int32"),
        (np.array([1, 2], np.int16), "int16"), ([np.array([1.0]), np.array([2.0])], "float64"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy")
def test_data_decides_dtype_shape_and_values(data: Any, dtype: str) -> None:
    x = ad.tensor(data)
    assert dtype_name(x) == dtype
    assert tuple(x.shape) == np.asarray(data).shape
    np.testing.assert_array_equal(x.numpy(), np.asarray(data, dtype))


@pytest.mark.parametrize("dtype", NAMES)
def test_every_maker_takes_a_dtype(dtype: str) -> None:
    d = getattr(ad, dtype)
    for x, values in (
        (ad.zeros(2, 3, dtype=d), np.zeros((2, 3))),
        (ad.ones((2, 3), dtype=d), np.ones((2, 3))),
        (ad.full((2,), 1, dtype=d), np.ones(2)),
        (ad.eye(2, 3, dtype=d), np.eye(2, 3)),
        (ad.tensor([0, 1], dtype=d), np.arange(2)),
        (ad.zeros_like(ad.ones(2), dtype=d), np.zeros(2)),
        (ad.ones_like(ad.zeros(2), dtype=d), np.ones(2)),
        (ad.full_like(ad.zeros(2), 1, dtype=d), np.ones(2)),
        (ad.zeros(1).new_ones(2, dtype=d), np.ones(2)),
        (ad.zeros(1).new_zeros(2, dtype=d), np.zeros(2)),
        (ad.zeros(1).new_full((2,), 1, dtype=d), np.ones(2)),
        (ad.zeros(1).new_tensor([0, 1], dtype=d), np.arange(2)),
    ):
        assert dtype_name(x) == dtype and tuple(x.shape) == values.shape
        np.testing.assert_array_equal(x.to(ad.complex128).numpy(), values)
    assert dtype_name(ad.empty(2, dtype=d)) == dtype
    assert dtype_name(ad.empty_like(ad.ones(2), dtype=d)) == dtype
    assert dtype_name(ad.ones(2, dtype=d).new_empty(3)) == dtype


@pytest.mark.parametrize(
    "args",
    [
        (5,),
        (2, 7),
        (1, 10, 3),
        (5, 0, -2),
        (0.0, 1.0, 0.25),
        (1.0, 1.0),
        (-3,),
        (0, 1, 0.1),
        (3, 2.5, -0.25),
    ],
)
def test_arange(args: tuple[Any, ...]) -> None:
    if args == (-3,):
        with pytest.raises(RuntimeError, match="bound"):
            ad.arange(*args)
        return
    x = ad.arange(*args)
    want = np.arange(
        *args, dtype=np.float64 if any(isinstance(a, float) for a in args) else np.int64
    )
    assert dtype_name(x) == ("float32" if want.dtype == np.float64 else "int64")
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("steps", [0, 1, 2, 5, 100])
def test_linspace_and_logspace_reach_both_ends(steps: int) -> None:
    x = ad.linspace(-1, 3, steps, dtype=ad.float64)
    np.testing.assert_allclose(x.numpy(), np.linspace(-1, 3, steps), rtol=1e-15, atol=1e-15)
    if steps > 1:
        assert x[0] == -1 and x[-1] == 3
    y = ad.logspace(-1, 2, steps, base=3.0, dtype=ad.float64)
    np.testing.assert_allclose(y.numpy(), np.logspace(-1, 2, steps, base=3.0), rtol=1e-14)


def test_grids_and_triangles() -> None:
    a, b = ad.arange(2), ad.arange(3)
    for indexing in ("ij", "xy"):
        got = ad.meshgrid(a, b, indexing=indexing)
        want = np.meshgrid(np.arange(2), np.arange(3), indexing=indexing)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g.numpy(), w)
    for name in ("tril", "triu"):
        for offset in (-1, 0, 2):
            got = getattr(ad, name + "_indices")(3, 4, offset)
            want = getattr(np, name + "_indices")(3, offset, 4)
            np.testing.assert_array_equal(got.numpy(), np.stack(want))
    assert ad.diag(ad.tensor([1, 2])).tolist() == [[1, 0], [0, 2]]


def test_complex_and_polar_take_gradients() -> None:
    re, im = (ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True) for _ in range(2))
    z = ad.complex(re, im)
    assert dtype_name(z) == "complex128" and z.tolist() == [1 + 1j, 2 + 2j]
    (z * z.conj()).real.sum().backward()
    assert re.grad.tolist() == im.grad.tolist() == [2.0, 4.0]
    length, angle = ad.tensor([2.0]), ad.tensor([0.5], requires_grad=True)
    w = ad.polar(length, angle)
    assert w[0].item() == pytest.approx(2 * np.exp(0.5j), rel=1e-6)
    w.real.sum().backward()
    assert angle.grad.item() == pytest.approx(-2 * np.sin(0.5), rel=1e-6)


def test_tensor_copies_and_as_tensor_does_not() -> None:
    array = np.ones(3)
    for share in (ad.as_tensor, ad.from_numpy, ad.asarray):
        x = share(array)
        x[0] += 1
    assert array[0] == 4.0
    copy = ad.tensor(array)
    copy[0] = 9.0
    assert array[0] == 4.0
    x = ad.ones(2)
    assert ad.as_tensor(x) is x and ad.as_tensor(x, dtype=ad.float64) is not x


def test_likes_keep_dtype_and_shape() -> None:
    x = ad.ones(2, 3, dtype=ad.float16)
    for like in (ad.zeros_like, ad.ones_like, ad.empty_like, ad.rand_like, ad.randn_like):
        assert like(x).shape == x.shape and like(x).dtype == x.dtype


def test_makers_take_requires_grad_and_device() -> None:
    for make in (ad.zeros, ad.ones, ad.rand, ad.randn, ad.empty):
        x = make(2, requires_grad=True, device="cpu")
        assert x.requires_grad and x.is_leaf and str(x.device) == "cpu"
    with pytest.raises((RuntimeError, AssertionError)):
        ad.zeros(2, device="cuda")
    assert not ad.cuda.is_available()


@pytest.mark.parametrize(
    ("legacy", "dtype"),
    [
        ("FloatTensor", "float32"), ("DoubleTensor", "float64"), ("HalfTensor", "float16"),
        ("BFloat16Tensor", "bfloat16"), ("LongTensor", "int64"), ("IntTensor", "int32"),
        ("ShortTensor", "int16"), ("CharTensor", "int8"), ("ByteTensor", "uint8"),
        ("BoolTensor", "bool"),
    ],
)  # fmt: skip
def test_legacy_constructors(legacy: str, dtype: str) -> None:
    make = getattr(ad, legacy)
    assert dtype_name(make(2, 3)) == dtype and tuple(make(2, 3).shape) == (2, 3)
    assert make([1, 0]).to(ad.int64).tolist() == [1, 0]
    assert isinstance(make([1]), make) and not isinstance(ad.ones(1, dtype=ad.complex64), make)
    assert ad.Tensor([1, 2]).tolist() == [1.0, 2.0] and tuple(ad.Tensor(2, 3).shape) == (2, 3)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: ad.tensor([[1, 2], [3]]), ValueError),
        (lambda: ad.tensor("text"), (TypeError, ValueError)),
        (lambda: ad.tensor([1, "a"]), (TypeError, ValueError)),
        (lambda: ad.tensor(None), (RuntimeError, TypeError)),
        (lambda: ad.tensor({1: 2}), (RuntimeError, TypeError)),
        (lambda: ad.tensor([2**70]), (RuntimeError, OverflowError, ValueError)),
        (lambda: ad.tensor(300, dtype=ad.int8), (RuntimeError, OverflowError)),
        (lambda: ad.from_numpy([1, 2]), TypeError),
        (lambda: ad.from_numpy(np.array(["a"])), TypeError),
        (lambda: ad.arange(0, 1, 0), RuntimeError),
        (lambda: ad.linspace(0, 1, -1), RuntimeError),
        (lambda: ad.eye(-1), RuntimeError),
        (lambda: ad.zeros(2, dtype="float32"), TypeError),
        (lambda: ad.full((2,), "x"), TypeError),
    ],
)
def test_bad_data_is_refused(call: Callable[[], Any], error: Any) -> None:
    with pytest.raises(error):
        call()


def test_python_values_come_back() -> None:
    for value in (True, 3, 2.5, 1 + 2j):
        x = ad.tensor(value)
        assert x.item() == value and type(x.item()) is type(value) and x.tolist() == value
    x = ad.tensor(3)
    assert (bool(x), int(x), float(x), complex(x), [0, 1, 2, 3][x]) == (True, 3, 3.0, 3 + 0j, 3)
    for call in (bool, int, float, lambda t: t.item()):
        with pytest.raises(
            (RuntimeError, ValueError, TypeError), match=r"(?i)element|ambiguous|one"
        ):
            call(ad.ones(2))


def test_things_that_are_no_numbers_raise_by_whether_a_dtype_was_given() -> None:
    for bad in (None, {1: 2}, object(), [None]):
        with pytest.raises(RuntimeError, match="Could not infer dtype of"):
            ad.tensor(bad)
        with pytest.raises(TypeError, match="must be real number, not"):
            ad.tensor(bad, dtype=ad.float32)
        with pytest.raises(TypeError, match="object cannot be interpreted as an integer"):
            ad.tensor(bad, dtype=ad.int64)


def test_old_constructors_take_numpy_sizes_and_refuse_other_devices() -> None:
    assert ad.FloatTensor(np.int8(3)).shape == (3,)
    assert ad.Tensor(np.zeros((0, 3))).shape == (0, 3)
    assert ad.Tensor(np.ones((2, 3)).T).stride() == (1, 3)
    with pytest.raises(TypeError, match=r"data must be a sequence \(got dict\)"):
        ad.FloatTensor({1: 2})
    for call in (lambda d: ad.Tensor(2, device=d), lambda d: ad.FloatTensor([1.0], device=d)):
        assert call("cpu").dtype == ad.float32
        with pytest.raises(RuntimeError, match="computes on the CPU only"):
            call("cuda")


@pytest.mark.parametrize(
    ("end", "dtype"),
    [(300, ad.uint8), (1e30, ad.int32), (float("inf"), ad.int64), (1e6, ad.float16)],
)
def test_spaced_numbers_must_fit_their_dtype(end: float, dtype: ad.dtype) -> None:
    for spaced in (ad.linspace, ad.logspace):
        with pytest.raises(RuntimeError, match="without overflow"):
            spaced(0, end, 3, dtype=dtype)


@pytest.mark.parametrize("make", [ad.rand, ad.randn, lambda *a, **k: ad.randint(3, a, **k)])
def test_a_leaf_without_gradient_is_refused_before_anything_is_drawn(make: Any) -> None:
    out, before = ad.full((3,), 7, dtype=ad.int64), ad.get_rng_state()
    for options in ({"out": out}, {"dtype": ad.int64}):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
            make(3, requires_grad=True, **options)
    assert out.tolist() == [7, 7, 7] and ad.equal(ad.get_rng_state(), before)
