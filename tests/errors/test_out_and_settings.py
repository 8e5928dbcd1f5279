"""Messages of `out=` and other memory to write into, of settings, of nodes that are called, and of
rare shapes.
"""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import forward_ad
from tests.errors.table import Row, check, refusals

f = ad.arange(4.0)
m = ad.ones(2, 3)
s = ad.tensor(1.0)
i = ad.tensor([[0, 1, 1], [1, 0, 0]])
z = ad.ones(2, dtype=ad.complex64)
F = ad.nn.functional


def leaf(*shape: int) -> Any:
    return ad.ones(*shape, requires_grad=True)


def node() -> Any:
    return (leaf(2) * 2).grad_fn


def dual(f: Any) -> Any:
    """Call f with ones that require grad and have a tangent."""
    with forward_ad.dual_level():
        return f(forward_ad.make_dual(leaf(4), ad.ones(4)))


def change_an_index() -> None:
    rows, columns = ad.tensor([0, 1]), ad.tensor([1, 0])
    y = leaf(3, 3)[rows, columns]
    columns.add_(1)
    y.sum().backward()


def change_an_index_used_twice() -> None:
    diagonal = ad.tensor([0, 1])
    y = leaf(3, 3)[diagonal, diagonal]
    diagonal.add_(1)
    y.sum().backward()


def lose(t: Any, name: str) -> None:
    delattr(t, name)


def give(t: Any, name: str, value: Any) -> None:
    setattr(t, name, value)


@refusals(
    (lambda: ad.add(f, f, out=3), TypeError, "argument 'out' must be Tensor, not int"),
    (
        lambda: ad.max(m, 0, out=(m.clone(),)),
        TypeError,
        "argument 'out' has 1 tensors, which is not",
    ),
    (
        lambda: ad.cat([f[:2], f[2:]], out=f),
        RuntimeError,
        "some elements of the input tensor and the written-to tensor refer to a single memory",
    ),
    (lambda: ad.sum(leaf(2), out=ad.empty(())), RuntimeError, "support automatic differentiation"),
    (
        lambda: ad.neg(f, out=ad.empty(4).double()),
        RuntimeError,
        "Found dtype float64 but expected float32: neg() writes only into a tensor of its input's",
    ),
    (lambda: f.clone().copy_(ad.ones(3)), RuntimeError, "[3]"),
    (
        lambda: f.clone().copy_(ad.ones(2, 4)),
        RuntimeError,
        "The expanded size of the tensor [4] must match the existing size [2, 4]",
    ),
    (
        lambda: f.clone().addmm_(m, ad.ones(3, 4)),
        RuntimeError,
        "output with shape [4] doesn't match the broadcast shape [2, 4]",
    ),
    (
        lambda: f.clone().masked_scatter_(ad.ones(3).bool(), f),
        RuntimeError,
        "The expanded size of the tensor (4) must match the existing size (3) at non-singleton",
    ),
    (
        lambda: f.long().mul_(leaf(4)),
        RuntimeError,
        "mul_: a result that requires grad can't be written into a tensor of dtype int64",
    ),
    (
        lambda: dual(lambda x: f.long().mul_(x)),
        RuntimeError,
        "mul_: a result that requires grad can't be written into a tensor of dtype int64",
    ),
    (
        lambda: (leaf(4) * 1).view(ad.float64).mul_(leaf(2).double()),
        RuntimeError,
        "a float64 view of a float32 tensor is being modified inplace while gradients are recor",
    ),
    (
        lambda: f.clone().fill_(ad.ones(2)),
        RuntimeError,
        "0-dimension value tensor but got tensor w",
    ),
    (lambda: ad.full((2,), 1e300, dtype=ad.int64), RuntimeError, "int64 without overflow: 1e+300"),
    (lambda: f.char().fill_(1e300), RuntimeError, "to type int8 without overflow: 1e+300"),
    (lambda: f.char().fill_(1j), RuntimeError, "converted to type int8 without overflow: "),
    (
        lambda: f.clone().masked_scatter_(ad.ones(1, 4).bool(), f),
        RuntimeError,
        "(1) must be greater or equal to the number of dimensions in the tensor (2)",
    ),
    (lambda: give(z, "real", "a"), TypeError, "expected a tensor or a number"),
    (lambda: lose(z, "real"), TypeError, "this attribute cannot be deleted"),
)
def test_memory_to_write_into(row: Row) -> None:
    check(row)


