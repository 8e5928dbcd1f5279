"""Messages of the ops that give another shape: views, axes, parts, joining, repeating."""

from __future__ import annotations

import pytest

import adjoint as ad
from tests.errors.table import Row, check, refusals

HUGE = 2**62
m = ad.ones(2, 3)  # never changed: every call below is refused
v = ad.ones(4)
s = ad.tensor(1.0)
none = ad.ones(0)


@refusals(
    (lambda: m.view(-1, -1), RuntimeError, "only one dimension can be inferred, but the shape is"),
    (lambda: m.view(-2, 3), RuntimeError, "invalid shape dimension -2 in"),
    (lambda: m.view(HUGE, 8), RuntimeError, "has too many elements"),
    (lambda: none.view(0, -1), RuntimeError, "unspecified dimension size -1 can be any value"),
    (lambda: m.view(4), RuntimeError, "is invalid for input of size 6"),
    (lambda: m.t().view(6), RuntimeError, "spans across two contiguous subspaces"),
    (lambda: m.as_strided((2,), (1, 1)), RuntimeError, "mismatch in length of strides and shape"),
    (lambda: m.as_strided((2,), (-1,)), RuntimeError, "Negative strides are not supported"),
    (lambda: m.as_strided((3,), (HUGE,)), RuntimeError, "Storage size calculation overflowed"),
    (lambda: m.as_strided((7,), (1,)), RuntimeError, "requiring 7 elements are out of bounds"),
    (lambda: s.view(ad.int8), RuntimeError, "self.dim() cannot be 0 to view float32 as int8"),
    (lambda: m.t().view(ad.int8), RuntimeError, "self.stride(-1) must be 1 to view"),
    (lambda: m.view(ad.float64), RuntimeError, "self.size(-1) must be divisible by 2"),
    (lambda: m.flatten(1, 0), RuntimeError, "start_dim cannot come after end_dim"),
    (lambda: m.unflatten(1, ()), RuntimeError, "unflatten: sizes must be non-empty"),
    (lambda: m.unflatten(1, (2, 2)), RuntimeError, "don't multiply up to the size of dim 1 (3)"),
    (lambda: m.expand(3), RuntimeError, "sizes provided (1) must be greater or equal"),
    (lambda: m.expand(-2, 2, 3), RuntimeError, "invalid size -2 at dimension 0"),
    (lambda: m.expand(-1, 2, 3), RuntimeError, "dimension 0"),
    (lambda: m.expand(2, 4), RuntimeError, "expanded size of the tensor (4) must match the exist"),
    (
        lambda: m.as_strided_scatter(ad.ones(5), (2,), (1,)),
        RuntimeError,
        "expected src to have a size equal to the slice: got [5], expected [2]",
    ),
    (lambda: ad.empty((1,) * 65), ValueError, "dimensions, got 65"),
)
def test_views(row: Row) -> None:
    check(row)


