"""Messages of indexing, gathering, masks, sorting and counting; refused, nothing changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from tests.errors.table import Row, check, refusals

m = ad.arange(6.0).view(2, 3)  # never changed: every call below is refused
v = ad.arange(4.0)
s = ad.tensor(1.0)
i = ad.tensor([0, 1])
far = ad.tensor([0, 9])
ii = ad.tensor([[0, 1, 1], [1, 0, 0]])
z = ad.ones(2, dtype=ad.complex64)
flags = v > 1


def put(t: Any, key: Any, value: Any) -> None:
    t[key] = value


def scaled_sparse_embedding() -> Any:
    table = ad.ones(2, 3, requires_grad=True)
    rows = ad.nn.functional.embedding(i, table, scale_grad_by_freq=True, sparse=True)
    return rows.sum()


def delete(t: Any) -> None:
    del t[0]


@refusals(
    (lambda: s[0], IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()`"),
    (lambda: v[4], IndexError, "index 4 is out of bounds for dimension 0 with size 4"),
    (lambda: m[0, -4], IndexError, "index -4 is out of bounds for dimension 1 with size 3"),
    (lambda: s[:1], IndexError, "slice() cannot be applied to a 0-dim tensor."),
    (lambda: v[::-1], ValueError, "step must be greater than zero"),
    (lambda: v[::0], ValueError, "slice step cannot be zero"),
    (lambda: v["a"], IndexError, "valid indices (got str)"),
    (lambda: v[1.5], IndexError, "valid indices (got float)"),
    (lambda: v[0, 0], IndexError, "too many indices for tensor of dimension 1"),
    (lambda: v[ad.ones(2)], IndexError, "must be long, int, byte or bool tensors, not float32"),
    (lambda: m[i, i, i], IndexError, "too many indices for tensor of dimension 2"),
    (lambda: m[i, ad.tensor([0, 1, 1])], IndexError, "shape mismatch: indexing tensors could not"),
    (lambda: v[far], IndexError, "index 9 is out of bounds for dimension 0 with size 4"),
    (lambda: ad.ones(0)[i], IndexError, "index is out of bounds for dimension with size 0"),
    (lambda: v[m > 1], IndexError, "too many indices for tensor of dimension 1"),
    (lambda: m[flags], IndexError, "The shape of the mask [4] at index 0 does not match"),
    (lambda: put(v, slice(None), ad.ones(3)), RuntimeError, "must match the existing size (3)"),
    (lambda: put(v, i, ad.ones(3)), RuntimeError, "value tensor of shape [3] cannot be broadcast"),
    (lambda: put(v, 0, "a"), TypeError, "can't assign a str to a tensor of dtype float32"),
    (lambda: put(v, 0, 1j), TypeError, "can't assign a complex number to a tensor of dtype float"),
    (lambda: v.index_put((i,), ad.ones(2).double()), RuntimeError, "(fix: convert the source with"),
    (lambda: v.index_put((ad.ones(2),), ad.ones(2)), IndexError, "must be long, int, byte or bool"),
    (lambda: v.index_put((i, i), ad.ones(2)), IndexError, "too many indices for tensor of dimensi"),
    (lambda: delete(v), TypeError, "Tensor does not support deleting items"),
    (lambda: list(s), TypeError, "iteration over a 0-d tensor"),
    (lambda: "a" in v, RuntimeError, "only supports Tensor or scalar, but you passed in a <class"),
    (lambda: len(s), TypeError, "len() of a 0-d tensor"),
)
def test_subscripts(row: Row) -> None:
    check(row)


@refusals(
    (lambda: m.index_select(0, ii), IndexError, "index_select(): Index is supposed to be a vector"),
    (lambda: m.index_select(0, v), RuntimeError, "Expected dtype int32/int64 for index, got float"),
    (lambda: m.index_select(0, far), IndexError, "index 9 is out of bounds for dimension 0 with"),
    (lambda: s.index_select(0, i), RuntimeError, "Index to scalar can have only 1 value, got 2"),
    (lambda: m.index_add(0, ii, m), IndexError, "Index is supposed to be a vector, but got dim: 2"),
    (lambda: m.index_add(0, i, ad.ones(2, 4)), RuntimeError, "excluding the specified dimension"),
    (
        lambda: m.index_add(0, i, ad.ones(3, 3)),
        RuntimeError,
        "Number of indices (2) should be equa",
    ),
    (
        lambda: m.index_add(0, i, m.double()),
        RuntimeError,
        "self (float32) and source (float64) mus",
    ),
    (lambda: m.index_add(0, far, m), RuntimeError, "index 9 is out of bounds"),
    (lambda: m.index_copy(0, i, ad.ones(2, 4)), IndexError, "excluding the specified dimension"),
    (
        lambda: m.index_copy(0, i, ad.ones(3, 3)),
        IndexError,
        "Number of indices (2) should be equal",
    ),
    (lambda: m.index_fill(0, i.int(), 1), IndexError, "Expected dtype int64 for index, got int32"),
    (lambda: m.index_fill(0, i, v), RuntimeError, "but got tensor with 1 dimension(s)."),
    (lambda: m.index_fill(0, i, 1j), RuntimeError, "Converting complex Scalar to non-complex type"),
    (lambda: m.index_fill(0, ii, 1), IndexError, "Index has to be a vector/scalar"),
    (lambda: m.index_fill(0, far, 1), IndexError, "index 9 is out of bounds for dimension 0 with"),
    (
        lambda: m.take(i.int()),
        RuntimeError,
        "take(): Expected a long tensor for index, but got int",
    ),
    (lambda: m.take(far), IndexError, "tried to access index 9 on a tensor of 6 elements."),
    (lambda: m.put(i.int(), v[:2]), RuntimeError, "put_(): Expected a long tensor for index, but"),
    (lambda: m.put(i, v[:2].double()), RuntimeError, "but got self = float32 and source = float64"),
    (lambda: m.put(i, v), IndexError, "same number of elements, but got source.numel() = 4"),
    (lambda: ad.nn.functional.embedding(v, m), RuntimeError, "Long, Int; but got"),
    (lambda: ad.nn.functional.embedding(i, v), RuntimeError, "'weight' must be 2-D, got shape [4]"),
    (
        lambda: scaled_sparse_embedding().backward(),
        RuntimeError,
        "scale_grad_by_freq not supported with sparse gradients",
    ),
)
def test_index_ops(row: Row) -> None:
    check(row)


@refusals(
    (lambda: m.gather(0, i), RuntimeError, "same number of dimensions as input tensor (in gather"),
    (
        lambda: m.gather(1, ad.zeros(3, 1).long()),
        RuntimeError,
        "Size does not match at dimension 0",
    ),
    (
        lambda: m.gather(0, ii * 9),
        RuntimeError,
        "index 9 is out of bounds for dimension 0 with siz",
    ),
    (lambda: m.scatter(0, ii, m[:1]), RuntimeError, "to be no larger size than src [1, 3]"),
    (
        lambda: m.scatter(0, ii, m.double()),
        RuntimeError,
        "Expected self.dtype to be equal to src.d",
    ),
    (lambda: m.scatter(0, ii, m, reduce="max"), RuntimeError, "either add or multiply, got max"),
    (
        lambda: m.scatter_reduce(0, ii, m, "max"),
        RuntimeError,
        "must be one of sum, prod, mean, amax, amin, got max",
    ),
    (
        lambda: m.scatter_reduce(0, ii, m.double(), "sum"),
        RuntimeError,
        "scatter_reduce(): Expected self.dtype to be equal to src.dtype, got float32 and float64",
    ),
    (
        lambda: z.scatter_reduce(0, i, z, "amax"),
        RuntimeError,
        "scatter_reduce(): amax is not defined for complex tensors",
    ),
    (
        lambda: m.index_reduce(0, i, m, "sum"),
        RuntimeError,
        "to be one of prod, mean, amax or amin but got sum.",
    ),
    (lambda: m.index_reduce(0, ii, m, "prod"), IndexError, "be a vector, but got dim: 2"),
    (lambda: m.index_reduce(0, v, m, "prod"), RuntimeError, "int32/int64 for index, got float32"),
    (lambda: m.index_reduce(0, i, m.double(), "prod"), RuntimeError, "source (float64) must have"),
    (
        lambda: m.index_reduce(0, i, ad.ones(2, 4), "prod"),
        RuntimeError,
        "the shape [2, 4] of source must be that of self [2, 3]",
    ),
    (lambda: ad.take_along_dim(m, ii.int(), 0), RuntimeError, "should be Long but got int32"),
    (
        lambda: ad.take_along_dim(m, i, 0),
        RuntimeError,
        "input and indices should have the same num",
    ),
)
def test_gathering(row: Row) -> None:
    check(row)


@refusals(
    (lambda: v.masked_fill(v, 0), RuntimeError, "only supports boolean masks, but got mask with d"),
    (lambda: v.masked_fill(flags, v), RuntimeError, "but got tensor with 1 dimension(s)."),
    (lambda: v.masked_fill(flags, 1j), RuntimeError, "cannot be converted to type float32 without"),
    (lambda: v.masked_select(v), RuntimeError, "expected BoolTensor for mask, got float32"),
    (lambda: v.masked_scatter(flags, v.double()), RuntimeError, "but got float32 and float64"),
    (lambda: v.masked_scatter(flags, v[:1]), RuntimeError, "number of ones in mask: 1 < 2"),
    (lambda: v.masked_scatter(v, v), RuntimeError, "only supports boolean masks, but got mask"),
)
def test_masks(row: Row) -> None:
    check(row)


@refusals(
    (lambda: z.sort(), RuntimeError, "complex numbers have no order (got complex64)"),
    (lambda: flags.topk(1), NotImplementedError, "not implemented for 'bool'"),
    (lambda: v.topk(5), RuntimeError, "selected index k out of range: k is 5, the axis has 4"),
    (lambda: v.kthvalue(0), RuntimeError, "for dimension 0: k is 0, the axis has 4"),
    (lambda: ad.searchsorted(v, v, side="up"), RuntimeError, "'left' or 'right' but got up"),
    (
        lambda: ad.searchsorted(v, v, side="left", right=True),
        RuntimeError,
        "got side of left while right was True",
    ),
    (lambda: ad.searchsorted(s, v), RuntimeError, "sorted sequence must have at least one axis"),
    (lambda: ad.searchsorted(m, v), RuntimeError, "dimensions of boundaries tensor and input valu"),
    (
        lambda: ad.searchsorted(v, v, sorter=i),
        RuntimeError,
        "sorter and boundaries must have the same shape, but got [2] and [4]",
    ),
    (
        lambda: ad.searchsorted(v[:2], v, sorter=far),
        RuntimeError,
        "sorter index 9 is out of range",
    ),
    (
        lambda: ad.searchsorted(v, v.double()),
        RuntimeError,
        "got boundary tensor dtype float32 and input value tensor dtype float64",
    ),
    (lambda: ad.bucketize(v, m), RuntimeError, "must be 1 dimension, but got dim(2)"),
    (lambda: z.unique(), RuntimeError, "complex numbers have no order"),
    (
        lambda: ad.ones(0, 3).unique(dim=1),
        RuntimeError,
        "There are 0 sized dimensions, and they aren't selected",
    ),
    (lambda: ad.tril_indices(-1, 2), RuntimeError, "row must be non-negative, got -1"),
    (lambda: ad.triu_indices(1, -2), RuntimeError, "col must be non-negative, got -2"),
    (lambda: ad.tril_indices(2**62, 2**62), RuntimeError, "has too many cells to list"),
    (lambda: v.bincount(), NotImplementedError, "\"bincount_cpu\" not implemented for 'float32'"),
    (lambda: i.bincount(minlength=-1), RuntimeError, "minlength should be >= 0, got -1"),
    (lambda: ii.bincount(), RuntimeError, "1-d non-negative integral inputs. (shape [2, 3])"),
    (lambda: i.bincount(weights=v), RuntimeError, "same length as input: [4] and [2]"),
    (lambda: (-i).bincount(), RuntimeError, "1-d non-negative integral inputs. (got -1)"),
    (lambda: ad.tensor([2**63 - 1]).bincount(), RuntimeError, "9223372036854775807 needs too many"),
    (lambda: v.histc(0), RuntimeError, "bins must be > 0, got 0"),
    (lambda: i.histc(2), RuntimeError, "\"histogram_cpu\" not implemented for 'int64'"),
    (lambda: (v / 0).histc(2), RuntimeError, "is not finite"),
    (lambda: v.histc(2, min=3, max=1), RuntimeError, "max must be larger than min, got 3 and 1"),
    (lambda: ad.isin(z, z), RuntimeError, "Unsupported input type encountered for isin(): complex"),
    (lambda: ad.isin(1, 2), TypeError, "isin()"),
    (lambda: ad.unravel_index(v, (2, 2)), TypeError, "to be integer dtype, but got float32"),
    (lambda: ad.unravel_index(i, (-2, 2)), ValueError, "cannot have negative values, but got"),
    (
        lambda: ad.unravel_index(far, (2, 2)),
        ValueError,
        "index 9 is out of bounds for a shape [2, ",
    ),
)
def test_sorting_and_counting(row: Row) -> None:
    check(row)


CHANGES: list[Callable[[Any], Any]] = [
    lambda t: t.index_add_(0, far, m),
    lambda t: t.index_copy_(0, far, m),
    lambda t: t.index_fill_(0, far, 7),
    lambda t: t.index_put_((far,), ad.ones(2, 3)),
    lambda t: t.put_(far, v[:2]),
    lambda t: t.scatter_(0, ii * 9, m),
    lambda t: t.scatter_add_(0, ii * 9, m),
    lambda t: t.scatter_reduce_(0, ii * 9, m, "sum"),
    lambda t: t.index_reduce_(0, far, m, "prod"),
    lambda t: t.masked_scatter_(t > 0, v[:1]),
    lambda t: put(t, far, 7),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_refused_change_changes_nothing(change: Callable[[Any], Any]) -> None:
    """The first index is fine, the second is not: neither may have been written."""
    t = m.clone()
    with pytest.raises((IndexError, RuntimeError)):
        change(t)
    assert (t == m).all() and t._version == 0