@refusals(
    (lambda: z.rad2deg(), RuntimeError, "rad2deg is not supported for complex tensors."),
    (
        lambda: ad.zeros(2, dtype=ad.int64, requires_grad=True),
        RuntimeError,
        "but the dtype is int64",
    ),
    (lambda: s.diag_embed(), RuntimeError, "expects at least one axis, got a 0-d tensor"),
    (lambda: m.repeat(-1, 1), RuntimeError, "negative dimension -1"),
    (lambda: f.repeat_interleave(ad.tensor([1, 2])), RuntimeError, "repeats"),
    (lambda: f.repeat_interleave(ad.full((4,), -1)), RuntimeError, "repeats can not be negative"),
    (lambda: ad.block_diag(ad.ones(1, 1, 1)), RuntimeError, "2 or fewer dimensions. Got "),
    (lambda: ad.ones(1, 2, 3).H, RuntimeError, "(2-D tensors). Got 3-D tensor."),
    (lambda: s.slice_scatter(s), RuntimeError, "slice() cannot be applied to a 0-dim tensor."),
    (lambda: m.slice_scatter(m, 0, 0, 2, 0), RuntimeError, "slice step must be positive, got 0"),
    (
        lambda: f.narrow(0, 9, 1),
        IndexError,
        "start out of range (expected to be in range of [-4, 4]",
    ),
    (lambda: F.nll_loss(ad.ones(3), ad.tensor([0, 1])), RuntimeError, "size mismatch (got input:"),
)
def test_rare_shapes(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.set_default_dtype(3), TypeError, "invalid dtype object: only floating-point types"),
    (lambda: ad.set_default_dtype(ad.int64), TypeError, "as the default type, not int64"),
    (lambda: ad.set_num_threads("a"), RuntimeError, "expects an int, but got str"),
    (lambda: ad.is_inference(3), TypeError, "argument 'input' must be Tensor, not int"),
    (lambda: ad.autograd.graph.increment_version([3]), TypeError, "expects a Tensor, got int"),  # type: ignore[arg-type]
    (lambda: node()(s, s), TypeError, "expected 1 arguments, got 2"),
    (lambda: node()(3), TypeError, "gradients are Tensors or None, got int"),
    (lambda: node()(x=s), TypeError, "takes no keyword arguments"),
    (
        lambda: node()(ad.ones(3)),
        RuntimeError,
        "Function backward returned an invalid gradient at index 0 - got [3] but expected shape "
        "compatible with [2]",
    ),
    (change_an_index_used_twice, RuntimeError, "(int64 [2], version 0)"),
    (change_an_index, RuntimeError, "a value needed for the gradient of `index` was changed in p"),
    (
        lambda: dual(lambda x: x.scatter(0, i[0], x, reduce="add")),
        NotImplementedError,
        "Trying to use forward AD with scatter.reduce that does not support it",
    ),
    (lambda: ad.dropout(f, 2.0, True), RuntimeError, "has to be between 0 and 1, but got 2"),
    (
        lambda: ad.poisson(f.long()),
        NotImplementedError,
        "\"poisson_cpu\" not implemented for 'int64'",
    ),
    (
        lambda: ad.binomial(f, f.double()),
        RuntimeError,
        "count and prob of one dtype, but found float32 and float64",
    ),
    (
        lambda: ad.func.grad(
            lambda a: ad.func.grad(lambda b: ad._standard_gamma(b).sum())(a).sum()
        )(ad.ones(2)),
        NotImplementedError,
        "the second derivative of a gamma or Dirichlet sample by its parameter",
    ),
    (
        lambda: ad._standard_gamma_grad(f.long(), f.long()),
        NotImplementedError,
        "\"_standard_gamma_grad\" not implemented for 'int64'",
    ),
    (
        lambda: leaf(2, 3).scatter(0, i, m, reduce="add").sum().backward(),
        RuntimeError,
        "use scatter_add for sums and scatter_reduce for the rest",
    ),
)
def test_settings_and_nodes(row: Row) -> None:
    check(row)


def test_what_is_lost_is_said() -> None:
    with pytest.warns(UserWarning, match=r"discards the imaginary part"):
        z.to(ad.float32)
    with pytest.warns(UserWarning, match=r"uint8"):
        f[ad.ones(4).byte()]