@refusals(
    (lambda: m.permute(0, 0), RuntimeError, "duplicate dims are not allowed (got [0, 0])"),
    (lambda: m.permute(0), RuntimeError, "input.dim() = 2 is not equal to len(dims) = 1"),
    (lambda: m.movedim((0, 0), (0, 1)), RuntimeError, "movedim: repeated dim in `source`"),
    (lambda: m.movedim((0, 1), (0,)), RuntimeError, "source ([0, 1] dims) should contain the s"),
    (lambda: v.adjoint(), RuntimeError, "only supported on matrices or batches of matrices"),
    (lambda: ad.ones(1, 2, 3).t(), RuntimeError, "<= 2 dimensions, but self is 3D"),
    (lambda: v.mT, RuntimeError, "tensor.mT is only supported on matrices"),
    (lambda: v.mH, RuntimeError, "tensor.mH is only supported on matrices"),
    (lambda: m.flip(0, 0), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda: m.roll(()), RuntimeError, "`shifts` required"),
    (lambda: m.roll((1, 2), (0,)), RuntimeError, "shifts: 2, dims:1"),
    (lambda: s.roll(1, 0), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
    (lambda: v.tril(), RuntimeError, "must have at least 2 dimensions, got 1"),
    (lambda: v.triu(), RuntimeError, "must have at least 2 dimensions, got 1"),
    (lambda: v.fliplr(), RuntimeError, "Input must be >= 2-d."),
    (lambda: s.flipud(), RuntimeError, "Input must be >= 1-d."),
    (lambda: m.rot90(1, (0,)), RuntimeError, "rotation dims == 2, but got dims = 1"),
    (lambda: v.rot90(1, (0, 1)), RuntimeError, "expected total dims >= 2, but got total dims = 1"),
    (lambda: m.rot90(1, (0, 5)), RuntimeError, "Rotation dim out of range, dim = 5 of 2 dims"),
    (lambda: m.rot90(1, (0, -2)), RuntimeError, "to be different, but got dim0 = 0 and dim1 = -2"),
    (lambda: m.diagonal(0, 1, 1), RuntimeError, "diagonal dimensions cannot be identical 1, 1"),
    (lambda: v.diag_embed(0, 1, 1), RuntimeError, "diagonal dimensions cannot be identical 1, 1"),
    (lambda: ad.ones(1, 1, 1).diag(), RuntimeError, "Supports 1D or 2D tensors. Got 3D"),
    (lambda: v.trace(), RuntimeError, "expected a matrix, but got tensor with dim 1"),
    (lambda: m.bool().trace(), NotImplementedError, "\"trace\" not implemented for 'Bool'"),
    (lambda: m.sum((0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
    (lambda: s.size(0), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
)
def test_axes(row: Row) -> None:
    check(row)


@refusals(
    (lambda: s.unbind(), IndexError, "Dimension specified as 0 but tensor has no dimensions"),
    (lambda: s.split(1), RuntimeError, "split expects at least a 1-dimensional tensor"),
    (lambda: s.split([1]), RuntimeError, "split expects at least a 1-dimensional tensor"),
    (lambda: v.split(-1), RuntimeError, "but got split_size=-1"),
    (lambda: v.split(0), RuntimeError, "but got dimension size of 4"),
    (
        lambda: v.split([5, -1]),
        RuntimeError,
        "only non-negative entries, but got split_sizes=[5, -",
    ),
    (lambda: v.split([1, 2]), RuntimeError, "to sum exactly to 4 (input tensor's size at dimens"),
    (lambda: s.chunk(2), RuntimeError, "chunk expects at least a 1-dimensional tensor"),
    (lambda: v.chunk(0), RuntimeError, "`chunks` to be greater than 0, got: 0"),
    (lambda: s.tensor_split(2), RuntimeError, "tensor_split expected at least a 1-dimensional"),
    (lambda: s.tensor_split((1,)), RuntimeError, "tensor_split expected at least a 1-dimensional"),
    (lambda: v.tensor_split(s), RuntimeError, "to have dtype of long, but got Float"),
    (lambda: v.tensor_split(m.long()), RuntimeError, "one-dimensional tensor, but got a tensor wi"),
    (lambda: m.diff(prepend=v[None]), RuntimeError, "to match that of input except along the diff"),
    (lambda: none.mode(), IndexError, "mode(): Expected reduction dim 0 to have non-zero size"),
    (lambda: m.cfloat().mode(), NotImplementedError, '"mode" not implemented for'),
    (
        lambda: ad.zeros(3, dtype=ad.int8).masked_fill(ad.ones(3) > 0, 1e300),
        RuntimeError,
        "value cannot be converted to type int8 without overflow",
    ),
    (
        lambda: ad.zeros(3, dtype=ad.int8).index_fill(0, ad.tensor([0]), 300),
        RuntimeError,
        "value cannot be converted to type int8 without overflow: 300",
    ),
    (
        lambda: ad.zeros(3, dtype=ad.int8).scatter(0, ad.tensor([0]), 300),
        RuntimeError,
        "value cannot be converted to type int8 without overflow: 300",
    ),
    (
        lambda: ad.zeros(3).__setitem__(0, 1e300),
        RuntimeError,
        "value cannot be converted to type float32 without overflow",
    ),
    (lambda: v.tensor_split(0), RuntimeError, "number of sections must be larger than 0, got 0"),
    (lambda: v.tensor_split(2**27), RuntimeError, "parts can be kept, got 134217728"),
    (
        lambda: v.tensor_split(ad.ones(1, 2, dtype=ad.int64)),
        RuntimeError,
        "zero-dimensional or one-dimensional tensor, but got a tensor with 2 dims",
    ),
    (lambda: s.hsplit(2), RuntimeError, "torch.hsplit requires a tensor with at least 1 dimens"),
    (lambda: m.hsplit(2), RuntimeError, "the size of the dimension 3 is not divisible by the spl"),
    (lambda: v.unfold(0, -1, 1), RuntimeError, "size is -1 but must be >= 0"),
    (lambda: v.unfold(0, 5, 1), RuntimeError, "at dimension 0 is 4 but size is 5"),
    (lambda: v.unfold(0, 2, 0), RuntimeError, "step is 0 but must be > 0"),
    (lambda: s.select(0, 0), IndexError, "select() cannot be applied to a 0-dim tensor."),
    (
        lambda: v.select(0, 9),
        IndexError,
        "index 9 out of range for tensor of size [4] at dimension",
    ),
    (lambda: s.narrow(0, 0, 1), RuntimeError, "narrow() cannot be applied to a 0-dim tensor."),
    (lambda: v.narrow(0, 0, -1), RuntimeError, "length must be non-negative"),
    (lambda: v.narrow(0, 3, 2), RuntimeError, "start (3) + length (2) exceeds dimension size (4)"),
    (
        lambda: m.select_scatter(v, 0, 0),
        RuntimeError,
        "expected src to have a size equal to the slice of self. src size = [4], slice size = [3]",
    ),
    (lambda: m.slice_scatter(v, 0, 0, 1), RuntimeError, "src size = [4], slice size = [1, 3]"),
    (lambda: m.diagonal_scatter(v), RuntimeError, "src size = [4], slice size = [2]"),
)
def test_parts(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.cat([]), ValueError, "expected a non-empty list of Tensors"),
    (
        lambda: ad.cat([v, s]),
        RuntimeError,
        "zero-dimensional tensor (at position 1) cannot be conc",
    ),
    (lambda: ad.cat([v, m]), RuntimeError, "Tensors must have same number of dimensions: got"),
    (lambda: ad.cat([m, ad.ones(2, 4)]), RuntimeError, "Expected size 3 but got size 4 for tensor"),
    (lambda: ad.stack([]), RuntimeError, "stack expects a non-empty TensorList"),
    (lambda: ad.stack([v, m]), RuntimeError, "but got [4] at entry 0 and [2, 3] at entry 1"),
    (lambda: ad.hstack([]), RuntimeError, "hstack expects a non-empty TensorList"),
    (lambda: ad.vstack([]), RuntimeError, "vstack expects a non-empty TensorList"),
    (lambda: m.repeat(2), RuntimeError, "can not be smaller than number of dimensions of tensor"),
    (lambda: m.repeat(HUGE, HUGE), RuntimeError, "overflow in the sizes of this call: 4611686018"),
    (lambda: v.repeat_interleave(-1), RuntimeError, "has to be non-negative, got -1"),
    (
        lambda: v.repeat_interleave(ad.ones(1, 1, dtype=ad.int64)),
        RuntimeError,
        "repeats must be 0-dim or 1-dim tensor",
    ),
    (lambda: v.repeat_interleave(ad.ones(4)), RuntimeError, "has to be Long or Int tensor"),
    (
        lambda: ad.ones(2).repeat_interleave(ad.tensor([HUGE, HUGE])),
        RuntimeError,
        "integer overflow in the sizes",
    ),
)
def test_joining(row: Row) -> None:
    check(row)


def test_more_chunks_than_an_int_holds() -> None:
    # Of nothing there are as many empty chunks as asked; this many cannot be kept.
    for chunks in (2**31, 2**32 + 1, 2**62):
        with pytest.raises(RuntimeError, match=f"at most .* got {chunks}"):
            none.chunk(chunks)
