"""gradcheck and gradgradcheck: what they accept, what they find, and what they say about it.

Wrong gradients are made with hooks, which replace the gradient of a tensor on its way back, and
with detach(), which cuts it off. Read next: python/adjoint/autograd/_gradcheck.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.autograd import gradcheck, gradgradcheck
from adjoint.autograd._gradcheck.problem import Named, overlaps, refuse_layouts
from adjoint.autograd._gradcheck.tolerance import fit
from adjoint.autograd.gradcheck import (
    GradcheckError,
    get_analytical_jacobian,
    get_numerical_jacobian,
)
from tests.unit.autograd.gradchecking import (
    Function,
    both_modes,
    cause,
    failure,
    leaf,
    with_backward,
)

# ---------------------------------------------------------------------------------------------
# What passes


@both_modes
def test_right_gradients_pass(fast: bool) -> None:
    x, y = leaf(3, 2), leaf(2, seed=1)
    assert gradcheck(lambda x, y: x.sin() * y, (x, y), fast_mode=fast) is True
    assert gradgradcheck(lambda x, y: x.sin() * y, (x, y), fast_mode=fast) is True


@both_modes
def test_a_single_tensor_is_an_argument(fast: bool) -> None:
    assert gradcheck(lambda x: x.mul(5), leaf(10), fast_mode=fast)
    assert gradgradcheck(lambda x: x.mul(5), leaf(10), fast_mode=fast)


@both_modes
@pytest.mark.parametrize(
    "func",
    [
        lambda z: z * z,
        lambda z: z.conj() * z.sin(),
        lambda z: z.abs(),
        lambda z: (z, z.real, z.imag * z),
        lambda z: z.real.exp(),
        lambda z: z * 1j,
    ],
)
def test_complex_functions_pass(func: Function, fast: bool) -> None:
    z = leaf(3, dtype=ad.complex128)
    assert gradcheck(func, (z,), fast_mode=fast)
    assert gradgradcheck(func, (z,), fast_mode=fast)


@both_modes
def test_powers_of_negative_numbers_have_complex_slopes(fast: bool) -> None:
    base, exponent = ad.tensor([-1.5, -0.25], dtype=ad.float64), leaf(2, dtype=ad.complex128)
    assert gradcheck(lambda e: base**e, (exponent,), fast_mode=fast)
    assert gradcheck(lambda e: (-1) ** e, (exponent,), fast_mode=fast)
    assert gradgradcheck(lambda e: base**e, (exponent,), fast_mode=fast)


@both_modes
def test_real_inputs_with_complex_outputs_pass(fast: bool) -> None:
    def func(x: Any, y: Any) -> Any:
        return ad.complex(x, y * x), x + 1

    assert gradcheck(func, (leaf(2, 2), leaf(2, 2, seed=1)), fast_mode=fast)


@both_modes
def test_other_arguments_and_results_are_left_alone(fast: bool) -> None:
    x, count = leaf(3), ad.tensor([1, 2, 3])

    def func(x: Any, scale: float, count: Any, none: None) -> Any:
        return x * scale * count, count, 7, "text", x.detach(), None, x.argmax()

    assert gradcheck(func, (x, 2.5, count, None), fast_mode=fast)


@both_modes
def test_nested_arguments_and_results_are_checked(fast: bool) -> None:
    tree = {"w": leaf(3), "rest": [leaf(1, seed=2)]}

    def right(tree: Any) -> Any:
        return {"y": tree["w"] * tree["rest"][0]}

    def wrong(tree: Any) -> Any:
        return {"y": tree["w"] * tree["rest"][0].detach()}

    assert gradcheck(right, (tree,), fast_mode=fast)
    message = failure(wrong, (tree,), fast_mode=fast)
    assert "for output 0['y'] with respect to input 0['rest'][0]" in message


@both_modes
def test_inputs_reached_by_another_way_are_moved_too(fast: bool) -> None:
    """The function of a module's parameters ignores its arguments."""
    x, net = leaf(4, 3), ad.nn.Linear(3, 2, dtype=ad.float64)
    inputs = (x, *net.parameters())
    assert gradcheck(lambda x, *_: net(x).tanh(), inputs, fast_mode=fast)
    assert gradgradcheck(lambda x, *_: net(x).tanh(), inputs, fast_mode=fast)


