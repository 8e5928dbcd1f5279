"""A second backward pass names the call that freed the graph and the tensor that outlived it."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import Function


def message_of(function: Any) -> str:
    with pytest.raises(
        RuntimeError, match="Trying to backward through the graph a second time"
    ) as e:
        function()
    return str(e.value)


def test_two_calls_on_one_loss() -> None:
    x = ad.ones(3, requires_grad=True)
    loss = x.exp().sum()
    loss.backward()
    text = message_of(loss.backward)
    assert "the node      ExpBackward0 (float32 [3]) made at test_second_backward.py:" in text
    assert "freed here    test_second_backward.py:" in text
    assert "loss.backward()" in text
    assert "asked again   for the gradient of the float32 [] result of SumBackward0" in text
    assert "loss = x.exp().sum()" in text
    assert "This result outlived the call that freed its graph: compute it anew" in text
    assert (
        "Specify retain_graph=True there if you need to backward through the graph a second" in text
    )


def test_a_result_carried_over_into_the_next_step() -> None:
    x = ad.ones(3, requires_grad=True)
    state = x.exp()
    state.sum().backward()
    loss = (state * 2).sum()
    text = message_of(loss.backward)
    assert "loss = (state * 2).sum()" in text
    assert "It was computed from the float32 [3] result of ExpBackward0" in text
    assert "if it is carried over from one step to the next, detach() it there" in text


def test_a_carried_result_under_a_loss_that_saves_values_itself() -> None:
    state = ad.ones(3, requires_grad=True) * 1
    for step in range(2):
        state = state.tanh()
        loss = (state**2).sum() ** 2  # freed by the failing pass itself, before it fails
        if step == 0:
            loss.backward()
    text = message_of(loss.backward)
    assert "detach() it there" in text
    assert "compute it anew" not in text


def test_a_change_through_a_view() -> None:
    x = ad.ones(3, requires_grad=True)
    y = x * 1
    y[0].mul_(2)
    loss = y.sum()
    loss.backward()
    text = message_of(loss.backward)
    assert "the node      CopySlices (float32 [3]) made at test_second_backward.py:" in text
    assert "freed here    test_second_backward.py:" in text


def test_a_custom_function() -> None:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 2 * g * x

    x = ad.ones(3, requires_grad=True)
    loss = Square.apply(x).sum()
    loss.backward()
    text = message_of(loss.backward)
    assert "SquareBackward (float32 [3])" in text
    assert "asked again" in text


def test_grad_frees_as_well_and_is_named() -> None:
    x = ad.ones(3, requires_grad=True)
    loss = x.exp().sum()
    ad.autograd.grad(loss, x)
    text = message_of(lambda: ad.autograd.grad(loss, x))
    assert "ad.autograd.grad(loss, x)" in text


def test_retained_graphs_and_graphs_that_kept_nothing_run_again() -> None:
    x = ad.ones(3, requires_grad=True)
    loss = x.exp().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    plain = (x + 1).sum()
    plain.backward()
    plain.backward()
    assert x.grad is not None


def test_a_vector_states_its_shape_and_three_remedies() -> None:
    x = ad.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="only for scalar outputs") as caught:
        (x * 2).backward()
    text = str(caught.value)
    assert "output 0 has shape [2, 3]" in text
    assert "call .sum() or .mean() first" in text
    assert "pass gradient= a tensor of shape [2, 3]" in text
    assert "func.jacrev for the whole Jacobian" in text


def test_reading_a_saved_value_that_was_freed() -> None:
    x = ad.ones(3, requires_grad=True)
    y = x.exp()
    y.sum().backward()
    text = message_of(lambda: y.grad_fn._saved_result)  # type: ignore[union-attr]
    assert "or directly access saved tensors after they have already been freed" in text
    assert "y.sum().backward()" in text
