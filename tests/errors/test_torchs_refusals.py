"""Calls that PyTorch refuses and that went through, or ended in an error about something else."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint as ad
from adjoint.nn import functional as F
from tests.errors.table import Row, check, refusals

nan = float("nan")
x, m, i = ad.ones(3), ad.ones(2, 3), ad.tensor([0, 1, 2])


@refusals(
    (lambda: x.repeat_interleave(2, output_size=5), RuntimeError, "expected 6 but got 5"),
    (lambda: x.repeat_interleave(i, output_size=4), RuntimeError, "expected 3 but got 4"),
    (lambda: ad.repeat_interleave(i, output_size=4), RuntimeError, "expected 3 but got 4"),
    (lambda: ad.repeat_interleave(m.long()), RuntimeError, "1D vector as repeat, got shape [2, 3]"),
    (lambda: ad.repeat_interleave(x), NotImplementedError, "use repeats.long()"),
    (lambda: ad.repeat_interleave(-i), RuntimeError, "repeats can not be negative, got -1"),
    (lambda: ad.poisson(ad.tensor([1.0, nan])), RuntimeError, "a rate >= 0, but element 1 is nan"),
    (lambda: ad.histc(ad.tensor([1.0, nan])), RuntimeError, "range of [nan, nan] is not finite"),
    (lambda: ad.histc(x, 2, 0, nan), RuntimeError, "range of [0, nan] is not finite"),
    (lambda: x.index_add(0, ad.tensor([5]), x[:1]), IndexError, "index 5 is out of bounds"),
    (lambda: m.index_add(0, ad.tensor([5]), m[:1]), RuntimeError, "index 5 is out of bounds"),
    (lambda: m.narrow(0, x, 1), RuntimeError, "got dtype float32 and shape [3]"),
    (lambda: x.requires_grad_(1), TypeError, "must be bool, not int"),
    (lambda: x.cpu(1), TypeError, "cpu() takes 0 positional arguments"),
    (
        lambda: ad.ones(6).as_strided_scatter(ad.ones(2, 2), (2, 2), (1, 1)),
        RuntimeError,
        "more than one element of src goes to one place (size [2, 2], stride [1, 1])",
    ),
)
def test_values_and_indices(row: Row) -> None:
    check(row)


@refusals(
    (lambda: F.batch_norm(m, x, x, ad.ones(1)), RuntimeError, "weight should contain 3 elements"),
    (lambda: F.batch_norm(m, x, x, x, ad.ones(2)), RuntimeError, "bias should contain 3 elements"),
    (lambda: F.batch_norm(m, ad.ones(1), x), RuntimeError, "mean should contain 3 elements not 1"),
    (lambda: F.batch_norm(m, x, None, training=True), ValueError, "neither be None"),
    (lambda: F.batch_norm(x, None, None), RuntimeError, "but received 1"),
    (lambda: F.batch_norm(m, 1, x), TypeError, "'running_mean' (position 2) must be Tensor, not"),
    (lambda: F.group_norm(m, 1, ad.ones(1)), RuntimeError, "weight should contain 3 elements"),
    (lambda: F.group_norm(ad.ones(1, 4), 4), ValueError, "Expected more than 1 value per channel"),
    (lambda: F.group_norm(m, 1.5), TypeError, "'num_groups' (position 2) must be int, not float"),
    (lambda: F.instance_norm(ad.ones(2, 3, 2), weight=ad.ones(1)), RuntimeError, "3 elements not"),
    (lambda: F.prelu(m, ad.ones(1, 1)), RuntimeError, "ndim = 2, of shape [1, 1]"),
    (lambda: F.prelu(ad.tensor(1.0), x), RuntimeError, "zero-dim input tensor with 3 weights"),
    (lambda: F.max_pool1d(ad.ones(0, 9), 2), RuntimeError, "0 dim batch size for input, but got"),
    (lambda: F.max_pool3d(ad.ones(1, 0, 2, 2, 2), 2), RuntimeError, "got:[1, 0, 2, 2, 2]"),
    (lambda: F.max_pool1d(ad.ones(1, 9), [2.0]), TypeError, "must be int[], not list"),
    (lambda: F.pad(x, "a"), TypeError, "'pad' (position 2) must be tuple of ints, not 'a'"),
)
def test_layers(row: Row) -> None:
    check(row)


@refusals(
    (lambda: F.one_hot(3), TypeError, "'tensor' (position 1) must be Tensor, not int"),
    (lambda: ad.meshgrid(1, 2, indexing="ij"), TypeError, "expected Tensor as element 0"),
    (lambda: ad.cartesian_prod(x, 2), TypeError, "element 1 in argument 0, but got int"),
    (lambda: ad.tensordot(1, x), TypeError, "'a' (position 1) must be Tensor, not int"),
    (lambda: ad.tensordot(x, None), TypeError, "'b' (position 2) must be Tensor, not NoneType"),
    (lambda: ad.tensordot(x, x, "ab"), RuntimeError, "containing two lists, but got dims='ab'"),
    (lambda: x.resize_as_(3), TypeError, "'the_template' (position 1) must be Tensor, not int"),
    (lambda: x.set_("a"), TypeError, "must be Tensor or Storage, not str"),
    (lambda: ad.is_complex(1j), TypeError, "is_complex(): argument 'input' (position 1) must be"),
)
def test_what_is_not_a_tensor(row: Row) -> None:
    check(row)


def outs(values: ad.dtype, indices: ad.dtype) -> tuple[ad.Tensor, ad.Tensor]:
    return ad.zeros(3, dtype=values), ad.zeros(3, dtype=indices)


@refusals(
    (lambda: ad.max(m, 0, out=outs(ad.float32, ad.float32)), RuntimeError, "dtype int64, but got"),
    (lambda: ad.sort(x, out=outs(ad.float64, ad.int64)), RuntimeError, "dtype float32, but got"),
    (lambda: ad.kthvalue(m, 1, 0, out=outs(ad.float32, ad.int32)), RuntimeError, "but got int32"),
    (
        lambda: ad.sort(x, out=(ad.zeros(1).expand(3), ad.zeros(3, dtype=ad.int64))),
        RuntimeError,
        "more than one element of the written-to tensor",
    ),
    (
        lambda: ad.sort(x, out=(x.clone().requires_grad_(), ad.zeros(3, dtype=ad.int64))),
        RuntimeError,
        "don't support automatic differentiation",
    ),
    (lambda: ad.mm(m, m.T, out=ad.zeros(2, 2).double()), RuntimeError, "dtype float32, but got"),
    (lambda: ad.gather(x, 0, i, out=x.double()), RuntimeError, "dtype float32, but got float64"),
    (lambda: ad.cat([x, x], out=i.clone()), TypeError, "can't be cast to the desired output type"),
    (lambda: ad.tensordot(x, x, 1, out=i[0].clone()), RuntimeError, "dtype torch.float32, but got"),
    (lambda: ad.t_copy(m, out=m.T.double()), RuntimeError, "dtype torch.float32, but got"),
)
def test_dtypes_of_out(row: Row) -> None:
    check(row)


def test_out_of_another_dtype_is_converted_where_torch_converts() -> None:
    assert ad.sum(m, 0, out=ad.zeros(3, dtype=ad.float64)).tolist() == [2.0, 2.0, 2.0]
    assert ad.max(x, x, out=ad.zeros(3, dtype=ad.float64)).tolist() == [1.0, 1.0, 1.0]
    assert ad.all(m, 0, out=ad.zeros(3, dtype=ad.uint8)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("grow", ["resize_", "out", "resize_as_"])
def test_a_tensor_on_an_array_does_not_leave_it_silently(grow: str) -> None:
    array = np.zeros(3, dtype=np.float32)
    t = ad.from_numpy(array)
    with pytest.raises(RuntimeError, match="Trying to resize storage that is not resizable: 20"):
        if grow == "out":
            with pytest.warns(UserWarning, match="was resized"):
                ad.sin(ad.ones(5), out=t)
        else:
            t.resize_(5) if grow == "resize_" else t.resize_as_(ad.ones(5))
    t[0] = 7.0
    assert array[0] == 7.0 and t.shape == (3,)
    t.resize_(2)[1] = 8.0  # there is room for fewer
    assert array[1] == 8.0