@both_modes
def test_inputs_are_put_back_bit_by_bit(fast: bool) -> None:
    x = leaf(5)
    before, version = x.detach().clone(), x._version
    assert gradcheck(lambda x: x.exp(), (x,), fast_mode=fast)
    failure(with_backward(lambda x: x.exp(), lambda g: 3 * g), (x,), fast_mode=fast)
    assert ad.equal(x.detach(), before)
    assert x._version == version
    assert x.grad is None

    def raises(x: Any) -> Any:
        if not ad.equal(x.detach(), before):
            raise KeyError("moved")
        return x * 2

    with pytest.raises(KeyError, match="moved"):
        gradcheck(raises, (x,), fast_mode=fast)
    assert ad.equal(x.detach(), before)


@both_modes
def test_strided_and_scalar_inputs_pass(fast: bool) -> None:
    columns = leaf(3, 4).detach()[:, ::2].t().requires_grad_()
    assert gradcheck(lambda x, s: x * s, (columns, leaf(seed=3)), fast_mode=fast)


@both_modes
def test_empty_tensors_pass(fast: bool) -> None:
    assert gradcheck(lambda x: x.sin(), (leaf(0, 3),), fast_mode=fast)
    assert gradcheck(lambda x: (), (leaf(2),), fast_mode=fast)


def test_the_random_stream_stays_where_it_is() -> None:
    ad.manual_seed(3)
    expected = ad.rand(4)
    ad.manual_seed(3)
    for fast in (False, True):
        gradcheck(lambda x: x.sin(), (leaf(3),), fast_mode=fast)
        given = ad.ones(3, dtype=ad.float64, requires_grad=True)  # else drawn, as PyTorch does
        gradgradcheck(lambda x: x.sin(), (leaf(3),), given, fast_mode=fast)
    assert ad.equal(ad.rand(4), expected)


def test_signatures_are_pytorchs() -> None:
    shown = inspect.signature(gradcheck).parameters
    assert {name: p.default for name, p in shown.items() if name not in ("func", "inputs")} == {
        "eps": 1e-6,
        "atol": 1e-5,
        "rtol": 1e-3,
        "raise_exception": True,
        "nondet_tol": 0.0,
        "check_undefined_grad": True,
        "check_grad_dtypes": False,
        "check_batched_grad": False,
        "check_batched_forward_grad": False,
        "check_forward_ad": False,
        "check_backward_ad": True,
        "fast_mode": False,
        "masked": None,
    }
    second = inspect.signature(gradgradcheck).parameters
    assert list(second)[:3] == ["func", "inputs", "grad_outputs"]
    assert second["gen_non_contig_grad_outputs"].default is False
    assert second["check_rev_over_rev"].default is True


