"""What ends up in ``.grad``: whose memory, which layout; and what may be put there by hand."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import adjoint as ad


def test_the_first_gradient_is_taken_over_if_nobody_else_has_it() -> None:
    x = ad.ones(3, requires_grad=True)
    pointer: list[int] = []
    y = x * 2
    x.register_hook(lambda g: pointer.append(g.data_ptr()))
    y.sum().backward()
    assert x.grad.data_ptr() == pointer[0]


def test_a_gradient_that_others_see_is_copied() -> None:
    x = ad.ones(3, requires_grad=True)
    g = ad.ones(3)
    x.backward(g)
    (x + 0).backward(g)
    x.grad.zero_()
    assert g.tolist() == [1.0] * 3
    kept: list[Any] = []
    y = ad.ones(3, requires_grad=True)
    y.register_hook(kept.append)
    (y * 2).sum().backward()
    y.grad.zero_()
    assert kept[0].tolist() == [2.0] * 3


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_copied_gradient_is_copied_while_recording_too() -> None:
    x = ad.ones(3, requires_grad=True)
    g = ad.ones(3, requires_grad=True)
    (x + 0).backward(g, create_graph=True)
    assert x.grad is not g and x.grad.data_ptr() != g.data_ptr()
    x.grad.sum().backward()
    assert g.grad.tolist() == [1.0] * 3
    x.grad = None


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_gradient_lies_in_memory_as_its_leaf_does(create_graph: bool) -> None:
    transposed = ad.ones(3, 2).t().requires_grad_()
    (transposed * ad.ones(2, 3)).sum().backward(create_graph=create_graph)
    assert transposed.grad.stride() == transposed.stride() == (1, 2)
    gapped = ad.ones(4, 6)[:, ::2].detach().requires_grad_()
    (gapped * 2).sum().backward(create_graph=create_graph)
    assert gapped.grad.is_contiguous()
    expanded = ad.ones(3, 1, requires_grad=True)
    expanded.expand(3, 4).sum().backward(create_graph=create_graph)
    assert expanded.grad.tolist() == [[4.0]] * 3
    for t in (transposed, gapped, expanded):
        t.grad = None


def test_later_gradients_are_added_in_place() -> None:
    x = ad.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    grad, version = x.grad, x.grad._version
    (x * 3).sum().backward()
    assert x.grad is grad and grad.tolist() == [5.0] * 3
    assert grad._version > version


@pytest.mark.filterwarnings("ignore:Using backward")
def test_while_recording_the_sum_is_a_new_tensor() -> None:
    x = ad.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    grad = x.grad
    (x**2).sum().backward(create_graph=True)
    assert x.grad is not grad and grad.tolist() == [2.0] * 3
    assert x.grad.requires_grad and x.grad.tolist() == [4.0] * 3
    x.grad = None


def test_a_gradient_put_there_by_hand_is_added_to() -> None:
    x = ad.ones(3, requires_grad=True)
    x.grad = ad.full((3,), 10.0)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [12.0] * 3
    strided = ad.zeros(6)[::2]
    x.grad = strided
    (x * 2).sum().backward()
    assert x.grad is strided and strided.tolist() == [2.0] * 3


def test_the_dtype_of_a_gradient_is_that_of_its_leaf() -> None:
    x = ad.ones(3, dtype=ad.float32, requires_grad=True)
    (x.double() * 2).sum().backward()
    assert x.grad.dtype is ad.float32
    half = ad.ones(3, dtype=ad.float16, requires_grad=True)
    (half * 2).sum().backward()
    (half * 2).sum().backward()
    assert half.grad.dtype is ad.float16 and half.grad.tolist() == [4.0] * 3


def test_grad_is_checked_when_it_is_set_and_may_be_deleted() -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="different size"):
        x.grad = ad.ones(3)
    with pytest.raises(RuntimeError, match="dtype"):
        x.grad = ad.ones(2, dtype=ad.float64)
    with pytest.raises(TypeError, match="expected to be a Tensor or None"):
        x.grad = 3.0
    with pytest.raises(RuntimeError, match="its own grad"):
        x.grad = x
    x.grad = ad.ones(2)
    del x.grad
    assert x.grad is None


def test_what_cannot_be_deleted() -> None:
    x = ad.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError):
        del x.data
    with pytest.raises(RuntimeError):
        del x.requires_grad
    with pytest.raises(TypeError):
        x.data = None
    with pytest.raises(RuntimeError, match="floating point or complex"):
        x.data = ad.ones(2, dtype=ad.int64)


def test_requires_grad_is_for_leaves_of_floats() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    y.requires_grad_()  # says what is so already
    with pytest.raises(RuntimeError, match="leaf variables"):
        y.requires_grad_(False)
    with pytest.raises(RuntimeError, match="floating point and complex"):
        ad.ones(2, dtype=ad.int64).requires_grad_()
    assert x.is_leaf and not y.is_leaf and y.detach().is_leaf
    assert x.requires_grad_(False) is x and (x * 2).is_leaf


def test_asking_a_non_leaf_for_its_gradient_warns() -> None:
    x = ad.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match="not a leaf Tensor is being accessed"):
        assert y.grad is None
    y.retain_grad()
    assert y.grad is None
    y.sum().backward()
    assert y.grad.tolist() == [1.0, 1.0]


def test_backward_that_records_warns_of_the_cycle() -> None:
    x = ad.ones((), requires_grad=True)
    with pytest.warns(UserWarning, match="create a reference cycle") as caught:
        (x * x).backward(create_graph=True)
    assert caught[0].filename == __file__
    reference = weakref.ref(x)
    del x, caught
    gc.collect()
    assert reference() is None


def test_backward_into_a_tensor_that_is_no_leaf() -> None:
    x = ad.ones((), requires_grad=True)
    y = x * 2
    z = y * 3
    z.backward(inputs=[y], retain_graph=True)
    assert y.grad.item() == 3.0 and x.grad is None and y.retains_grad
    z.backward(inputs={"y": y, "x": x})
    assert y.grad.item() == 6.0 and x.grad.item() == 6.0


def test_a_leaf_frozen_after_the_forward_gets_no_gradient() -> None:
    x, w = ad.ones(2, requires_grad=True), ad.ones(2, requires_grad=True)
    y = (x * w).sum()
    seen: list[Any] = []
    x.register_post_accumulate_grad_hook(seen.append)
    x.requires_grad_(False)
    y.backward()
    assert x.grad is None and not seen and w.grad.tolist() == [1.0, 1.0]
