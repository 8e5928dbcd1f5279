"""The backward pass: order, accumulation, what it keeps and frees, hooks, and its errors."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import adjoint as ad


def leaf(*values: float) -> Any:
    return ad.tensor(values if len(values) != 1 else values[0], requires_grad=True)


def test_gradients_accumulate_until_they_are_cleared() -> None:
    x = leaf(3.0)
    (x * x).backward()
    (x * x).backward()
    assert x.grad.item() == 12.0
    x.grad = None
    (x * x).backward()
    assert x.grad.item() == 6.0
    x.grad.zero_()
    (2 * x).backward()
    assert x.grad.item() == 2.0


def test_a_tensor_used_many_times_gets_the_sum() -> None:
    x = leaf(2.0)
    y = x * x
    (y * y + y * x + x).backward()  # x⁴ + x³ + x
    assert x.grad.item() == 4 * 8 + 3 * 4 + 1


def test_a_diamond_visits_each_node_once() -> None:
    """Without an order by creation this takes 2⁶⁰ visits."""
    x = leaf(1.0)
    y = x
    for _ in range(60):
        y = y * 0.5 + y * 0.5
    y.backward()
    assert x.grad.item() == 1.0


def test_a_second_backward_says_that_the_graph_is_gone() -> None:
    x = leaf(2.0)
    y = x * x
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    assert x.grad.item() == 4.0
    z = x * x
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.item() == 12.0


def test_a_graph_that_saved_nothing_can_run_again() -> None:
    x = leaf(2.0)
    y = x + x
    y.backward()
    y.backward()
    assert x.grad.item() == 4.0


def test_create_graph_makes_gradients_differentiable_to_any_order() -> None:
    x = leaf(2.0)
    y = x**5
    for value in (5 * 16, 20 * 8, 60 * 4, 120 * 2, 120):
        (y,) = ad.autograd.grad(y, x, create_graph=True)
        assert y.item() == value and y.requires_grad


def test_without_create_graph_the_gradient_has_no_history() -> None:
    x = leaf(2.0)
    (g,) = ad.autograd.grad(x**3, x)
    assert not g.requires_grad and g.grad_fn is None and g.item() == 12.0


def test_backward_of_a_non_scalar_names_the_shape_and_the_remedies() -> None:
    y = ad.ones(2, 3, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match=r"scalar") as caught:
        y.backward()
    assert all(part in str(caught.value) for part in ("2, 3", "sum()", "gradient"))
    y.backward(ad.ones(2, 3))


def test_a_gradient_of_the_wrong_shape_or_dtype_is_refused() -> None:
    x = ad.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"(?i)mismatch|shape"):
        (x * 2).backward(ad.ones(4))
    with pytest.raises(RuntimeError):
        ad.autograd.grad([x * 2, x * 3], x, [ad.ones(3)])
    assert x.grad is None


def test_backward_of_a_constant_says_why() -> None:
    with pytest.raises(RuntimeError, match="does not require grad"):
        ad.ones(()).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        leaf(1.0).detach().sum().backward()


def test_unused_inputs_raise_or_are_none() -> None:
    x, z = leaf(1.0), leaf(1.0)
    with pytest.raises(RuntimeError, match=r"(?i)not.*used"):
        ad.autograd.grad(x * 2, [x, z])
    got = ad.autograd.grad(x * 2, [x, z], allow_unused=True)
    assert got[0].item() == 2.0 and got[1] is None
    got = ad.autograd.grad(x * 2, [x, z], materialize_grads=True)
    assert got[1].item() == 0.0


def test_grad_leaves_the_grad_fields_alone() -> None:
    x = leaf(1.0)
    ad.autograd.grad(x * 2, x)
    assert x.grad is None
    y = leaf(1.0)
    (x * y).backward(inputs=[x])
    assert x.grad.item() == 1.0 and y.grad is None


def test_several_outputs_with_their_cotangents() -> None:
    x = leaf(1.0, 2.0)
    ad.autograd.backward([x * 2, (x * x).sum()], [ad.tensor([1.0, 10.0]), None])
    assert x.grad.tolist() == [2 + 2, 20 + 4]


def test_an_intermediate_tensor_keeps_its_gradient_when_asked() -> None:
    x = leaf(3.0)
    y = x * 2
    y.retain_grad()
    (y * y).backward()
    assert y.grad.item() == 12.0 and x.grad.item() == 24.0
    assert y.retains_grad and not x.retains_grad


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_an_intermediate_tensor_has_no_gradient_otherwise() -> None:
    x = leaf(3.0)
    y = x * 2
    (y * y).backward()
    assert y.grad is None


def test_hooks_see_and_may_replace_the_gradient() -> None:
    x = leaf(3.0)
    seen: list[float] = []
    y = x * 2
    handle = y.register_hook(lambda g: seen.append(g.item()))
    x.register_hook(lambda g: g * 10)
    (y * 5).backward()
    assert seen == [5.0] and x.grad.item() == 100.0
    handle.remove()
    x.grad = None
    (x * 2).backward()
    assert seen == [5.0] and x.grad.item() == 20.0


def test_a_hook_runs_once_on_the_complete_sum() -> None:
    x = leaf(3.0)
    seen: list[float] = []
    y = x * 1
    y.register_hook(lambda g: seen.append(g.item()))
    (y * 2 + y * 3).backward()
    assert seen == [5.0]


def test_an_error_in_a_hook_reaches_the_caller_and_changes_no_gradient() -> None:
    x = leaf(3.0)

    def fail(_: Any) -> None:
        raise KeyError("mine")

    y = x * 2
    y.register_hook(fail)
    with pytest.raises(KeyError, match="mine"):
        y.backward()
    assert x.grad is None


def test_a_changed_value_is_noticed_at_backward() -> None:
    x, w = leaf(1.0, 2.0), ad.tensor([3.0, 4.0])
    y = x * w
    w.add_(1)
    with pytest.raises(RuntimeError, match=r"(?i)in.?place"):
        y.sum().backward()
    assert x.grad is None


def test_a_value_changed_through_a_view_is_noticed_too() -> None:
    x = leaf(1.0, 2.0)
    w = ad.tensor([3.0, 4.0])
    y = x * w
    w[0:1].zero_()
    with pytest.raises(RuntimeError, match=r"(?i)in.?place"):
        y.sum().backward()
    e = x.exp()
    e.detach().add_(1)  # a detached tensor shares the memory and its count
    with pytest.raises(RuntimeError, match=r"(?i)in.?place"):
        e.sum().backward()


def test_a_change_of_what_backward_does_not_need_is_fine() -> None:
    x = leaf(1.0, 2.0)
    y = x + 1
    y.mul_(3)
    z = y * 2
    z.add_(5)
    z.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_a_leaf_stays_a_leaf_and_an_edited_tensor_becomes_part_of_the_graph() -> None:
    x = leaf(1.0, 2.0)
    y = ad.zeros(2)
    assert x.is_leaf and y.is_leaf and not y.requires_grad
    y += x
    assert y.requires_grad and not y.is_leaf and y.grad_fn is not None
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_requires_grad_is_for_floating_point_and_for_leaves() -> None:
    with pytest.raises(RuntimeError, match=r"(?i)floating"):
        ad.tensor([1, 2]).requires_grad_()
    with pytest.raises(RuntimeError, match=r"(?i)floating"):
        ad.tensor([1, 2], requires_grad=True)
    y = leaf(1.0) * 2
    with pytest.raises(RuntimeError, match="leaf"):
        y.requires_grad_(False)
    assert y.detach().requires_grad is False and y.requires_grad


def test_grad_must_match_its_tensor() -> None:
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"(?i)size|shape"):
        x.grad = ad.ones(3)
    with pytest.raises((RuntimeError, TypeError)):
        x.grad = 3.0
    x.grad = ad.ones(2)
    assert x.grad.tolist() == [1.0, 1.0]


def test_the_graph_goes_with_its_last_tensor() -> None:
    x = leaf(1.0, 2.0)
    middle = x.exp()
    reference = weakref.ref(middle)
    end = (middle * 2).sum()
    del middle
    gc.collect()
    end.backward()
    del end
    gc.collect()
    assert reference() is None


def test_a_retained_gradient_is_not_the_memory_of_another() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    h = x + 0
    h.retain_grad()
    h.sum().backward()
    h.grad.zero_()
    assert x.grad.tolist() == [1.0, 1.0]