def test_fast_mode_calls_the_function_a_fixed_number_of_times() -> None:
    calls = 0

    def func(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x.sin()

    assert gradcheck(func, (leaf(50),), fast_mode=True)
    assert calls == 4  # as it is, once more for its graph, and a step to each side


# ---------------------------------------------------------------------------------------------
# Jacobians against closed forms


def test_numerical_jacobians_have_a_row_per_element_of_the_input() -> None:
    a, b = leaf(2, 2), leaf(2, 2, seed=1)
    with pytest.warns(
        FutureWarning, match="`get_numerical_jacobian` was part of PyTorch's private"
    ):
        got = get_numerical_jacobian(lambda t: (2 * t[0] + t[1], t[0]), (a, b), eps=1e-6)
    np.testing.assert_allclose(got[0].numpy(), 2 * np.eye(4), atol=1e-8)
    np.testing.assert_allclose(got[1].numpy(), np.eye(4), atol=1e-8)
    with pytest.warns(FutureWarning):
        (one,) = get_numerical_jacobian(lambda t: t[0] * t[1], (a, b), target=b, eps=1e-6)
    np.testing.assert_allclose(one.numpy(), np.diag(a.detach().numpy().ravel()), atol=1e-8)
    with (
        pytest.warns(FutureWarning),
        pytest.raises(ValueError, match=r"Expected grad_out to be 1\.0, got 2\.0"),
    ):
        get_numerical_jacobian(lambda t: t[0], (a,), grad_out=2.0)
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="target 0 is not among"):
        get_numerical_jacobian(lambda t: t[0], (a,), target=b)


def test_a_product_of_matrices_has_the_known_jacobian() -> None:
    a, b = leaf(2, 3), leaf(3, 2, seed=1)
    with pytest.warns(FutureWarning):
        (numerical,) = get_numerical_jacobian(lambda t: t[0] @ t[1], (a, b), target=a, eps=1e-6)
    with pytest.warns(FutureWarning, match="`get_analytical_jacobian` was part of PyTorch's"):
        found, reentrant, sizes, types = get_analytical_jacobian((a, b), a @ b)
    # d(ab)[i, l] / da[j, k] = δ(i, j) b[k, l]
    expected = np.kron(np.eye(2), b.detach().numpy())
    np.testing.assert_allclose(numerical.numpy(), expected, atol=1e-8)
    np.testing.assert_allclose(found[0].numpy(), expected, atol=1e-14)
    assert (reentrant, sizes, types) == (True, True, True)


def test_the_jacobian_for_a_complex_input_holds_gradients() -> None:
    z = leaf(2, dtype=ad.complex128)
    with pytest.warns(FutureWarning):
        (numerical,) = get_numerical_jacobian(lambda t: (t[0] ** 3).real, (z,), eps=1e-6)
        (analytical,), *_ = get_analytical_jacobian((z,), (z**3).real)
    expected = np.diag((3 * z.detach().numpy() ** 2).conj())
    np.testing.assert_allclose(numerical.numpy(), expected, atol=1e-7)
    np.testing.assert_allclose(analytical.numpy(), expected, atol=1e-13)
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="output to be non-complex"):
        get_numerical_jacobian(lambda t: t[0] ** 3, (z,))
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="output to be non-complex"):
        get_analytical_jacobian((z,), z**3)


def test_an_analytical_jacobian_tells_whether_backward_repeats_itself() -> None:
    x = leaf(2)
    noise = itertools.count()
    y = with_backward(lambda x: x.clone(), lambda g: g + 1e-9 * next(noise))(x)
    with pytest.warns(FutureWarning):
        assert get_analytical_jacobian((x,), y)[1] is False
        assert get_analytical_jacobian((x,), y, nondet_tol=1e-6)[1] is True
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="grad_out"):
        get_analytical_jacobian((x,), y, grad_out=2.0)


# ---------------------------------------------------------------------------------------------
# What is refused


@both_modes
def test_a_function_without_a_result_is_refused(fast: bool) -> None:
    with pytest.raises(ValueError, match="return tensors, but it returned None"):
        gradcheck(lambda x: None, (leaf(3),), fast_mode=fast)


@both_modes
def test_some_input_must_require_grad(fast: bool) -> None:
    with pytest.raises(ValueError, match="expects at least one input tensor to require gradient"):
        gradcheck(lambda x: x, (ad.rand(3),), raise_exception=False, fast_mode=fast)


