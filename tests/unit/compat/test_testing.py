"""adjoint.testing: assert_close and its messages, make_tensor and its ranges.

Messages are compared with PyTorch's own in tests/conformance/test_assert_close.py.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.testing import assert_allclose, assert_close, make_tensor

NAN = float("nan")


def message(actual: Any, expected: Any, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected, **options)
    return str(caught.value)


def test_what_is_close_passes() -> None:
    assert_close(ad.tensor([1.0, 2.0]), ad.tensor([1.0, 2.000001]))
    assert_close(ad.tensor([1, 2]), ad.tensor([1, 2]))
    assert_close(ad.tensor([True]), ad.tensor([True]))
    assert_close(ad.tensor(1 + 1j).conj(), ad.tensor(1 - 1j))
    assert_close(np.ones(3), np.ones(3))
    assert_close(ad.tensor([ad.inf, -ad.inf]), ad.tensor([ad.inf, -ad.inf]))
    assert_close(ad.empty(0, 3), ad.empty(0, 3))
    assert_close(ad.rand(2, requires_grad=True) * 0, ad.zeros(2))
    assert_close(None, None)
    assert_close(1.0, 1, check_dtype=False)
    assert_close(np.float32(1), np.float64(1))


def test_structures_are_walked() -> None:
    t = ad.tensor([1.0])
    assert_close((t, [t, {"a": t}]), [t, (t, OrderedDict(a=t))])
    other = ad.tensor([2.0])
    text = message({"a": (t, t), "b": [t, other]}, {"a": (t, t), "b": [t, t]})
    assert text.endswith("\n\nThe failure occurred for item ['b'][1]")
    assert message([1], [1, 2]) == "The length of the sequences mismatch: 1 != 2"
    assert message({"a": 1, 3: 2}, {"b": 1, 3: 2}) == (
        "The keys of the mappings do not match:\n"
        "Missing keys in the actual mapping: ['b']\n"
        "Additional keys in the actual mapping: ['a']"
    )


def test_differences_are_counted_and_the_largest_shown() -> None:
    actual, expected = ad.tensor([[1.0, 2.0], [3.0, 5.0]]), ad.tensor([[1.0, 4.0], [2.5, 5.0]])
    assert message(actual, expected) == (
        "Tensor-likes are not close!\n\n"
        "Mismatched elements: 2 / 4 (50.0%)\n"
        "Greatest absolute difference: 2.0 at index (0, 1) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.5 at index (0, 1) (up to 1.3e-06 allowed)"
    )
    assert message(actual, expected, rtol=0, atol=0) == (
        "Tensor-likes are not equal!\n\n"
        "Mismatched elements: 2 / 4 (50.0%)\n"
        "Greatest absolute difference: 2.0 at index (0, 1)\n"
        "Greatest relative difference: 0.5 at index (0, 1)"
    )
    assert "(up to 0.001 allowed)" in message(actual, expected, rtol=1e-3, atol=0.0)
    nan = message(ad.tensor([1.0, NAN]), ad.tensor([3.0, 1.0]))
    assert "Greatest absolute difference: nan at index (1,)" in nan
    # 0 / 0 of an element that matches is not the largest relative difference.
    assert "nan" not in message(ad.tensor([1.0, 0.0]), ad.tensor([2.0, 0.0]))


def test_differences_of_integers_do_not_wrap_around() -> None:
    text = message(ad.tensor([200], dtype=ad.uint8), ad.tensor([201], dtype=ad.uint8))
    assert "Greatest absolute difference: 1 at index (0,)" in text
    text = message(ad.tensor([2**62, 1]), ad.tensor([-(2**62), 1]))
    assert f"Greatest absolute difference: {2**63} at index (0,)" in text
    assert "Greatest relative difference: 2.0 at index (0,)" in text
    assert "difference: 1 at" in message(ad.tensor([True]), ad.tensor([False]))


def test_numbers_and_tensors_without_axes_are_scalars() -> None:
    assert message(3, 5) == (
        "Scalars are not equal!\n\nExpected 5 but got 3.\n"
        "Absolute difference: 2\nRelative difference: 0.4"
    )
    assert message(1.0, 0.0).endswith("Relative difference: inf (up to 1e-07 allowed)")
    assert message(ad.tensor(NAN), ad.tensor(NAN)) == (
        "Scalars are not close!\n\nExpected nan but got nan.\n"
        "Absolute difference: nan (up to 1e-05 allowed)\n"
        "Relative difference: nan (up to 1.3e-06 allowed)"
    )
    assert message(1.0, 1) == "The (d)types do not match: <class 'float'> != <class 'int'>."
    assert message(True, False) == "Booleans mismatch: True is not False"
    assert message(None, 1) == "None mismatch: None is not 1"
    assert message(ad.inf, 1.0).startswith("Scalars are not close!")
    assert message(1.0, ad.inf).startswith("Scalars are not close!")


@pytest.mark.parametrize(
    ("actual", "expected"),
    [(NAN, NAN), (complex(NAN, 0), complex(0, NAN)), (complex(NAN, NAN), complex(NAN, 0))],
)
def test_nan_equals_nan_on_request(actual: complex, expected: complex) -> None:
    for a, b in ((actual, expected), (ad.tensor([actual]), ad.tensor([expected]))):
        message(a, b)
        assert_close(a, b, equal_nan=True)


def test_attributes_are_compared() -> None:
    assert message(ad.zeros(()), ad.zeros(1)) == (
        "The values for attribute 'shape' do not match: torch.Size([]) != torch.Size([1])."
    )
    assert message(ad.ones(1), ad.ones(1, dtype=ad.int32)) == (
        "The values for attribute 'dtype' do not match: torch.float32 != torch.int32."
    )
    assert_close(ad.ones(1), ad.ones(1, dtype=ad.int32), check_dtype=False)
    rows = ad.rand(2, 3)
    columns = rows.t().contiguous().t()
    assert_close(rows, columns)
    assert "'stride()' do not match: (3, 1) != (1, 2)" in message(rows, columns, check_stride=True)


def test_tolerances_are_those_of_the_coarser_dtype() -> None:
    near = ad.tensor(0.99, dtype=ad.bfloat16)
    assert_close(near, ad.tensor(1.0, dtype=ad.float64), check_dtype=False)
    for dtype, rtol in ((ad.float16, 1e-3), (ad.float32, 1.3e-6), (ad.float64, 1e-7)):
        one = ad.ones(1, dtype=dtype) * 100
        if dtype != ad.float16:
            assert_close(one * (1 + rtol / 2), one)
        message(one * (1 + 4 * max(rtol, 1e-5)), one)


def test_types_that_do_not_belong_together_are_refused() -> None:
    for actual, expected in (("a", "a"), (ad.ones(1), np.ones(1)), ([1], 3), ({1}, {1})):
        with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of"):
            assert_close(actual, expected)
    parameter = ad.nn.Parameter(ad.ones(1))
    assert_close(parameter, ad.ones(1))
    with pytest.raises(TypeError, match="Parameter"):
        assert_close(parameter, ad.ones(1), allow_subclasses=False)


def test_tolerances_come_in_pairs() -> None:
    for options in ({"rtol": 0.0}, {"atol": 0.0}):
        with pytest.raises(ValueError, match="must be either specified or omitted, but got no"):
            assert_close(1.0, 1.0, **options)


def test_the_message_can_be_replaced() -> None:
    assert message(1, 2, msg="mine") == "mine"
    text = message(1, 2, msg=lambda text: f"before\n{text}\nafter")
    assert text.startswith("before\nScalars are not equal!")
    assert text.endswith("\nafter")


def test_assert_allclose_compares_values_and_says_that_it_is_old() -> None:
    with pytest.warns(FutureWarning, match="deprecated since 1.12"):
        assert_allclose(ad.tensor([1.0, NAN]), [1.0, NAN])
    with pytest.warns(FutureWarning), pytest.raises(AssertionError, match="Tensor-likes are not"):
        assert_allclose(ad.tensor([1.0]), np.array([2.0]))


FLOATS = [ad.float16, ad.bfloat16, ad.float32, ad.float64, ad.complex64, ad.complex128]
INTEGERS = [ad.bool, ad.uint8, ad.int8, ad.int16, ad.int32, ad.int64]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_make_tensor_stays_in_range(dtype: Any) -> None:
    for shape in ((), (0,), (2, 3)):
        assert make_tensor(shape, dtype=dtype, device="cpu").shape == shape
        assert make_tensor(*shape, dtype=dtype).dtype == dtype
    t = make_tensor(2000, dtype=dtype, low=0, high=2)
    t = ad.view_as_real(t) if dtype.is_complex else t
    assert bool((t >= 0).all() and (t < 2).all())
    assert float(t.to(ad.float64).std()) > 0.4
    t = make_tensor(2000, dtype=dtype, low=-1, high=2, exclude_zero=True)
    assert bool((t != 0).all())
    t = make_tensor(3, 4, dtype=dtype, noncontiguous=True)
    assert t.shape == (3, 4)
    assert not t.is_contiguous()


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_make_tensor_rounds_bounds_inwards_for_integers(dtype: Any) -> None:
    assert not make_tensor(500, dtype=dtype, low=-0.9999, high=0.9999).any()
    top = 1 if dtype is ad.bool else ad.iinfo(dtype).max - (dtype is ad.int64)
    assert bool((make_tensor(500, dtype=dtype, low=top, high=top + 1) == top).all())
    with pytest.raises(ValueError, match="`low` must be less than `high`, but got 1 >= 1"):
        make_tensor(2, dtype=dtype, low=1, high=1)
    with pytest.raises(ValueError, match="there is no integer in"):
        make_tensor(2, dtype=dtype, low=0.25, high=0.75)
    with pytest.raises(ValueError, match="is not supported for boolean and integral dtypes"):
        make_tensor(2, dtype=dtype, requires_grad=True)
    with pytest.raises(ValueError, match="only supports"):
        make_tensor(2, dtype=dtype, low=2**70, high=2**71)
    with pytest.raises(ValueError, match="only supports"):
        make_tensor(2, dtype=dtype, low=-(2**71), high=-(2**70))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_make_tensor_of_floating_point(dtype: Any) -> None:
    assert make_tensor(2, dtype=dtype, requires_grad=True).requires_grad
    info = ad.finfo(dtype)
    wide = make_tensor(500, dtype=dtype, low=info.min, high=info.max)
    assert bool(ad.isfinite(wide).all())
    assert float(ad.abs(wide).to(ad.float64).max()) > info.max / 2
    with pytest.warns(FutureWarning, match="Passing `low==high`") as caught:
        same = make_tensor(3, dtype=dtype, low=2, high=2)
    assert caught[0].filename == __file__
    assert_close(same, ad.full_like(same, complex(2, 2) if dtype.is_complex else 2))
    with pytest.raises(ValueError, match="`low` and `high` cannot be NaN"):
        make_tensor(3, dtype=dtype, low=NAN)
    with pytest.raises(ValueError, match="`low` must be less than `high`, but got 1 >= 0"):
        make_tensor(3, dtype=dtype, low=1, high=0)


def test_make_tensor_refuses_what_excludes_each_other() -> None:
    with pytest.raises(ValueError, match="`noncontiguous` and `memory_format` are mutually"):
        make_tensor(2, dtype=ad.float32, noncontiguous=True, memory_format=ad.contiguous_format)
    assert make_tensor(2, 2, dtype=ad.float32, memory_format=ad.contiguous_format).is_contiguous()


def test_make_tensor_follows_the_seed() -> None:
    ad.manual_seed(1)
    first = make_tensor(5, dtype=ad.float32)
    ad.manual_seed(1)
    assert ad.equal(make_tensor(5, dtype=ad.float32), first)
