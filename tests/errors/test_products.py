"""Messages of products, contractions, distances and differences."""

from __future__ import annotations

import adjoint as ad
from tests.errors.table import Row, check, refusals

m = ad.ones(2, 3)
b = ad.ones(2, 3, 4)
v = ad.ones(4)
s = ad.tensor(1.0)
i = ad.arange(4)
linear = ad.nn.functional.linear


@refusals(
    (lambda: ad.mm(m, m.t().double()), RuntimeError, "same dtype, but got: float32 != float64"),
    (lambda: ad.mm(m > 0, m.t() > 0), NotImplementedError, '"mm" not implemented for dtype bool'),
    (lambda: ad.mm(v, m), RuntimeError, "must be a 2-D tensor, but it has shape [4]"),
    (lambda: ad.mm(m, m), RuntimeError, "shapes cannot be multiplied (2x3 and 2x3)"),
    (lambda: b @ ad.ones(5), RuntimeError, "matmul: shapes cannot be multiplied ([2, 3, 4] and [5"),
    (lambda: b @ m, RuntimeError, "matmul: shapes cannot be multiplied ([2, 3, 4] and [2, 3])"),
    (lambda: ad.bmm(b, b), RuntimeError, "batch2 tensor to be: [2, 4] but got: [2, 3]."),
    (lambda: ad.mv(m, m), RuntimeError, "a matrix and a vector expected, but got 2-D and 2-D"),
    (lambda: ad.mv(m, v), RuntimeError, "got input (2), mat (2x3), vec (4)"),
    (lambda: ad.addmm(v, m, m.t()), RuntimeError, "(shapes [4] and [2, 2])"),
    (lambda: ad.addmm(b[:1, :2, :2], m, m.t()), RuntimeError, "does not broadcast to [2, 2]"),
    (lambda: s @ v, RuntimeError, "need to be at least 1D, but they are 0D and 1D"),
    (lambda: ad.dot(m, v), RuntimeError, "1D tensors expected, but got 2D and 1D tensors"),
    (lambda: ad.dot(v, v[:2]), RuntimeError, "but got 4 and 2 elements respectively"),
    (lambda: ad.outer(m, v), RuntimeError, "outer: Expected 1-D arguments, but got 2-D and 1-D"),
    (lambda: ad.addr(m, v, m), RuntimeError, "vec1 and vec2, but got 1-D and 2-D"),
    (lambda: linear(v, m), RuntimeError, "shapes cannot be multiplied"),
    (lambda: linear(b, m), RuntimeError, "shapes cannot be multiplied (6x4 and 3x2)"),
    (lambda: linear(v, b), RuntimeError, "must have 1 or 2 dimensions, but its shape is [2, 3, 4]"),
    (lambda: linear(s, m), RuntimeError, "at least 1D, but they are 0D and 2D"),
    (
        lambda: ad.empty(2**31, 0) @ ad.empty(0, 1),
        ValueError,
        "matrix product of [2147483648, 0]",
    ),
)
def test_products(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.tensordot(m, m, ([0], [0, 1])), RuntimeError, "should have same length, but got"),
    (lambda: ad.tensordot(m, m.double(), 1), RuntimeError, "but got float32 and float64"),
    (
        lambda: ad.tensordot(m, m, ([0, 0], [0, 1])),
        RuntimeError,
        "appears more than once in [0, 0]",
    ),
    (
        lambda: ad.tensordot(m, m, 1),
        RuntimeError,
        "first has size 3 in dim 1 and second has size 2",
    ),
    (
        lambda: ad.inner(m, v),
        RuntimeError,
        "must match on both input tensors but got shapes [2, 3]",
    ),
    (lambda: ad.cross(m, v, dim=0), RuntimeError, "number of dimensions, but have 2 and 1"),
    (lambda: ad.cross(v, v), RuntimeError, "no dimension of size 3 in input of shape [4]"),
    (
        lambda: ad.cross(m, m, dim=0),
        RuntimeError,
        "dimension 0 must have length 3. Got shapes [2, 3] and [2, 3]",
    ),
    (
        lambda: ad.linalg.cross(ad.ones(2, 3), ad.ones(2, 1)),
        RuntimeError,
        "dimension -1 must have length 3. Got shapes [2, 3] and [2, 1]",
    ),
    (lambda: ad.einsum("......->", m), RuntimeError, "in which an ellipsis was already found"),
    (lambda: ad.einsum("i.->i", m), RuntimeError, "'i.->i' that is not part of any ellipsis"),
    (
        lambda: ad.einsum("ij->ii", m),
        RuntimeError,
        "subscript i appears more than once in the outp",
    ),
    (lambda: ad.einsum("i1->i", m), RuntimeError, "at index 1 in the equation string 'i1->i'"),
    (lambda: ad.einsum("ijk", m), RuntimeError, "(3) does not match the number of dimensions (2)"),
    (lambda: ad.einsum("...ijk", m), RuntimeError, "(3) is more than the number of dimensions (2)"),
    (
        lambda: ad.einsum("ii", m),
        RuntimeError,
        "subscript i is repeated for operand 0 but the size",
    ),
    (
        lambda: ad.einsum("ij,jk", m, m),
        RuntimeError,
        "does not broadcast with previously seen size",
    ),
    (lambda: ad.einsum("ij"), ValueError, "must specify the equation string and at least one"),
    (lambda: ad.einsum("ij", m, m), RuntimeError, "more operands were provided (2) than specified"),
    (lambda: ad.einsum("ij,j", m), RuntimeError, "fewer operands were provided (1) than specified"),
    (
        lambda: ad.einsum("ij->k", m),
        RuntimeError,
        "output subscript k does not appear in the equat",
    ),
)
def test_contractions(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.cdist(m.int(), m.int()), RuntimeError, "floating-point dtypes, got int32"),
    (lambda: ad.cdist(m.half(), m.half()), NotImplementedError, "not implemented for 'float16'"),
    (lambda: ad.cdist(v, m), RuntimeError, "at least 2D tensors, got: 1D"),
    (lambda: ad.cdist(m, ad.ones(2, 4)), RuntimeError, "number of columns. X1: 3 X2: 4"),
    (lambda: ad.cdist(m, m.double()), RuntimeError, "one dtype, got float32 and float64"),
    (lambda: ad.cdist(m, m, p=-1), RuntimeError, "only supports non-negative p values, got -1"),
    (lambda: ad.cdist(m, m, compute_mode="fast"), ValueError, "fast is not a valid value for comp"),
    (lambda: ad.cov(b), RuntimeError, "an input with 3 dimensions"),
    (lambda: ad.cov(m > 0), RuntimeError, "bool dtype is not supported for input"),
    (lambda: ad.cov(m, fweights=i.view(2, 2)), RuntimeError, "one or fewer dimensions, got 2"),
    (lambda: ad.cov(m, fweights=v), RuntimeError, "integral dtype but got fweights with float32"),
    (
        lambda: ad.cov(m, aweights=i),
        RuntimeError,
        "floating point dtype but got aweights with int64",
    ),
    (lambda: ad.cov(m, fweights=i), RuntimeError, "but got 4 != 3"),
    (lambda: ad.cov(m, fweights=i[:3] - 1), RuntimeError, "fweights cannot be negative"),
    (lambda: ad.cov(m, aweights=-v[:3]), RuntimeError, "aweights cannot be negative"),
    (lambda: ad.corrcoef(b), RuntimeError, "an input with 3 dimensions"),
    (lambda: ad.renorm(v, 2, 0, 1), RuntimeError, "needs at least 2 dimensions, got 1 dimensions"),
    (lambda: ad.renorm(m, 0, 0, 1), RuntimeError, "non-positive-norm not supported, got p=0"),
    (lambda: ad.renorm(m, 2, 0, -1), RuntimeError, "expected maxnorm to be >= 0 but got -1"),
    (lambda: ad.vander(m), RuntimeError, "must be a one-dimensional tensor, got shape [2, 3]"),
    (lambda: ad.vander(v, -1), RuntimeError, "N must be non-negative, got -1"),
    (lambda: ad.diff(s), RuntimeError, "expects input to be at least one-dimensional"),
    (lambda: ad.diff(v, -1), RuntimeError, "order must be non-negative but got -1"),
    (lambda: ad.diff(v, prepend=m), RuntimeError, "same dimension as input, got 2 and 1"),
    (lambda: ad.trapezoid(v, v > 0), RuntimeError, "received a bool input for `x` or `y`"),
    (lambda: ad.trapezoid(v > 0), RuntimeError, "received a bool input for `y`"),
    (lambda: ad.trapezoid(v, s), IndexError, "points and values need at least one dimension"),
    (lambda: ad.trapezoid(m, v), RuntimeError, "for each sample point, got 4 and 3"),
    (lambda: ad.combinations(m), RuntimeError, "Expect a 1D vector, but got shape [2, 3]"),
    (lambda: ad.combinations(v, -1), RuntimeError, "Expect a non-negative number, but got -1"),
)
def test_distances_and_differences(row: Row) -> None:
    check(row)