@both_modes
def test_expanded_inputs_are_refused(fast: bool) -> None:
    x = leaf(1).expand(2, 2)
    with pytest.raises(RuntimeError, match="The 0th input has a dimension with stride 0") as caught:
        gradcheck(lambda x: x, (x,), raise_exception=False, fast_mode=fast)
    assert not isinstance(caught.value, GradcheckError)
    windows = ad.arange(4.0, dtype=ad.float64).as_strided((3, 2), (1, 1)).requires_grad_()
    with pytest.raises(RuntimeError, match="The 1th input has elements that share memory"):
        gradcheck(lambda n, x: x, (1, windows), raise_exception=False, fast_mode=fast)


def test_overlap_is_seen_where_there_is_one_only() -> None:
    assert not overlaps((3, 4), (4, 1))
    assert not overlaps((4, 3), (1, 4))
    assert not overlaps((2, 2), (3, 2))  # interleaved: 0, 2, 3, 5
    assert not overlaps((1, 5), (0, 1))
    assert not overlaps((0, 5), (0, 0))
    assert overlaps((3, 2), (1, 1))
    assert overlaps((2, 3), (2, 1))


def test_other_layouts_are_refused() -> None:
    for layout, kind in (("torch.sparse_coo", "Sparse"), ("torch._mkldnn", "MKLDNN")):
        item = Named(SimpleNamespace(layout=layout), "1")  # type: ignore[arg-type]
        for what in ("input", "output"):
            with pytest.raises(ValueError, match=f"{kind} {what} is not supported at gradcheck"):
                refuse_layouts([item], what)


def test_something_must_be_asked_for() -> None:
    x = leaf(2)
    with pytest.raises(AssertionError, match="Expected at least one of check_forward_ad"):
        gradcheck(lambda x: x, (x,), check_backward_ad=False)
    with pytest.raises(AssertionError, match="Expected at least one of check_fwd_over_rev"):
        gradgradcheck(lambda x: x, (x,), check_rev_over_rev=False)
    with pytest.raises(AssertionError, match="check_batched_grad=True requires check_backward_ad"):
        gradcheck(
            lambda x: x, x, check_forward_ad=True, check_backward_ad=False, check_batched_grad=True
        )
    with pytest.raises(AssertionError, match="check_batched_forward_grad=True requires"):
        gradcheck(lambda x: x, (x,), check_batched_forward_grad=True)
    with pytest.raises(AssertionError, match="check_batched_grad=True requires check_rev_over_rev"):
        gradgradcheck(
            lambda x: x,
            (x,),
            check_fwd_over_rev=True,
            check_rev_over_rev=False,
            check_batched_grad=True,
        )


@both_modes
def test_outputs_must_keep_their_shape_dtype_and_number(fast: bool) -> None:
    x = ad.ones(1, dtype=ad.float64, requires_grad=True)
    with pytest.raises(AssertionError, match="with the same shape when inputs are perturbed"):
        gradcheck(lambda x: ad.cat([x, x]) if x >= 1 else x, (x,), fast_mode=fast)
    with pytest.raises(AssertionError, match="with the same dtype when inputs are perturbed"):
        gradcheck(lambda x: x.float() if x >= 1 else x, (x,), fast_mode=fast)
    with pytest.raises(AssertionError, match="return 2 tensors as at its first call, got 1"):
        gradcheck(lambda x: (x, x * 2) if x >= 1 else x, (x,), fast_mode=fast)


def test_errors_of_the_function_pass_through() -> None:
    def func(x: Any) -> Any:
        raise RuntimeError("not a GradcheckError")

    with pytest.raises(RuntimeError, match="not a GradcheckError") as caught:
        gradcheck(func, (leaf(2),), raise_exception=False)
    assert not isinstance(caught.value, GradcheckError)


# ---------------------------------------------------------------------------------------------
# What is found


