"""In-place forms: the same values as the op, counted, and refused before anything is changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.samples import OPS
from tests.ops.spec import Array, Op, Sample, dtype_name, outputs, to_library, to_numpy

INPLACE = [n for n, op in OPS.items() if op.inplace]
TO_FLOAT = [n for n in INPLACE if OPS[n].out == "float" and "i" in OPS[n].dtypes]


def calls(op: Op, dtype: str) -> list[tuple[str, Sample, Array]]:
    """Samples whose result fits into the first argument, with the value it must end up with."""
    found = []
    for label, sample in op.drawn(dtype):
        if not isinstance(sample.args[0], np.ndarray):
            continue
        call = sample.map(lambda a: to_library(a, ad, dtype))
        (result,) = outputs(op.function(ad)(*call.args, **call.kwargs))
        if op.out == "bool":  # an answer is written as 0 or 1 of any dtype
            result = result.to(call.args[0].dtype)
        if result.shape == call.args[0].shape and result.dtype == call.args[0].dtype:
            found.append((label, sample, to_numpy(result)))
    return found


def edit(op: Op, target: Any, sample: Sample, dtype: str) -> Any:
    call = sample.map(lambda a: to_library(a, ad, dtype))
    return getattr(target, op.name + "_")(*call.args[1:], **call.kwargs)


@pytest.mark.parametrize("name", INPLACE)
def test_the_in_place_form_gives_the_values_of_the_op(name: str) -> None:
    op = OPS[name]
    for dtype in op.letters("bifhc"):
        for label, sample, want in calls(op, dtype):
            target = to_library(sample.args[0], ad, dtype)
            address, version = target.data_ptr(), target._version
            returned = edit(op, target, sample, dtype)
            assert returned is target and target.data_ptr() == address, label
            assert target._version == version + 1, label
            np.testing.assert_array_equal(to_numpy(target), want, label)


@pytest.mark.parametrize("name", INPLACE)
def test_the_in_place_form_passes_the_gradient_of_the_op(name: str) -> None:
    op = OPS[name]
    if not op.diff or "f" not in op.dtypes:
        pytest.skip(f"{name} has no gradient")
    for label, sample, _ in calls(op, "float64"):
        gradients = []
        for in_place in (False, True):
            x = to_library(sample.args[0], ad).requires_grad_()
            if in_place:
                y = edit(op, x.clone(), sample, "float64")
            else:
                call = sample.map(lambda a: to_library(a, ad))
                y = op.function(ad)(x, *call.args[1:], **call.kwargs)
            gradients.append(to_numpy(ad.autograd.grad(y.sum(), x)[0]))
        # The edited clone and the sample may differ in strides, hence in the loop that runs: some
        # ULP.
        np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-14, err_msg=label)


@pytest.mark.parametrize("name", [n for n in INPLACE if "f" in OPS[n].dtypes])
def test_a_leaf_that_requires_grad_refuses_and_stays_as_it_was(name: str) -> None:
    op = OPS[name]
    _, sample, _ = calls(op, "float64")[0]
    leaf = to_library(sample.args[0], ad).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf"):
        edit(op, leaf, sample, "float64")
    np.testing.assert_array_equal(to_numpy(leaf), sample.args[0])
    assert leaf._version == 0 and leaf.is_leaf and leaf.grad_fn is None
    with ad.no_grad():
        edit(op, leaf, sample, "float64")
    assert leaf._version == 1 and leaf.is_leaf and leaf.requires_grad


@pytest.mark.parametrize("name", TO_FLOAT)
def test_a_float_result_does_not_go_into_integers(name: str) -> None:
    op = OPS[name]
    label, sample = next(op.drawn("int32"))
    target = to_library(sample.args[0], ad)
    with pytest.raises(RuntimeError, match=r"(?i)float.*cast.*int"):
        edit(op, target, sample, "int32")
    np.testing.assert_array_equal(to_numpy(target), sample.args[0], label)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "pow", "maximum"])
def test_a_result_that_needs_a_larger_shape_is_refused(name: str) -> None:
    target = ad.ones(3)
    if not hasattr(target, name + "_"):
        pytest.skip(f"there is no {name}_")
    with pytest.raises(RuntimeError, match=r"\[3\].*\[2, 3\]"):
        getattr(target, name + "_")(ad.ones(2, 3))
    assert target.tolist() == [1.0, 1.0, 1.0] and target._version == 0


@pytest.mark.parametrize(
    ("target", "other"),
    [("int64", "float32"), ("float32", "complex64"), ("bool", "int64"), ("bool", "float32")],
)
def test_a_higher_kind_does_not_go_into_a_lower_one(target: str, other: str) -> None:
    x = ad.ones(2, dtype=getattr(ad, target))
    with pytest.raises(RuntimeError, match=r"(?i)cast"):
        x.add_(ad.ones(2, dtype=getattr(ad, other)))
    assert x.tolist() == [1, 1] and dtype_name(x) == target


def test_a_smaller_float_takes_a_wider_one() -> None:
    x = ad.ones(2, dtype=ad.float16)
    assert x.add_(ad.ones(2, dtype=ad.float64)).dtype == ad.float16


def test_copy_converts_broadcasts_and_counts() -> None:
    x = ad.zeros(2, 3, dtype=ad.int32)
    assert x.copy_(ad.tensor([1.9, -2.9, 3.0])) is x
    assert x.tolist() == [[1, -2, 3], [1, -2, 3]] and x._version == 1
    w = ad.ones(3, requires_grad=True)
    y = ad.zeros(2, 3).copy_(w)
    y.sum().backward()
    assert w.grad.tolist() == [2.0, 2.0, 2.0]


def test_overlapping_memory_is_read_before_it_is_written() -> None:
    x = ad.arange(5)
    x[1:].copy_(x[:-1].clone())
    assert x.tolist() == [0, 0, 1, 2, 3]
    with pytest.raises(RuntimeError):
        ad.zeros(1).expand(3).add_(1)  # several elements at one address


@pytest.mark.parametrize("name", ["fill_", "zero_", "masked_fill_", "index_fill_", "__setitem__"])
def test_other_edits_count_as_one(name: str) -> None:
    x = ad.arange(4.0)
    {
        "fill_": lambda: x.fill_(2),
        "zero_": lambda: x.zero_(),
        "masked_fill_": lambda: x.masked_fill_(x > 1, 0.0),
        "index_fill_": lambda: x.index_fill_(0, ad.tensor([1]), 5.0),
        "__setitem__": lambda: x.__setitem__(slice(1, 3), 7.0),
    }[name]()
    assert x._version == 1
