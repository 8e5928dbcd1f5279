"""Every kind of index: reading and writing against NumPy, gradients by where the elements went."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

T = np.arange(2 * 3 * 4 * 5, dtype=np.float64).reshape(2, 3, 4, 5)
I = np.array  # noqa: E741 - an index array

# Indices that mean the same to NumPy. Arrays become tensors.
INDICES: list[Any] = [
    0, -1, (1, 2), (1, 2, 3, 4), ..., (..., 0), (0, ...), (0, ..., -1), None, (None, 0), (0, None),
    slice(None), slice(1, 2), slice(0, 0), slice(5, 9), slice(-2, None),
    (slice(None), slice(0, 3, 2)),
    (..., slice(None, None, 3)), (slice(None), 1), (slice(None), None, slice(1, None)), (),
    (0, slice(1, 3), None, ..., 2), (None, ..., None),
    # Integer tensors, one and several, broadcast, negative, repeated, empty, 0-d.
    I([0, 1]), I([1, 1, 0, -1]), I([[0, 1], [1, 0]]), I(1), I([], np.int64), I([0, 1], np.int32),
    (I([0, 1]), I([2, 0])), (I([[0], [1]]), I([0, 2])), (slice(None), I([2, 0, 1])),
    (I([1, 0]), slice(None), I([3, 0])), (slice(None), I([1, 2]), I([3, 0])),
    (I([1, 0]), ..., I([4, 4])),
    (0, I([1, 2])), (I([0, 1]), None, 1), (I(1), I([2, 0])),
    (slice(None), I([0, 2]), slice(1, 3)), (None, I([0, 1])), (..., I([0, 4, 4]), None),
    # Truth values.
    T[:, 0, 0, 0] > 10, T > 50, T[:, :, 0, 0] > 30, (0, T[0] > 20),
    (slice(None), I([True, False, True])),
    (T[:, :, 0, 0] > 30, I([0])), (..., I([True, False, True, False, True])), T < -1, True, False,
    (I([True, False]), I([2])),
    # Lists.
    [0, 1], [-1], ([0, 1], [1, 2]), (slice(None), [0, 2]), ([True, False],),
    (0, [1, 2], ..., [0, 1]),
]  # fmt: skip
IDS = [f"{n}" for n in range(len(INDICES))]


def convert(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(convert(i) for i in index)
    return ad.from_numpy(index.copy()) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("index", INDICES, ids=IDS)
def test_reading(index: Any) -> None:
    got, want = ad.from_numpy(T)[convert(index)], np.asarray(T[index])
    assert tuple(got.shape) == want.shape, index
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("index", INDICES, ids=IDS)
def test_reading_a_strided_tensor(index: Any) -> None:
    strided = np.zeros((5, 4, 6, 2)).T[:, ::2]
    strided[...] = T
    np.testing.assert_array_equal(ad.from_numpy(strided)[convert(index)].numpy(), T[index])


@pytest.mark.parametrize("index", INDICES, ids=IDS)
def test_reading_shares_memory_exactly_when_numpy_does(index: Any) -> None:
    x = ad.from_numpy(T.copy())
    y = x[convert(index)]
    if y.numel() and not isinstance(index, bool):
        shares = np.shares_memory(x.numpy(), y.numpy())
        # NumPy copies where all that is left is a number; here that is a 0-d view.
        number = index is INDICES[3] or (isinstance(index, np.ndarray) and index.ndim == 0)
        assert shares == (np.shares_memory(T, T[index]) or number)


@pytest.mark.parametrize("index", INDICES, ids=IDS)
def test_gradient_of_reading(index: Any) -> None:
    """Each element gets the sum of the cotangents of the places it was read into."""
    x = ad.tensor(T, requires_grad=True)
    y = x[convert(index)]
    cotangent = np.random.default_rng(0).uniform(-1, 1, tuple(y.shape))
    y.backward(ad.tensor(cotangent))
    want = np.zeros_like(T)
    np.add.at(want, index, cotangent)
    np.testing.assert_allclose(x.grad.numpy(), want, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("index", INDICES, ids=IDS)
@pytest.mark.parametrize("kind", ["number", "tensor", "broadcast"])
def test_writing(index: Any, kind: str) -> None:
    want = T.copy()
    shape = T[index].shape
    if kind == "broadcast" and shape == ():
        pytest.skip("NumPy does not put an array of one into a number's place")
    fresh = -np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape)
    value: Any = {"number": -7.0, "tensor": fresh, "broadcast": np.array([-3.0])}[kind]
    want[index] = value
    places = np.arange(T.size).reshape(T.shape)[index]
    if kind == "tensor" and np.unique(places).size != places.size:
        pytest.skip("which of several values for one element wins is not defined")
    x = ad.tensor(T)
    x[convert(index)] = ad.tensor(value) if kind != "number" else value
    np.testing.assert_array_equal(x.numpy(), want)
    assert x._version == 1 or 0 in shape


@pytest.mark.parametrize("index", INDICES, ids=IDS)
def test_gradient_of_writing(index: Any) -> None:
    """What was overwritten gets none; what was written gets that of its place."""
    shape = T[index].shape
    places = np.arange(T.size).reshape(T.shape)[index]
    if np.unique(places).size != places.size:
        pytest.skip("which of several values for one element wins is not defined")
    base = ad.tensor(T, requires_grad=True)
    value = ad.ones(shape, dtype=ad.float64).requires_grad_()
    x = base.clone()
    x[convert(index)] = value
    cotangent = np.random.default_rng(0).uniform(-1, 1, T.shape)
    x.backward(ad.tensor(cotangent))
    want = cotangent.copy()
    want[index] = 0
    np.testing.assert_array_equal(base.grad.numpy(), want)
    got = np.zeros(shape) if value.grad is None else value.grad.numpy()
    np.testing.assert_array_equal(got, cotangent[index])


def test_an_integer_selects_before_index_tensors_are_joined() -> None:
    """Here torch and NumPy differ: NumPy counts the 0 as an index array and moves their axis."""
    assert ad.from_numpy(T)[0, :, ad.tensor([1, 2])].shape == (3, 2, 5)
    np.testing.assert_array_equal(
        ad.from_numpy(T)[0, :, ad.tensor([1, 2])].numpy(), T[0][:, [1, 2]]
    )


def test_a_second_derivative_through_indices() -> None:
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = (x[ad.tensor([0, 0, 2])] ** 3).sum()
    (g,) = ad.autograd.grad(y, x, create_graph=True)
    g.sum().backward()
    assert x.grad.tolist() == [12.0, 0.0, 18.0]


def test_index_put_adds_up_repeated_places() -> None:
    x = ad.zeros(3)
    x.index_put_((ad.tensor([0, 0, 2]),), ad.ones(3), accumulate=True)
    assert x.tolist() == [2.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("index", "error", "names"),
    [
        (2, IndexError, "2"),
        (-3, IndexError, "-3"),
        ((0, 0, 0, 0, 0), IndexError, "too many"),
        (I([0, 2]), IndexError, "2"),
        ((0, I([7])), IndexError, "7"),
        (I([True, False, True]), IndexError, "mask|3"),
        (I([0.5]), IndexError, "(?i)long|int"),
        ("a", (TypeError, IndexError), None),
        (1.5, (TypeError, IndexError), None),
        ((I([0, 1]), I([0, 1, 2])), IndexError, "broadcast"),
        (slice(None, None, -1), ValueError, "step"),
        (slice(None, None, 0), ValueError, None),
    ],
)
def test_bad_indices_raise_and_write_nothing(index: Any, error: Any, names: str | None) -> None:
    x = ad.tensor(T)
    with pytest.raises(error, match=names):
        x[convert(index)]
    with pytest.raises((*(error if isinstance(error, tuple) else (error,)), RuntimeError)):
        x[convert(index)] = 0.0
    np.testing.assert_array_equal(x.numpy(), T)


def test_a_value_that_does_not_fit_is_refused() -> None:
    x = ad.tensor(T)
    with pytest.raises(RuntimeError, match=r"7"):
        x[0] = ad.ones(7, dtype=ad.float64)
    with pytest.raises((RuntimeError, IndexError)):
        x[ad.tensor([0, 1])] = ad.ones(7, dtype=ad.float64)
    np.testing.assert_array_equal(x.numpy(), T)
    leaf = ad.zeros(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        leaf[0] = 1.0
    assert leaf.tolist() == [0.0, 0.0]


def test_writing_converts_to_the_dtype_of_the_tensor() -> None:
    x = ad.zeros(3, dtype=ad.int64)
    x[0] = 2.9
    x[1] = ad.tensor(3.9)
    x[2] = True
    assert x.tolist() == [2, 3, 1]


def test_iteration_length_and_membership() -> None:
    x = ad.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2 and [row.tolist() for row in x] == x.tolist()
    assert 3.0 in x and 5.0 not in x
    first, second = x.requires_grad_()
    (first * 2 + second).sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [1.0, 1.0]]
    with pytest.raises(TypeError, match="0-d"):
        len(ad.tensor(1.0))
    with pytest.raises(TypeError, match="0-d"):
        iter(ad.tensor(1.0))


def test_complex_numbers_lie_where_integers_of_their_size_may_not() -> None:
    x = ad.frombuffer(
        bytearray(np.arange(7, dtype=np.float32).tobytes()), dtype=ad.complex64, offset=4
    )
    assert x[ad.tensor([2, 0])].tolist() == [5 + 6j, 1 + 2j]
    assert ad.nn.functional.pad(x[None], (1, 0), mode="reflect").tolist() == [
        [3 + 4j, 1 + 2j, 3 + 4j, 5 + 6j]
    ]


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize("width", range(1, 6))
def test_rows_of_a_few_elements_are_read_and_added_in_order(width: int, dtype: str) -> None:
    rng = np.random.default_rng(width)
    for rows, keys in ((1, 9), (7, 0), (7, 70), (40, 41)):
        x = (5 * rng.normal(size=(2, rows, width))).astype(dtype)
        values = (5 * rng.normal(size=(keys, width))).astype(dtype)
        for index in (rng.integers(-rows, rows, keys), np.sort(rng.integers(0, rows, keys))):
            at = ad.tensor(index)
            assert np.array_equal(ad.tensor(x)[:, at], x[:, index])
            summed = ad.tensor(x[0]).index_put((at,), ad.tensor(values), accumulate=True)
            wanted = x[0].copy()
            for k, value in zip(index, values, strict=True):
                wanted[k] += value
            assert np.array_equal(summed, wanted)
    for outside in (rows, -rows - 1, 2**62, -(2**63)):
        with pytest.raises(IndexError, match=f"index {outside} is out of bounds"):
            ad.tensor(x)[:, ad.tensor([0, outside, 1])]