@both_modes
def test_a_mismatch_names_the_place_and_both_numbers(fast: bool) -> None:
    def func(scale: int, x: Any, y: Any) -> Any:
        wrong = y.clone()
        wrong.register_hook(lambda g: g * ad.tensor([1.0, 1.0, 1.5], dtype=ad.float64))
        return x * scale, x + 4 * wrong

    message = failure(func, (2, leaf(3), leaf(3, seed=1)), fast_mode=fast)
    first, worst, error, wrong, why, *matrices = message.splitlines()
    assert first == "Jacobian mismatch for output 1 with respect to input 2,"
    assert worst.endswith("output[2] with respect to input[2]: numerical 4, analytical 6")
    assert "error         2, allowed 0.00401 (atol 1e-05 + rtol 0.001 × |numerical|; " in error
    assert "1 of 9 entries" in wrong
    assert "only 1 of 3 elements of the input are concerned (flat indices [2])" in why
    assert matrices[0].startswith("numerical:tensor([[4., 0., 0.],")
    assert matrices[3].startswith("analytical:tensor([[4., 0., 0.],")


def test_large_jacobians_are_summarised() -> None:
    message = failure(with_backward(lambda x: x.clone(), lambda g: 2 * g), (leaf(30),))
    assert "numerical: 30 × 30, 30 entries not zero, magnitudes 0 to 1\n" in message
    assert "analytical: 30 × 30, 30 entries not zero, magnitudes 0 to 2" in message


def test_a_jacobian_too_large_to_search_is_judged_by_its_projection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from adjoint.autograd._gradcheck import checks

    monkeypatch.setattr(checks, "LARGEST_JACOBIAN", 10)
    func = with_backward(lambda x: x.clone(), lambda g: 2 * g)
    message = failure(func, (leaf(4),), fast_mode=True)
    assert "for random u and v, vᵀJu is " in message
    assert "has 4 × 4 entries, too many to look for the wrong ones" in message
    assert gradcheck(lambda x: x.sin(), (leaf(4),), fast_mode=True)


def test_complex_outputs_are_compared_part_by_part() -> None:
    z = leaf(2, 2, dtype=ad.complex128)
    func = with_backward(lambda z: z.clone(), lambda g: g + 1e-2)
    assert failure(func, (z,)).startswith(
        "While considering the imaginary part of complex outputs only, Jacobian mismatch for "
        "output 0 with respect to input 0"
    )
    # An error that only a real weight meets: the imaginary part is right.
    func = with_backward(lambda z: z.clone(), lambda g: g + g.real)
    assert failure(func, (z,)).startswith("While considering the real part of complex outputs only")
    func = with_backward(lambda x: ad.complex(x, x), lambda g: g + 1e-2)
    assert "the imaginary part" in failure(func, (leaf(2, 2),))
    func = with_backward(lambda z: z.real * 1.0, lambda g: g + 1e-2)
    assert failure(func, (z,)).startswith("Jacobian mismatch for output 0 with respect to input 0")


@both_modes
@pytest.mark.parametrize("n", range(6))
def test_every_single_wrong_entry_is_found(n: int, fast: bool) -> None:
    """Projections must not overlook one wrong element."""
    factor = np.ones(6)
    factor[n] = 1.01
    func = with_backward(lambda x: x.sin(), lambda g: g * ad.from_numpy(factor))
    assert f"input[{n}]" in failure(func, (leaf(6),), fast_mode=fast)


@both_modes
def test_outputs_without_a_graph_must_not_depend_on_the_input(fast: bool) -> None:
    message = failure(lambda x: x.detach() * 3, (leaf(2),), fast_mode=fast)
    assert message.startswith("Numerical gradient for function expected to be zero: no output")
    assert "output 0 changes by 3 per unit of input 0" in message
    assert gradcheck(lambda x: x.detach() * 0 + 1, (leaf(2),), fast_mode=fast)
    assert gradcheck(lambda x: x.argmax(), (leaf(2),), fast_mode=fast)


