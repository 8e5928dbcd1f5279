"""``autograd.grad`` and ``autograd.backward``: arguments, batches, unused inputs, errors."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import backward, grad


def leaf(*values: float) -> Any:
    return ad.tensor(values if len(values) != 1 else values[0], requires_grad=True)


def test_gradients_of_several_outputs_are_added() -> None:
    x = leaf(1.0, 2.0)
    (g,) = grad([x * 2, (x * x).sum()], [x], [ad.tensor([1.0, 10.0]), None])
    assert g.tolist() == [2 + 2, 20 + 4]


def test_one_input_may_be_asked_for_twice() -> None:
    x = leaf(3.0)
    a, b = grad(x * x, [x, x])
    assert a.item() == b.item() == 6.0


def test_inputs_may_be_a_dict() -> None:
    x, w = leaf(3.0), leaf(4.0)
    got = grad(x * w, {"x": x, "w": w})
    assert isinstance(got, dict)
    assert {k: v.item() for k, v in got.items()} == {"x": 4.0, "w": 3.0}


def test_an_input_on_the_way_to_another() -> None:
    x = leaf(3.0)
    y = x * x
    z = y * y
    gy, gx = grad(z, (y, x))
    assert (gy.item(), gx.item()) == (18.0, 108.0)


def test_only_paths_to_the_inputs_run() -> None:
    class Boom(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            raise AssertionError("not asked for")

    x, w = leaf(3.0), leaf(4.0)
    out = x * Boom.apply(w)
    assert grad(out, x, retain_graph=True)[0].item() == 4.0
    with pytest.raises(AssertionError, match="not asked for"):
        grad(out, w)


def test_unused_inputs() -> None:
    x, z = leaf(1.0), ad.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="at index 1 appears to not have been used"):
        grad(x * 2, [x, z])
    assert grad(x * 2, [x, z], allow_unused=True)[1] is None
    zeros = grad(x * 2, [x, z], materialize_grads=True)[1]
    assert zeros.shape == (2, 3) and not zeros.any() and not zeros.requires_grad
    assert grad(x * x, [x, z], materialize_grads=True, create_graph=True)[1].requires_grad
    with pytest.raises(ValueError, match="allow_unused to be True or not passed"):
        grad(x * 2, [x], allow_unused=False, materialize_grads=True)


def test_a_batch_of_gradients_in_one_call() -> None:
    x = leaf(1.0, 2.0, 3.0)
    y = x * x
    (rows,) = grad(y, x, ad.eye(3), is_grads_batched=True, retain_graph=True)
    assert rows.tolist() == ad.diag(2 * x.detach()).tolist()
    z = leaf(1.0)
    got = grad(y, (x, z), ad.eye(3), is_grads_batched=True, allow_unused=True, retain_graph=True)
    assert got[1] is None
    (none,) = grad(y, x, ad.zeros(0, 3), is_grads_batched=True, retain_graph=True)
    assert none.shape == (0, 3)
    (second,) = grad(y, x, ad.eye(3), is_grads_batched=True, create_graph=True)
    assert grad(second.sum(), x)[0].tolist() == [2.0] * 3


def test_a_batch_is_checked() -> None:
    x = leaf(1.0, 2.0, 3.0)
    with pytest.raises(RuntimeError, match="first dimension of each grad_output as the batch"):
        grad(x * 2, x, ad.ones(2, 4), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="one batch size"):
        grad([x * 2, x * 3], x, [ad.ones(2, 3), ad.ones(4, 3)], is_grads_batched=True)
    with pytest.raises(RuntimeError, match="one batch size"):
        grad((x * 2).sum(), x, is_grads_batched=True)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: backward(3), TypeError, "tensors must be a Tensor"),
        (lambda x: backward([3]), TypeError, "expected a Tensor or a GradientEdge, got int"),
        (lambda x: backward([x.sum()], [1]), TypeError, "either Tensors or None, but got int"),
        (lambda x: backward(x * 2), RuntimeError, "only for scalar outputs"),
        (lambda x: backward(x * 2, ad.ones(3)), RuntimeError, "Mismatch in shape"),
        (lambda x: backward([x, x], [ad.ones(2)]), RuntimeError, "2 tensors and 1 gradients"),
        (lambda x: backward(x.sum(), inputs=[]), RuntimeError, "`inputs` argument to `backward"),
        (lambda x: backward(ad.ones(())), RuntimeError, "element 0 of tensors does not require"),
        (lambda x: backward(x.sum(), None, False, False, ad.ones(())), RuntimeError, "deprecated"),
        (lambda x: grad(x.sum(), []), RuntimeError, "`inputs` argument to `grad"),
        (lambda x: grad(x.sum(), ad.ones(2)), RuntimeError, "does not require grad"),
        (lambda x: grad(x.sum(), 3), TypeError, "inputs must be a Tensor"),
        (lambda x: grad(x.sum() * 1j, x), RuntimeError, "real scalar outputs but got"),
        (lambda x: grad(x.sum(), x, ad.tensor(1j)), RuntimeError, "same dtype"),
        (lambda x: x.backward(3), TypeError, "either Tensors or None"),
    ],
)
def test_bad_calls(call: Any, error: type[Exception], words: str) -> None:
    x = leaf(1.0, 2.0)
    if "deprecated" in words:
        backward(x.sum(), grad_variables=ad.ones(()))
        assert x.grad.tolist() == [1.0, 1.0]
        with pytest.raises(error, match=words):
            backward(x.sum(), ad.ones(()), grad_variables=ad.ones(()))
        return
    with pytest.raises(error, match=words):
        call(x)
    assert x.grad is None


def test_a_gradient_of_another_float_dtype_is_cast() -> None:
    x = leaf(1.0, 2.0)
    (g,) = grad(x * 2, x, ad.ones(2, dtype=ad.float64))
    assert g.dtype is ad.float32 and g.tolist() == [2.0, 2.0]


def test_a_function_that_returns_nothing_ends_the_path() -> None:
    class Silent(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return None

    seen: list[float] = []

    class Counts(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            seen.append(g.item())
            return g

    x = leaf(2.0)
    Silent.apply(x.exp()).backward()
    assert x.grad is None
    Silent.apply(Counts.apply(x)).backward()
    assert seen == [0.0] and x.grad.item() == 0.0  # zeros are made for it, as in PyTorch


def test_a_graph_is_freed_only_when_it_may_be() -> None:
    x = leaf(2.0)
    y = x.exp()
    grad(y, x, retain_graph=True)
    grad(y, x, create_graph=True)
    grad(y, x)
    with pytest.raises(RuntimeError, match="second time"):
        grad(y, x)
