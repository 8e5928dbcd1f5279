"""What gradcheck says of the cause of a mismatch. Read test_gradcheck.py first."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck
from adjoint.autograd.gradcheck import GradcheckError
from tests.unit.autograd.gradchecking import (
    Function,
    both_modes,
    cause,
    failure,
    leaf,
    with_backward,
)


@both_modes
@pytest.mark.parametrize(
    ("func", "dtype", "expected"),
    [
        (with_backward(lambda x: x.sin(), lambda g: 2 * g), ad.float64, "is 2 times the numerical"),
        (with_backward(lambda x: x.sin(), lambda g: g / 3), ad.float64, "is 0.3333 times"),
        (with_backward(lambda x: x.sin(), lambda g: -g), ad.float64, "has the opposite sign"),
        (
            with_backward(lambda z: z.clone(), lambda g: g * 1j),
            ad.complex128,
            "is 0+1j times the numerical",
        ),
        (with_backward(lambda x: x.clone(), lambda g: g + 0.25), ad.float64, "0.25 is added to ev"),
        (lambda x: x.sum() + (x.exp() @ x.exp()).detach() * 1, ad.float64, "no simple pattern"),
        (lambda x: 0 * x + x.exp().detach(), ad.float64, "only zeros come from the output back"),
    ],
)
def test_patterns_in_the_error_are_named(
    func: Function, dtype: Any, expected: str, fast: bool
) -> None:
    assert expected in cause(failure(func, (leaf(3, dtype=dtype),), fast_mode=fast))


def custom(forward: Function, backward: Function) -> Function:
    """A custom function of one tensor, with any backward of it and the incoming gradient."""

    class Custom(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return forward(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return backward(x, grad)

    return Custom.apply


@both_modes
@pytest.mark.parametrize(
    ("backward", "dtype", "expected"),
    [
        (lambda x, g: 6 * x * x * g, ad.float64, "is 2 times the numerical one"),
        (lambda x, g: -3 * x * x * g, ad.float64, "has the opposite sign"),
        (lambda x, g: x * 0, ad.float64, "only zeros come from the output back"),
        (lambda x, g: None, ad.float64, "no path leads from the output back"),
        (lambda x, g: 3 * x * x * g, ad.complex128, "is the conjugate of what it should be"),
        (lambda x, g: 3 * x * x * g + 2, ad.float64, "2 is added to every entry"),
        (lambda x, g: 3 * x * g, ad.float64, "no simple pattern"),
    ],
)
def test_mistakes_in_a_custom_backward_are_named(
    backward: Function, dtype: Any, expected: str, fast: bool
) -> None:
    right = custom(lambda x: x**3, lambda x, g: g * (3 * x * x).conj())
    x = leaf(3, dtype=dtype)
    assert gradcheck(right, (x,), fast_mode=fast)
    assert gradgradcheck(right, (x,), fast_mode=fast)
    wrong = custom(lambda x: x**3, backward)
    assert expected in cause(failure(wrong, (x,), fast_mode=fast))


@both_modes
def test_a_custom_backward_that_cannot_be_differentiated_is_found(fast: bool) -> None:
    func = custom(lambda x: x**3, lambda x, g: g * (3 * x * x).detach())
    x = leaf(3)
    assert gradcheck(func, (x,), fast_mode=fast)
    message = failure(func, (x,), gradgradcheck, fast_mode=fast)
    assert "for output 0 with respect to input 0" in message
    assert "back to this input: the computation leaves the graph" in cause(message)


@both_modes
def test_a_missing_conjugate_is_named(fast: bool) -> None:
    def square(z: Any) -> Any:
        factor, result = 2 * z.detach(), z.clone()
        # z² whose backward multiplies by 2z instead of its conjugate
        result.register_hook(lambda g: g * factor)
        return result + (z**2 - z).detach()

    message = failure(square, (leaf(3, dtype=ad.complex128),), fast_mode=fast)
    assert "is the conjugate of what it should be" in cause(message)
    message = failure(lambda z: square(z).real, (leaf(3, dtype=ad.complex128),), fast_mode=fast)
    assert "is the conjugate of what it should be" in cause(message)


@both_modes
def test_a_transposed_jacobian_is_named(fast: bool) -> None:
    a = leaf(3, 3).detach()

    def func(x: Any) -> Any:
        y = x.clone()
        y.register_hook(lambda g: a @ g)
        return y + (a @ x - x).detach()

    message = failure(func, (leaf(3, seed=4),), fast_mode=fast)
    assert cause(message) == "the analytical Jacobian is the transpose of the numerical one"


@both_modes
def test_an_input_that_gets_no_gradient_is_named(fast: bool) -> None:
    x, y = leaf(3), leaf(3, seed=1)
    message = failure(lambda x, y: x * y.detach(), (x, y), fast_mode=fast)
    assert "for output 0 with respect to input 1" in message
    assert cause(message).startswith("no path leads from the output back to this input")


@both_modes
def test_a_function_that_ignores_its_input_is_named(fast: bool) -> None:
    x = leaf(3)
    fixed = x.detach().clone()
    func = lambda x: x * 0 + fixed.sin() + (x - x.detach())  # noqa: E731
    assert "does not change when this input does" in cause(failure(func, (x,), fast_mode=fast))


@both_modes
def test_kinks_and_jumps_are_named(fast: bool) -> None:
    zero = ad.zeros(2, dtype=ad.float64, requires_grad=True)
    message = cause(failure(lambda x: x.relu(), (zero,), fast_mode=fast))
    assert "the function has a kink at this input: its slope is 1 to the right and 0 to" in message
    func = lambda x: x + (x > 0).double()  # noqa: E731
    assert "the function jumps at this input" in cause(failure(func, (zero,), fast_mode=fast))


@both_modes
def test_a_step_too_wide_for_the_function_is_named(fast: bool) -> None:
    x = ad.tensor([0.01, 1.0], dtype=ad.float64, requires_grad=True)
    message = cause(failure(lambda x: 1 / x, (x,), eps=4e-3, fast_mode=fast))
    assert message.startswith("the function bends too much, or has a kink or a jump, within a step")
    near = ad.tensor([1e-3 + 1j], dtype=ad.complex128, requires_grad=True)
    message = failure(lambda z: z.real.relu(), (near,), eps=4e-3, fast_mode=fast)
    assert "a step of 0.0005 gives 1, closer to the analytical" in cause(message)


def test_a_function_that_changes_its_input_is_named() -> None:
    x = leaf(3).clone()
    assert "changes its input 0 in place" in cause(failure(lambda x: x.mul_(1.25) * 1, (x,)))


def test_a_function_that_is_random_is_named() -> None:
    def func(x: Any) -> Any:
        return x * ad.rand(3, dtype=ad.float64)

    with pytest.raises(GradcheckError) as caught:
        gradcheck(func, (leaf(3),))
    assert "not deterministic: two evaluations at the same inputs differ by" in str(caught.value)


def test_inputs_that_share_memory_are_named() -> None:
    x = leaf(3)
    y = x.detach().requires_grad_()
    assert "inputs 0 and 1 share memory" in cause(failure(lambda x, y: x + 2 * y, (x, y)))


def test_inputs_computed_from_one_another_are_named() -> None:
    x = leaf(3)
    message = failure(lambda x, y: x * y, (x, x * 2))
    assert "input 1 is computed from input 0, so backward adds what arrives" in cause(message)
    assert gradcheck(lambda x, y: x * y, (x, (x * 2).detach().requires_grad_()))


@both_modes
def test_values_that_are_not_finite_are_named(fast: bool) -> None:
    nan = with_backward(lambda x: x * 1, lambda g: g * ad.nan)
    message = failure(nan, (leaf(2),), fast_mode=fast)
    assert "the analytical gradient is nan here: backward divides by zero" in cause(message)
    zero = ad.zeros(2, dtype=ad.float64, requires_grad=True)
    edge = lambda x: (x - x.detach()) + x.detach().sqrt()  # noqa: E731
    message = failure(edge, (zero,), fast_mode=fast)
    assert "the input lies at the edge of the domain; move it inside" in cause(message)