@both_modes
def test_backward_must_repeat_itself(fast: bool) -> None:
    noise = itertools.count(1)
    func = with_backward(lambda x: x.clone(), lambda g: g * (1 + 1e-13 * next(noise)))
    message = failure(func, (leaf(2),), fast_mode=fast)
    assert message.startswith("Backward is not reentrant, i.e., running backward with same input")
    assert "The tolerance for nondeterminism was 0.0." in message
    assert gradcheck(func, (leaf(2),), fast_mode=fast, nondet_tol=1e-6)


@both_modes
def test_backward_must_be_proportional_to_what_comes_in(fast: bool) -> None:
    func = with_backward(lambda x: x.clone(), lambda g: g + 1e-2)
    message = failure(func, (ad.ones(1, dtype=ad.float64, requires_grad=True),), atol=0.1)
    assert message.startswith("backward not multiplied by grad_output: with a zero gradient")
    assert "the gradient of input 0 is not zero but up to 0.01" in message


@both_modes
def test_an_output_without_gradient_must_count_as_zeros(fast: bool) -> None:
    def refuses(x: Any) -> Any:
        outputs = x.unbind()

        def hook(grads: Any) -> None:
            if sum(g is None for g in grads) == 1:
                raise RuntimeError("no gradient")

        outputs[0].grad_fn.register_prehook(hook)
        return tuple(output * 1 for output in outputs)

    x = leaf(3)
    options = {"fast_mode": fast, "check_undefined_grad": True}
    with (
        pytest.warns(UserWarning, match="Backwards compatibility: New undefined gradient support"),
        pytest.raises(
            GradcheckError, match="Expected backward function to handle undefined output"
        ),
    ):
        gradcheck(refuses, (x,), **options)
    assert gradcheck(refuses, (x,), fast_mode=fast, check_undefined_grad=False)
    assert gradcheck(lambda x: x.unbind(), (x,), **options)


