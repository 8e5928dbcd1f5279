"""Messages of what is written in Python around tensors: making, exporting, saving, comparing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad
from tests.errors.table import Row, check, refusals

f = ad.arange(4.0)
m = ad.ones(2, 3)
grad = ad.ones(2, requires_grad=True)
i = ad.arange(4)


class Odd:
    """Looks like a sequence, and holds itself."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Any:
        return self


@refusals(
    (lambda: ad.tensor("ab"), TypeError, "new(): invalid data type 'str'"),
    (lambda: ad.tensor(["ab"]), ValueError, "too many dimensions 'str'"),
    (lambda: ad.tensor(b"ab"), TypeError, "new(): invalid data type 'bytes'"),
    (lambda: ad.tensor({}), RuntimeError, "Could not infer dtype of dict"),
    (lambda: ad.tensor(Odd()), ValueError, "a sequence that contains itself"),
    (lambda: ad.tensor(np.ones(2)[::-1]), ValueError, "array.copy()"),
    (lambda: ad.tensor(np.array(["a"])), TypeError, "can't convert np.ndarray of type"),
    (lambda: ad.tensor(np.ones(2, np.longdouble)), TypeError, "can't convert np.ndarray of type"),
    (lambda: ad.tensor(1, pin_memory=True), RuntimeError, "leave pin_memory out"),
    (lambda: ad.asarray([1, 2], copy=False), ValueError, "can't alias arbitrary sequence"),
    (
        lambda: ad.asarray(f, dtype=ad.int64, copy=False),
        ValueError,
        "can't alias tensor with dtype 'torch.float32' into dtype 'torch.int64'.",
    ),
    (lambda: ad.from_numpy([1]), TypeError, "expected np.ndarray (got list)"),
    (lambda: ad.meshgrid(f, indexing="up"), RuntimeError, "but received: up"),
    (lambda: ad.meshgrid(indexing="ij"), RuntimeError, "meshgrid expects a non-empty TensorList"),
    (lambda: ad.meshgrid(m, indexing="ij"), RuntimeError, "but got shape [2, 3]"),
    (lambda: ad.meshgrid(f, i, indexing="ij"), RuntimeError, "all tensors to have the same dtype"),
    (lambda: ad.cartesian_prod(m), RuntimeError, "Expect a 1D vector, but got shape [2, 3]"),
    (lambda: ad.einsum(3, f), TypeError, "not int"),
    (lambda: ad.einsum(f, [0], 3, [1]), TypeError, "but the first is Tensor"),
    (lambda: ad.einsum(f, 3), TypeError, "a list of subscripts after each operand, but got int"),
    (lambda: ad.einsum(f, [60]), ValueError, "subscript 60 is not within [0, 52)"),
    (lambda: ad.tensordot(m, m, -1), RuntimeError, "dims >= 0, but got dims=-1"),
    (lambda: ad.tensordot(m, m, 3), RuntimeError, "dims < ndim_a + 1, but got dims=3"),
    (lambda: ad.device(3.5), TypeError, "must be str, not float; adjoint has one device, 'cpu'"),
    (lambda: ad.device("tpu"), RuntimeError, "tpu"),
    (
        lambda: ad.broadcast_shapes((2,), (3,)),
        RuntimeError,
        "cannot be broadcast to a single shape",
    ),
    (lambda: ad.broadcast_shapes((-2,)), RuntimeError, "the length -2 in"),
    (lambda: ad.finfo(3), TypeError, "must be torch.dtype, not int"),
    (lambda: ad.finfo(ad.int8), TypeError, "Use torch.iinfo for integer types"),
    (lambda: ad.iinfo(ad.float32), TypeError, "Use torch.finfo for floating point types"),
    (lambda: ad.iinfo(ad.bool), TypeError, "torch.bool is not supported by torch.iinfo"),
    (
        lambda: setattr(ad.finfo(ad.float32), "eps", 1),
        AttributeError,
        "'eps' of 'finfo' is not writ",
    ),
    (lambda: ad.set_printoptions(profile="tiny"), ValueError, "unknown profile 'tiny'; use one of"),
    (lambda: ad.set_printoptions(precision=-1), ValueError, "must not be negative, got -1"),
    (lambda: ad.cuda.current_device(), AssertionError, "torch.cuda.is_available() is False"),
    (lambda: ad.cuda.synchronize(), AssertionError, "torch.cuda.is_available() is False"),
    (lambda: ad.graph(grad * 2)[ad.graph(grad * 3).nodes[0]], KeyError, "is not in this graph"),
    (lambda: ad.testing.make_tensor(2, dtype="f4", device="cpu"), TypeError, "dtype 'f4' is not"),
    (lambda: ad.graph([]), ValueError, "no outputs were given"),
    (lambda: ad.graph(3), TypeError, "expected a Tensor or a node, got int"),
    (lambda: ad.graph(f), ValueError, "explain_grad(y, x) says where"),
    (lambda: ad.set_default_tensor_type("nothing"), TypeError, "nothing"),
    (lambda: ad.set_default_tensor_type(3), TypeError, "invalid type object"),
    (lambda: ad.FloatTensor("ab"), TypeError, "new(): invalid data type 'str'"),
    (lambda: ad.FloatTensor(object()), TypeError, "data must be a sequence (got object)"),
    (lambda: ad.FloatTensor(i), TypeError, "use tensor.to(torch.float32)"),
)
def test_making_and_asking(row: Row) -> None:
    check(row)


