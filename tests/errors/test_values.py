"""Messages of elementwise ops and reductions: dtypes, numbers out of range, nothing to reduce."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from tests.errors.table import Row, check, refusals

f = ad.arange(6.0).view(2, 3)  # never changed: every call below is refused
i = ad.arange(6).view(2, 3)
flags = f > 1
z = ad.ones(2, dtype=ad.complex64)
h = ad.ones(2).half()
none = ad.ones(0)
array = np.ones((2, 3))
F = ad.nn.functional


@refusals(
    (lambda: i.add(i, alpha=1.5), RuntimeError, "argument alpha must not be a floating point num"),
    (lambda: f.add(f, alpha=1j), RuntimeError, "argument alpha must not be a complex number."),
    (
        lambda: i.add(i, alpha=True),
        RuntimeError,
        "Boolean alpha only supported for Boolean results",
    ),
    (lambda: flags - flags, RuntimeError, "with two bool tensors is not supported. Use the `^`"),
    (
        lambda: flags - 1,
        RuntimeError,
        "with a bool tensor is not supported. If you are trying to i",
    ),
    (lambda: -flags, RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported"),
    (lambda: +flags, RuntimeError, "The `+` operator, on a bool tensor is not supported."),
    (lambda: ad.addcmul(flags, flags, flags), NotImplementedError, '"addcmul" not implemented'),
    (lambda: ad.addcdiv(i, i, i + 1), RuntimeError, "Integer division with addcdiv is no longer"),
    (lambda: ad.lerp(f, f.double(), 0.5), RuntimeError, "expected dtype float32 for `end` but got"),
    (
        lambda: ad.lerp(f, f, f.double()),
        RuntimeError,
        "expected dtype float32 for `weight` but got",
    ),
    (lambda: ad.lerp(i, i, 0.5), NotImplementedError, '"lerp" not implemented for dtype int64'),
    (lambda: array + f, TypeError, "fix: adjoint.from_numpy(array) + tensor"),
    (lambda: array @ f, TypeError, "for @: 'numpy.ndarray' and 'Tensor'"),
    (lambda: ad.cat([f, array]), TypeError, "expected Tensor as element 1, but got numpy.ndarray"),
    (lambda: i // 0, RuntimeError, "ZeroDivisionError"),
    (lambda: i % 0, RuntimeError, "ZeroDivisionError"),
    (lambda: f.div(f, rounding_mode="up"), RuntimeError, "'trunc', or 'floor' but found 'up'"),
    (lambda: i**-1, RuntimeError, "Integers to negative integer powers are not allowed."),
    (
        lambda: f.clone().float_power_(2),
        RuntimeError,
        "has dtype float32 but the operation's resul",
    ),
    (lambda: ad.heaviside(f, f.double()), RuntimeError, "different dtypes (float32 and float64)."),
    (lambda: i.round(decimals=1), NotImplementedError, "dtype int64 with decimals=1"),
    (lambda: z.clone().abs_(), RuntimeError, "In-place abs is not supported for complex tensors."),
    (lambda: f.clamp(), RuntimeError, "At least one of 'min' or 'max' must not be None"),
    (lambda: z.clamp(0), NotImplementedError, "complex"),
    (
        lambda: ad.where(i, f, f),
        RuntimeError,
        "to be a boolean tensor, but got a tensor with dtype",
    ),
    (lambda: ad.polygamma(-1, f), RuntimeError, "does not support negative n, got -1"),
    (lambda: z.floor(), NotImplementedError, '"floor" not implemented for dtype complex64'),
    (lambda: f & f, NotImplementedError, "not implemented for dtype float32"),
    (lambda: ad.isclose(f, f.double()), RuntimeError, "float32 did not match float64"),
    (lambda: ad.isclose(f, f, rtol=-1), RuntimeError, "rtol must be greater than or equal to zero"),
    (lambda: ad.isclose(f, f, atol=-1), RuntimeError, "atol must be greater than or equal to zero"),
    (lambda: ad.isposinf(z), RuntimeError, "isposinf does not support complex inputs."),
)
def test_elementwise(row: Row) -> None:
    check(row)


@refusals(
    (lambda: F.elu(i), NotImplementedError, '"elu" not implemented for dtype int64'),
    (lambda: F.gelu(f, approximate="fast"), RuntimeError, "either none or tanh, but got 'fast'"),
    (lambda: F.threshold(flags, 1, 1), NotImplementedError, "not implemented for dtype bool"),
    (lambda: F.threshold(i.byte(), 300, 1), RuntimeError, "uint8 without overflow: 300"),
    (lambda: F.hardtanh(flags), RuntimeError, "Bool inputs not supported for hardtanh"),
    (lambda: F.hardtanh(i.byte()), RuntimeError, "negative limits, got -1 and 1"),
    (lambda: F.celu(f, 0), RuntimeError, "ZeroDivisionError: alpha cannot be 0 for CELU"),
    (
        lambda: F.hardshrink(i),
        NotImplementedError,
        "\"hardshrink_cpu\" not implemented for 'int64'",
    ),
    (
        lambda: F.softmax(i, 0),
        NotImplementedError,
        "needs a floating-point tensor; convert with .f",
    ),
)
def test_activations(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.view_as_real(f), RuntimeError, "only supported for complex tensors, not for float"),
    (lambda: ad.view_as_complex(i), RuntimeError, "but got a tensor of dtype int64"),
    (lambda: ad.view_as_complex(ad.tensor(1.0)), RuntimeError, "must have one or more dimensions"),
    (lambda: ad.view_as_complex(f), RuntimeError, "of size 2, but the shape is [2, 3]"),
    (lambda: ad.view_as_complex(f.t()), RuntimeError, "stride 1, but the strides are [1, 3]"),
    (lambda: ad.view_as_complex(f[:, :2]), RuntimeError, "stride divisible by 2 for all but last"),
    (lambda: ad.view_as_complex(f.view(6)[1:3]), RuntimeError, "divisible by 2, got 1; use .clone"),
    (
        lambda: ad.complex(f, f.double()),
        RuntimeError,
        "scalar type float32 but got scalar type flo",
    ),
    (lambda: ad.complex(i, i), RuntimeError, "Float or Double tensors but got int64 and int64"),
    (lambda: f.imag, RuntimeError, "for tensors with non-complex dtypes, here float32"),
)
def test_complex(row: Row) -> None:
    check(row)


@refusals(
    (
        lambda: i.mean(),
        RuntimeError,
        "Input dtype must be either a floating point or complex dtype",
    ),
    (
        lambda: f.mean(dtype=ad.int64),
        RuntimeError,
        "Optional dtype must be either a floating point",
    ),
    (
        lambda: f.sum_to_size(2, 2, 3),
        RuntimeError,
        "size [2, 2, 3] is not expandable to size [2, 3",
    ),
    (lambda: f.sum_to_size(2, 2), RuntimeError, "size [2, 2] is not expandable to size [2, 3]"),
    (lambda: none.amax(), RuntimeError, "amax(): Expected reduction dim to be specified for input"),
    (lambda: none.max(), RuntimeError, "max(): Expected reduction dim to be specified for input.n"),
    (lambda: none.amax(0), IndexError, "Expected reduction dim 0 to have non-zero size."),
    (lambda: z.amax(), NotImplementedError, "complex numbers have no order"),
    (lambda: z.argmax(), RuntimeError, "argmax(): does not support complex input"),
    (lambda: flags.argmax(), RuntimeError, "argmax(): does not support bool input"),
    (lambda: none.argmax(0), IndexError, "Expected reduction dim 0 to have non-zero size."),
    (lambda: none.argmax(), IndexError, "Expected reduction dim to be specified for input.numel()"),
    (lambda: ad.hash_tensor(none), RuntimeError, "hash_tensor(): Expected reduction dim to be"),
    (lambda: ad.ones(2).hash_tensor(mode=1), RuntimeError, "Unknown hash_tensor mode: 1"),
    (lambda: ad.ones(2, dtype=ad.complex64).hash_tensor(), NotImplementedError, "view_as_real"),
    (lambda: ad.ones(2, dtype=ad.uint16).hash_tensor(), NotImplementedError, "a signed dtype"),
    (lambda: z.max(0), RuntimeError, "max(): does not support complex input"),
    (lambda: z.median(), NotImplementedError, "\"median\" not implemented for 'complex64'"),
    (
        lambda: ad.empty(0, dtype=ad.int64).median(),
        RuntimeError,
        "empty tensor of int64 has no medi",
    ),
    (lambda: none.median(0), IndexError, "Expected reduction dim 0 to have non-zero size."),
    (lambda: f.quantile(1.5), RuntimeError, "q must be in the range [0, 1] but got 1.5"),
    (lambda: f.quantile(f / 9), RuntimeError, "q must be a scalar or 1D tensor, got shape [2, 3]"),
    (lambda: f.quantile(ad.ones(1).double()), RuntimeError, "the input tensor, got float64 and fl"),
    (lambda: f.quantile(ad.tensor([2.0])), RuntimeError, "q values must be in the range [0, 1]"),
    (lambda: i.quantile(0.5), RuntimeError, "must be either float or double dtype, got int64"),
    (lambda: f.quantile(0.5, interpolation="up"), RuntimeError, "but got up"),
    (lambda: none.quantile(0.5), RuntimeError, "input tensor must be non-empty"),
    (lambda: z.cummax(0), NotImplementedError, "\"cummax\" not implemented for 'complex64'"),
    (
        lambda: i.logcumsumexp(0),
        NotImplementedError,
        "\"logcumsumexp\" not implemented for 'int64'",
    ),
    (lambda: i.std(), RuntimeError, "only support floating point and complex dtypes, got int64"),
    (lambda: i.norm(), RuntimeError, "complex tensor as input. Got int64"),
    (lambda: z.norm(dtype=ad.float32), RuntimeError, "complex for complex inputs, but got float32"),
    (lambda: none.norm(float("inf"), 0), RuntimeError, "inf norm on an empty tensor"),
    (lambda: f.norm(p="two"), RuntimeError, "Order two not supported."),
    (lambda: z.nansum(), RuntimeError, "nansum on CPU does not support complex inputs"),
    (lambda: i.nanmean(), RuntimeError, "floating point or complex dtype but got int64"),
)
def test_reductions(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.add(f, f, out=i.clone()), RuntimeError, "float32 can't be cast to the desired out"),
    (lambda: f.clone().add_(ad.ones(2, 2, 3)), RuntimeError, "doesn't match the broadcast shape"),
    (lambda: i.clone().add_(1.5), RuntimeError, "float32 can't be cast to the desired output type"),
    (lambda: i.clone().cumsum_(0, dtype=ad.float32), RuntimeError, "Bad in-place call: input"),
    (lambda: ad.max(f, 0, out=f.clone()), TypeError, "must be a tuple of tensors, not a tensor"),
    (lambda: ad.argmax(f, out=f.clone()), RuntimeError, "dtype int64, but got float32"),
    (
        lambda: ad.sum(f, out=i.clone()),
        RuntimeError,
        "can't be cast to the desired output type int",
    ),
)
def test_results_that_do_not_fit_their_place(row: Row) -> None:
    check(row)


@pytest.mark.parametrize("other", [ad.ones(2, 2, 3), ad.ones(4), 1j, ad.ones(2, 3).cdouble()])
def test_a_refused_change_changes_nothing(other: object) -> None:
    t = f.clone()
    for change in (t.add_, t.mul_, t.sub_, t.copysign_):
        with pytest.raises(RuntimeError):
            change(other)
    assert (t == f).all() and t._version == 0


slope = ad.tensor(0.1, requires_grad=True)


@refusals(
    (lambda: f @ 2, TypeError, "unsupported operand type(s) for @"),
    (lambda: 2 @ f, TypeError, "unsupported operand type(s) for @"),
    (lambda: ad.add_(2, 1), TypeError, "add_(): argument 'input' (position 1) must be Tensor"),
    (lambda: ad.floor_divide_(2.0, f), TypeError, "must be Tensor, not a number"),
    (lambda: F.leaky_relu(f, slope), TypeError, "it requires grad, which a number would lose"),
    (lambda: ad.leaky_relu(f, f), TypeError, "must be Number, not Tensor"),
    (lambda: ad.full((2,), slope), TypeError, "must be Number, not Tensor: it requires"),
    (lambda: f.add(f, alpha=slope), TypeError, "add() received an invalid combination"),
)
def test_numbers_and_tensors_in_each_others_places(row: Row) -> None:
    check(row)