@both_modes
def test_a_backward_that_cannot_take_none_is_found(fast: bool) -> None:
    class Pair(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            return a * 2 + b * 3

    x = leaf(3)
    with (
        pytest.warns(UserWarning, match="Backwards compatibility") as caught,
        pytest.raises(GradcheckError, match="with a gradient for output 0 only, backward raises"),
    ):
        gradcheck(Pair.apply, (x,), fast_mode=fast)
    assert caught[0].filename == __file__
    assert gradcheck(Pair.apply, (x,), fast_mode=fast, check_undefined_grad=False)


@both_modes
def test_a_backward_with_one_output_may_get_none_too(fast: bool) -> None:
    def function(backward: Function) -> Function:
        class Double(ad.autograd.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                ctx.set_materialize_grads(False)
                return x * 2

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                return backward(grad)

        return Double.apply

    def check(backward: Function) -> bool:
        return gradcheck(function(backward), (leaf(3),), fast_mode=fast)

    assert check(lambda g: None if g is None else g * 2)
    assert check(lambda g: ad.zeros(3, dtype=ad.float64) if g is None else g * 2)
    for backward, expected in (
        (lambda g: g * 2, "with None as the gradient of output 0, backward raises TypeError"),
        (
            lambda g: ad.ones(3, dtype=ad.float64) if g is None else g * 2,
            "with None as the gradient of output 0, the gradient of input 0 is not zero",
        ),
    ):
        with (
            pytest.warns(UserWarning, match="Backwards compatibility") as caught,
            pytest.raises(GradcheckError, match=expected),
        ):
            check(backward)
        assert caught[0].filename == __file__


def test_an_error_in_backward_of_several_outputs_passes_through() -> None:
    def func(x: Any) -> Any:
        y = x.clone()
        y.register_hook(lambda g: {}["missing"])
        return y * 2, y * 3

    with pytest.raises(KeyError, match="missing"):
        gradcheck(func, (leaf(2),))


@both_modes
def test_dtypes_of_gradients_are_checked_on_request(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine casts gradients, so a wrong one has to be made behind its back."""
    from adjoint.autograd._gradcheck import analytical

    options = {"check_grad_dtypes": True, "fast_mode": fast, "check_undefined_grad": False}
    assert gradcheck(lambda x: x.sin(), (leaf(2),), **options)
    honest = ad.autograd.grad

    def with_result(change: Function) -> None:
        def broken(*args: Any, **kwargs: Any) -> Any:
            return tuple(change(g) for g in honest(*args, **kwargs))

        monkeypatch.setattr(analytical, "grad", broken)

    with_result(lambda g: g.to(ad.complex128))
    assert failure(lambda x: x.sin(), (leaf(2),), **options) == (
        "Gradient has dtype mismatch: input 0 is torch.float64, its gradient is torch.complex128"
    )
    with_result(lambda g: g[None])
    assert failure(lambda x: x.sin(), (leaf(2),), **options) == (
        "Analytical gradient has incorrect size: it is [1, 2] for input 0 of shape [2]"
    )


@both_modes
def test_batches_of_gradients_are_checked_on_request(
    fast: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adjoint.autograd._gradcheck import checks

    x, honest = leaf(3), ad.autograd.grad
    assert gradcheck(lambda x: x.sin(), (x,), check_batched_grad=True, fast_mode=fast)

    def broken(*args: Any, is_grads_batched: bool = False, **kwargs: Any) -> Any:
        result = honest(*args, is_grads_batched=is_grads_batched, **kwargs)
        return tuple(g + 1 for g in result) if is_grads_batched else result

    monkeypatch.setattr(checks, "grad", broken)
    message = failure(lambda x: x.sin(), (x,), check_batched_grad=True, fast_mode=fast)
    assert message.startswith("gradcheck or gradgradcheck failed while testing batched gradient")
    assert "row 0 of the batch differs from the gradient alone by 1" in message

    def raising(*args: Any, is_grads_batched: bool = False, **kwargs: Any) -> Any:
        if is_grads_batched:
            raise RuntimeError("no rule")
        return honest(*args, **kwargs)

    monkeypatch.setattr(checks, "grad", raising)
    message = failure(lambda x: x.sin(), (x,), check_batched_grad=True, fast_mode=fast)
    assert "output 0 raises RuntimeError: no rule" in message


# ---------------------------------------------------------------------------------------------
# Coarser dtypes

COARSE = [ad.float32, ad.complex64, ad.float16, ad.bfloat16]


@both_modes
@pytest.mark.parametrize("dtype", COARSE, ids=str)
def test_coarse_dtypes_pass_and_warn(dtype: Any, fast: bool) -> None:
    x = leaf(4, dtype=dtype)
    for func in (lambda x: x.sin() * x, lambda x: (x * x).sum() * 100, lambda x: x / 7):
        with pytest.warns(
            UserWarning, match="Input #0 requires gradient and is not a double precision"
        ) as caught:
            assert gradcheck(func, (x,), fast_mode=fast)
        assert caught[0].filename == __file__


@both_modes
@pytest.mark.parametrize("dtype", COARSE, ids=str)
def test_coarse_dtypes_do_not_hide_wrong_gradients(dtype: Any, fast: bool) -> None:
    x = leaf(4, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for factor in (0.0, 2.0, -1.0):
            func = with_backward(lambda x: x.sin(), lambda g, k=factor: g * k)
            failure(func, (x,), fast_mode=fast)
        if dtype in (ad.float32, ad.complex64):
            failure(with_backward(lambda x: x.sin(), lambda g: g * 1.01), (x,), fast_mode=fast)


def test_large_entries_of_a_coarse_dtype_get_larger_steps() -> None:
    x = ad.tensor([1000.0, -30000.0, 0.25], dtype=ad.float16, requires_grad=True)
    with pytest.warns(UserWarning):
        assert gradcheck(lambda x: x / 2, (x,))


def test_steps_and_tolerances_follow_the_coarsest_dtype() -> None:
    from adjoint.autograd.gradcheck import _ATOL, _EPS, _RTOL

    double = fit(_EPS, _ATOL, _RTOL, [ad.float64, ad.complex128, ad.int64])
    assert (double.eps, double.atol, double.rtol) == (1e-6, 1e-5, 1e-3)
    single = fit(_EPS, _ATOL, _RTOL, [ad.float64, ad.float32])
    assert single.eps == 2.0**-8
    assert single.atol == pytest.approx(8 * 2 ** (-23 * 2 / 3))
    assert single.rtol == 1e-3
    assert single.steps(np.array([0.0, 0.5, 3.0, -4.0])).tolist() == [
        2.0**-8,
        2.0**-8,
        2.0**-6,
        2.0**-6,
    ]
    at = np.array([0.5, 4.0, -40.0])
    assert (single.absolute(np.array([0.5]), at) == single.atol).all()
    expected = np.array([20.0, 5.0, 1.0]) * single.atol
    np.testing.assert_allclose(single.absolute(np.array([-20.0, np.inf]), at), expected)
    half = fit(_EPS, _ATOL, _RTOL, [ad.float16])
    assert half.eps == 2.0**-3
    assert half.rtol == half.atol == pytest.approx(8 * 2 ** (-20 / 3))
    # A number given by the caller is meant, also if it equals the default.
    given = fit(1e-6, 1e-5, 1e-3, [ad.float32])
    assert (given.eps, given.atol, given.rtol) == (1e-6, 1e-5, 1e-3)
    assert given.steps(np.array([3.0])).tolist() == [1e-6]


def test_rounding_is_named_when_the_step_is_too_small_for_the_dtype() -> None:
    x = leaf(3, dtype=ad.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        message = cause(failure(lambda x: x.sin(), (x,), eps=1e-6, atol=1e-5, rtol=1e-3))
        assert message.startswith("rounding: with a step of 1e-06 in torch.float32")
        assert "leave eps, atol and rtol out" in message
        message = cause(failure(lambda x: x * 1000, (x.detach() * 1e4).requires_grad_(), eps=1e-6))
        assert "a step of 1e-06 does not change an input of" in message


# ---------------------------------------------------------------------------------------------
# Second derivatives


@both_modes
def test_second_derivatives_that_are_cut_are_found(fast: bool) -> None:
    """The first derivative is right, but its hook leaves the graph."""

    def func(x: Any) -> Any:
        y = x.clone()
        y.register_hook(lambda g: None if g is None else g * 2 * x.detach())
        return y + (x * x - x).detach()

    x = leaf(3)
    assert gradcheck(func, (x,), fast_mode=fast)
    message = failure(func, (x,), gradgradcheck, fast_mode=fast)
    assert "Jacobian mismatch for output 0 with respect to input 0" in message
    assert message.splitlines()[-1] == (
        "  in gradgradcheck, output i is the gradient of the i-th input that requires grad, and "
        "inputs from 1 on are grad_outputs"
    )


def test_the_warning_of_a_coarse_dtype_points_at_the_caller() -> None:
    with pytest.warns(UserWarning, match="Input #. requires gradient") as caught:
        gradgradcheck(lambda x: x * x, (leaf(2, dtype=ad.float32),))
    assert {warning.filename for warning in caught} == {__file__}


@both_modes
def test_weights_of_the_outputs_may_be_given(fast: bool) -> None:
    x, weight = leaf(3), leaf(3, seed=5)
    assert gradgradcheck(lambda x: x.sin(), (x,), weight, fast_mode=fast)
    assert gradgradcheck(lambda x: (x.sin(), x**2), (x,), [weight, leaf(3)], fast_mode=fast)
    assert gradgradcheck(lambda x: x.sin(), (x,), gen_non_contig_grad_outputs=True, fast_mode=fast)
    fixed = weight.detach()
    assert gradgradcheck(lambda x: x.sin(), (x,), fixed, fast_mode=fast)