@refusals(
    (lambda: grad.numpy(), RuntimeError, "Use tensor.detach().numpy() instead."),
    (lambda: f.bfloat16().numpy(), TypeError, "use tensor.float().numpy()"),
    (lambda: f.__array__(np.int64, copy=False), ValueError, "a copy is needed to convert"),
    (lambda: f.__dlpack__(dl_device=(2, 0)), BufferError, "cannot export to device (2, 0)"),
    (lambda: format(f, ".2f"), TypeError, "unsupported format string passed to Tensor.__format__"),
    (lambda: f.set_(i), RuntimeError, "torch.int64 to a tensor of type torch.float32"),
    (lambda: grad.set_(f), RuntimeError, "fix: wrap the change in `with no_grad():`"),
    (lambda: f.pin_memory(), RuntimeError, "accelerator device when none is available"),
    (lambda: grad.apply_(abs), RuntimeError, "apply_() can't be called on a tensor that requires"),
    (
        lambda: grad.map_(grad, max),
        RuntimeError,
        "map_() can't be called on a tensor that requires",
    ),
    (lambda: grad.resize_(3), RuntimeError, "use detach(), or reshape()"),
    (lambda: f.clone().resize_(-1), RuntimeError, "negative dimension -1"),
    (lambda: f.clone().resize_("a"), TypeError, "must be a tuple of ints"),
    (lambda: f.clone().fill_diagonal_(1), RuntimeError, "larger than 1, but the shape is [4]"),
    (
        lambda: ad.ones(2, 3, 4).fill_diagonal_(1),
        RuntimeError,
        "of equal length, but the shape is [2, 3, 4]",
    ),
    (lambda: grad.register_hook(3), TypeError, "a hook must be callable, got int"),
)
def test_exchanging(row: Row) -> None:
    check(row)


@refusals(
    (lambda: ad.testing.assert_close(1, None), AssertionError, "None mismatch: 1 is not None"),
    (
        lambda: ad.testing.assert_close(True, False),
        AssertionError,
        "Booleans mismatch: True is not",
    ),
    (lambda: ad.testing.assert_close([1], [1, 2]), AssertionError, "sequences mismatch: 1 != 2"),
    (
        lambda: ad.testing.assert_close({"a": 1}, {}),
        AssertionError,
        "keys of the mappings do not m",
    ),
    (lambda: ad.testing.assert_close(f, i), AssertionError, "'dtype' do not match"),
    (lambda: ad.testing.assert_close(f, f, rtol=1), ValueError, "but got no atol."),
    (lambda: ad.testing.assert_close(object(), 1), TypeError, "to handle inputs of type"),
    (
        lambda: ad.testing.make_tensor(2, dtype=ad.int8, requires_grad=True, device="cpu"),
        ValueError,
        "but got dtype=torch.int8",
    ),
    (
        lambda: ad.testing.make_tensor(2, dtype=ad.float32, device="cpu", low=2, high=1),
        ValueError,
        "but got 2 >= 1",
    ),
)
def test_comparing(row: Row) -> None:
    check(row)


def test_warnings_say_what_to_do_instead() -> None:
    with pytest.warns(UserWarning, match="required to pass the indexing argument"):
        ad.meshgrid(f)
    with pytest.warns(UserWarning, match=r"use sourceTensor\.detach\(\)\.clone\(\)"):
        ad.tensor(f)
    with pytest.warns(UserWarning, match="Change the call to include dim=X"):
        ad.nn.functional.softmax(f)
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        ad.nn.init.kaiming_uniform_(ad.empty(0, 2))
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        ad.nn.init.kaiming_normal_(ad.empty(0, 2))
    with pytest.warns(UserWarning, match="group with duplicate parameters"):
        ad.optim.SGD([grad, grad], lr=0.1)
