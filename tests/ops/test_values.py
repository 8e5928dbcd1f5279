"""Every op, every sample, every dtype: value, dtype and shape against the table of references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.ops.compare import assert_close
from tests.ops.references import REFERENCES, wide
from tests.ops.samples import OPS
from tests.ops.spec import Op, Sample, dtype_name, outputs, strided, to_library, to_numpy
from tests.unit.linalg.cases import CASES


def run(op: Op, sample: Sample, dtype: str) -> list[Any]:
    call = sample.map(lambda a: to_library(a, ad, dtype))
    return outputs(op.function(ad)(*call.args, **call.kwargs))


def expect(op: Op, sample: Sample) -> list[Any]:
    call = sample.map(wide)
    with np.errstate(all="ignore"):
        return outputs(REFERENCES[op.name](*call.args, **call.kwargs))


def accepted(op: Op, dtype: str) -> float:
    # A 16-bit result is computed in float32 and rounded once at the end, whatever the op's own
    # error; an op made of several may round between them.
    most = 1.0 if op.pointwise else 2.0
    if dtype in ("float16", "bfloat16"):
        return min(op.ulps, most)
    # The parts of a complex result are sums of products: some cancellation relative to its modulus.
    return 4 * op.ulps if dtype.startswith("complex") else op.ulps


@pytest.mark.parametrize("name", OPS)
def test_value_dtype_and_shape(name: str) -> None:
    op = OPS[name]
    for dtype in op.letters("bifhc"):
        for label, sample in op.drawn(dtype):
            got, want = run(op, sample, dtype), expect(op, sample)
            assert len(got) == len(want), label
            assert dtype_name(got[0]) == op.result_dtype(dtype, sample), label
            for tensor, reference in zip(got, want, strict=True):
                assert_close(tensor, reference, accepted(op, dtype), op.cancelling, label)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.pointwise])
def test_a_long_input_gives_the_values_of_its_pieces(name: str) -> None:
    """Threads, vector registers and tails: 100,003 elements, contiguous and strided, element by
    element.
    """
    op = OPS[name]
    for dtype in op.letters("if")[-2:]:
        short = op.samples[0].draw(dtype, name)
        long = short.map(lambda a: np.resize(a, 100_003) if isinstance(a, np.ndarray) else a)
        for changed in (long, long.map(strided)):
            got, want = run(op, changed, dtype)[0], run(op, short, dtype)[0]
            expected = np.resize(want.numpy(), 100_003)
            np.testing.assert_array_equal(got.numpy(), expected, f"{name} in {dtype}")


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.method])
def test_the_method_is_the_function(name: str) -> None:
    op = OPS[name]
    dtype = op.letters("fi")[0]
    for label, sample in op.drawn(dtype):
        call = sample.map(lambda a: to_library(a, ad, dtype))
        if not isinstance(call.args[0], ad.Tensor):
            continue
        by_method = getattr(call.args[0], name)(*call.args[1:], **call.kwargs)
        for a, b in zip(outputs(by_method), run(op, sample, dtype), strict=True):
            np.testing.assert_array_equal(to_numpy(a), to_numpy(b), label)


@pytest.mark.parametrize("name", [n for n, op in OPS.items() if op.pointwise])
def test_the_arguments_are_left_alone(name: str) -> None:
    op = OPS[name]
    dtype = op.letters("fi")[0]
    for label, sample in op.drawn(dtype):
        call = sample.map(lambda a: to_library(a, ad, dtype))
        op.function(ad)(*call.args, **call.kwargs)
        for tensor, array in zip(call.args, sample.args, strict=True):
            if isinstance(array, np.ndarray):
                assert tensor._version == 0, label
                np.testing.assert_array_equal(tensor.numpy(), array, label)


def test_every_op_of_the_registry_has_a_sample() -> None:
    names = {op.path.rpartition(".")[2] or op.name for op in OPS.values()} | set(OPS)
    # What makes tensors has no input to differentiate: test_creation.py, test_random.py.
    makers = ("creation", "ranges", "random", "windows")
    names |= {row["name"] for row in ad._core.op_table() if row["family"] in makers}
    names |= set(CASES)  # linear algebra: tests/unit/linalg
    assert sorted(set(ad._core.op_names()) - names) == []


def test_the_table_of_samples_agrees_with_the_registry() -> None:
    """An in-place form that the registry has is tested, and one that is tested exists."""
    rows = {row["name"]: row for row in ad._core.op_table() if row["function"]}
    for name in OPS.keys() & rows.keys():
        assert OPS[name].inplace == rows[name]["inplace"], f"{name}_"


def test_every_sample_has_a_reference() -> None:
    assert sorted(set(OPS) - set(REFERENCES)) == []


def test_drawn_samples_do_not_change_between_runs() -> None:
    """The seed is a hash of the sample's text, not of its address: failures can be repeated."""
    one, two = (OPS["sin"].samples[0].draw("float64", "sin").args[0] for _ in range(2))
    np.testing.assert_array_equal(one, two)
