"""Functions that would get a wrong derivative without a word: each is put right, or refused.

Read first: test_external_methods.py, how exact the derivatives are.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes.util
import pickle
import sys
from typing import Any

import numpy as np
import pytest

import adjoint as ad
from adjoint.external import CommandError, ExternalError


def leaf(values: Any, dtype: Any = ad.float64) -> ad.Tensor:
    return ad.tensor(values, dtype=dtype, requires_grad=True)


def gradient(f: Any, x: Any, *others: Any) -> Any:
    t = leaf(x)
    f(t, *others).sum().backward()
    return t.grad.numpy()


# --- what was verified holds for what it was verified of ------------------------------------------


def test_one_element_does_not_make_a_function_elementwise() -> None:
    f = ad.external(np.cumsum, elementwise=True)
    gradient(f, [1.0])
    with pytest.raises(ExternalError, match="is not elementwise"):
        gradient(f, [1.0, 2.0, 3.0])


def test_elementwise_in_one_argument_is_not_so_in_another() -> None:
    f = ad.external(lambda x, k: x * k.sum(), elementwise=True)
    gradient(f, [1.0, 2.0], ad.tensor([3.0, 4.0]).double())
    k = leaf([3.0, 4.0])
    with pytest.raises(ExternalError, match="is not elementwise"):
        f(ad.tensor([1.0, 2.0]).double(), k).sum().backward()


@pytest.mark.parametrize("other", [0, 1, 50, 98, 99])
def test_one_neighbour_among_many_elements_is_seen(other: int) -> None:
    def f(x: Any) -> Any:
        y = np.sin(x)
        y[7] += x[other]
        return y

    with pytest.raises(ExternalError, match=r"output\[7\] changed"):
        gradient(ad.external(f, elementwise=True), np.linspace(1, 2, 100))


@pytest.mark.parametrize("n", [1, 2, 3, 64, 1000])
def test_cost_knows_what_verifying_elements_takes(n: int) -> None:
    count = 0

    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        return np.sin(x)

    e = ad.external(f, elementwise=True, probe=False)
    cost = e.cost(leaf(np.linspace(1, 2, n)))
    gradient(e, np.linspace(1, 2, n))
    assert count == cost.forward + cost.vjp + cost.first


def test_analytic_in_one_argument_is_not_so_in_another() -> None:
    f = ad.external(lambda x, k: x * np.sqrt(k * np.conj(k)), derivative="complex-step")
    gradient(f, [1.0, 2.0], ad.tensor([3.0, 4.0]).double())
    with pytest.raises(ExternalError, match="not analytic"):
        f(ad.tensor([1.0, 2.0]).double(), leaf([3.0, 4.0])).sum().backward()


@pytest.mark.parametrize("options", [{"noise": 1e-6}, {"step": 1e-2}])
def test_complex_steps_are_not_refused_for_long_steps(options: Any) -> None:
    f = ad.external(np.sin, derivative="complex-step", **options)
    np.testing.assert_allclose(gradient(f, [0.3, 1.2]), np.cos([0.3, 1.2]), rtol=1e-14)


def test_a_right_pattern_is_not_refused_for_long_steps() -> None:
    pattern = np.hstack([np.eye(3), np.ones((3, 1))])
    f = ad.external(lambda x, k: x**2 * k, sparsity=pattern)
    x, k = leaf([1.0, 2.0, 3.0]), leaf([2.0])
    f(x, k).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [4.0, 8.0, 12.0])
    np.testing.assert_allclose(k.grad.numpy(), [14.0])


def test_a_pattern_of_all_inputs_serves_for_some() -> None:
    pattern = np.hstack([np.eye(3), np.ones((3, 1))])
    f = ad.external(lambda x, k: x**2 * k, sparsity=pattern)
    k = ad.tensor([2.0]).double()
    assert f.cost(leaf([1.0, 2.0, 3.0]), k).vjp == 2 + 2
    np.testing.assert_allclose(gradient(f, [1.0, 2.0, 3.0], k), [4.0, 8.0, 12.0])


# --- memory that is used again --------------------------------------------------------------------


def test_an_elementwise_function_may_return_one_buffer_in_each_call() -> None:
    buffer = np.empty(3)
    f = ad.external(lambda x: np.sin(x, out=buffer), elementwise=True)
    for _ in range(3):
        np.testing.assert_allclose(gradient(f, [0.1, 0.2, 0.3]), np.cos([0.1, 0.2, 0.3]))


@pytest.mark.parametrize("c", [np.array([1, 1]), np.array([1.0, 1.0]), ad.tensor([1, 1])])
def test_arguments_that_are_no_inputs_are_not_changed_either(c: Any) -> None:
    def f(x: Any, c: Any) -> Any:
        c += 1
        return x * c

    with pytest.raises(ValueError, match="writable=True"):
        ad.external(f)(leaf([1.0, 2.0]), c)
    np.testing.assert_allclose(gradient(ad.external(f, writable=True), [1.0, 2.0], c), [2.0, 2.0])
    assert c.tolist() == [1, 1]


def test_a_static_array_may_be_written_to() -> None:
    def f(x: Any, work: Any) -> Any:
        work[:] = x
        return work**2

    f = ad.external(f, static="work")
    np.testing.assert_allclose(gradient(f, [1.0, 2.0], np.zeros(2)), [2.0, 4.0], rtol=1e-9)


# --- steps and estimates --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "slope", "limit"),
    [
        (lambda x: x**2, lambda x: 2 * x, 1e-7),
        (lambda x: 1e6 + np.sin(x), np.cos, 1e-4),
        (lambda x: np.sin(1e6 * x), lambda x: 1e6 * np.cos(1e6 * x), 1e-4),
    ],
)
def test_forward_steps_follow_the_second_derivative(f: Any, slope: Any, limit: float) -> None:
    x = np.array([0.1, 0.7, 2.0])
    expected = slope(x)
    found = gradient(ad.external(f, derivative="forward"), x)
    assert np.max(np.abs(found - expected)) < limit * np.max(np.abs(expected))


def test_a_bound_is_a_number_of_the_input_s_dtype() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(x.max())
        return np.sin(x)

    x = leaf([0.1], ad.float32)
    ad.external(f, bounds=(0, 0.1))(x).sum().backward()
    assert max(seen) == np.float32(0.1)
    assert abs(x.grad.item() - np.cos(0.1)) < 1e-3


def test_the_error_of_an_extrapolation_is_not_below_the_noise() -> None:
    f = ad.external(lambda x: np.round(np.sin(x), 6), derivative="richardson", noise=1e-6)
    x = np.array([0.5, 1.0, 3.0])
    off = np.abs(gradient(f, x) - np.cos(x))
    assert (off <= 10 * np.diag(f.error)).all() and (np.diag(f.error) < 1e-3).all()


# --- functions of libraries and programs ----------------------------------------------------------


def test_ufuncs_broadcast() -> None:
    hypot = ad.numpy_function(np.hypot)
    x, k = leaf([3.0, 4.0]), leaf(2.0)
    hypot(x, k).sum().backward()
    x0 = x.detach().numpy()
    np.testing.assert_allclose(x.grad.numpy(), x0 / np.hypot(x0, 2), rtol=1e-8)
    np.testing.assert_allclose(k.grad.item(), (2 / np.hypot(x0, 2)).sum(), rtol=1e-8)
    np.testing.assert_allclose(gradient(ad.numpy_function(np.power), [2.0, 3.0], 3), [12, 27])
    with pytest.raises(TypeError, match="unexpected keyword argument 'steps'"):
        ad.numpy_function(np.hypot, steps=1)


def test_products_of_matrices_are_no_elementwise_ufuncs() -> None:
    A = leaf([[3.0, 4.0], [1.0, 2.0]])
    ad.numpy_function(np.matmul)(A, ad.tensor([1.0, 2.0]).double()).sum().backward()
    np.testing.assert_allclose(A.grad.numpy(), [[1.0, 2.0], [1.0, 2.0]], rtol=1e-8)


def test_routines_take_their_arguments_by_name() -> None:
    m = ctypes.util.find_library("m")
    hypot = ad.ctypes_function(m, "hypot", ["double x", "double y"], restype="double")
    x, y = leaf(3.0), leaf(4.0)
    hypot(y=y, x=x).backward()
    np.testing.assert_allclose([x.grad.item(), y.grad.item()], [0.6, 0.8], rtol=1e-8)


def test_externals_are_copied_and_pickled() -> None:
    f = ad.external(np.sin, workers="threads")
    for other in (copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        np.testing.assert_allclose(gradient(other, [1.0]), np.cos([1.0]))
        other.close()


def test_a_program_is_run_again(tmp_path: Any) -> None:
    mark = tmp_path / "mark"
    code = (
        f"import os, sys; first = not os.path.exists({str(mark)!r}); open({str(mark)!r}, 'w');"
        "sys.exit(3) if first else print(7)"
    ).replace("{", "{{")
    with pytest.raises(CommandError, match="exited with code 3"):
        ad.command([sys.executable, "-c", code], format="text")(np.ones(1))
    mark.unlink()
    assert ad.command([sys.executable, "-c", code], format="text", retries=1)(np.ones(1)) == 7
    with pytest.raises(ValueError, match="retries="):
        ad.command(["true"], retries=-1)


@pytest.mark.parametrize("format", ["text", "csv", "json", "npy"])
def test_a_program_that_writes_nothing_failed(format: str) -> None:
    with pytest.raises(CommandError, match=f"standard output is not {format}"):
        ad.command([sys.executable, "-c", "pass"], format=format)(np.ones(2))


@pytest.mark.parametrize("template", ["print({})", "print({0})", "{", "a } b"])
def test_templates_with_other_braces_say_that_they_are_doubled(template: str) -> None:
    with pytest.raises(ValueError, match="are doubled"):
        ad.command(["echo", template])


def test_numbers_among_the_arguments_may_be_formatted() -> None:
    code = "import sys; print(sys.argv[1])"
    f = ad.command([sys.executable, "-c", code, "{x:.2f}"], format="text", inputs=["x"])
    assert f(np.float64(1.23456)) == 1.23


# --- functions that vary quickly, or have few digits ----------------------------------------------

QUICK = (lambda x: np.sin(1e6 * x), lambda x: 1e6 * np.cos(1e6 * x), 1e-5)
DIGITS = (lambda x: np.round(np.sin(x), 6), np.cos, 2e-3)
PLAIN = (np.sin, np.cos, 1e-6)


@pytest.mark.parametrize("case", [QUICK, DIGITS, PLAIN])
@pytest.mark.parametrize(
    "options",
    [{}, {"elementwise": True}, {"sparsity": np.eye(3)}, {"derivative": "richardson"}],
    ids=lambda o: next(iter(o), "central"),
)
def test_every_way_looks_at_the_function_first(case: Any, options: Any) -> None:
    function, slope, limit = case
    f = ad.external(function, **options)
    x = np.array([0.3, 0.7, 1.9])
    expected = slope(x)
    for _ in range(2):  # an elementwise function takes a quicker way from the second one on
        off = np.abs(gradient(f, x) - expected)
        assert off.max() < limit * np.abs(expected).max()
    if "derivative" in options:
        assert (off <= 100 * np.diag(f.error)).all()
    t = ad.tensor(x)
    _, along = ad.func.jvp(f, (t,), (ad.ones_like(t),))
    assert np.abs(along.numpy() - expected).max() < limit * np.abs(expected).max()


@pytest.mark.parametrize(("case", "limit"), [(QUICK, 1e-2), (DIGITS, 0.01), (PLAIN, 1e-6)])
def test_second_derivatives_know_how_quickly_a_function_varies(case: Any, limit: float) -> None:
    x = ad.tensor([0.3, 0.7, 1.9]).double()
    told = contextlib.nullcontext()
    if case is DIGITS:  # six digits do not give the five of a second derivative
        told = pytest.warns(UserWarning, match="by more than 1e-05 of its largest")
    with told:
        found = ad.func.hessian(lambda x: ad.external(case[0])(x).sum())(x).numpy()
    scale = 1e6 if case is QUICK else 1.0
    expected = -(scale**2) * np.sin(scale * x.numpy())
    assert np.abs(np.diag(found) - expected).max() < limit * np.abs(expected).max()


def test_a_direction_through_several_arrays_takes_no_longer_steps_than_they_allow() -> None:
    f = ad.external(lambda x, k: x**2 * k)
    x, k = ad.tensor([1.0, 2.0, 3.0]).double(), ad.tensor(2.0).double()
    _, along = ad.func.jvp(f, (x, k), (ad.ones_like(x), ad.ones_like(k)))
    np.testing.assert_allclose(along.numpy(), (2 * x * k + x**2).numpy(), rtol=1e-8)


def test_complex_steps_are_not_refused_for_a_function_that_varies_quickly() -> None:
    f = ad.external(QUICK[0], derivative="complex-step")
    x = np.array([0.3, 0.7, 1.9])
    np.testing.assert_allclose(gradient(f, x), QUICK[1](x), rtol=1e-9)


@pytest.mark.parametrize("derivative", ["central", "forward"])
def test_steps_are_not_longer_than_what_was_tried(derivative: str) -> None:
    f = ad.external(lambda x: np.where(x > 1, np.nan, x), derivative=derivative)
    np.testing.assert_allclose(gradient(f, [0.5, 0.9]), [1.0, 1.0], rtol=1e-6)


def test_check_knows_that_both_modes_are_differences() -> None:
    f = ad.external(lambda x: np.round(np.sin(x), 5))
    report = ad.check(f, ad.tensor([0.5, -1.5, 2.0]).double(), order=1)
    assert report.verdict == "right", str(report)


def test_check_takes_a_bound_as_a_number_of_the_input_s_dtype() -> None:
    assert ad.check(lambda x: x.sqrt(), ad.tensor([0.1]), bounds=(0, 0.1), order=1).ok


def test_an_array_without_elements_beside_another_one() -> None:
    f = ad.external(lambda x, k: k**2 + x.sum())
    for _ in range(2):
        x, k = leaf(np.zeros(0)), leaf([1.0, 2.0])
        f(x, k).sum().backward()
        np.testing.assert_allclose(k.grad.numpy(), [2.0, 4.0])
        assert x.grad.shape == (0,)


@pytest.mark.parametrize(
    "options",
    [{}, {"elementwise": True}, {"sparsity": np.eye(3)}, {"derivative": "forward"}],
    ids=lambda o: next(iter(o), "central"),
)
def test_outputs_that_are_nan_and_not_used_do_not_matter(options: Any) -> None:
    land = np.array([False, True, False])
    f = ad.external(lambda x: np.where(land, np.nan, x**2), **options)
    for _ in range(2):
        x = leaf([1.0, 2.0, 3.0])
        y = f(x)
        (y[0] + y[2]).backward()
        np.testing.assert_allclose(x.grad.numpy(), [2.0, 0.0, 6.0], atol=1e-6)
    x = leaf([1.0, 2.0, 3.0])
    f(x).sum().backward()
    assert np.isnan(x.grad.numpy()[1])


# --- batches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"derivative": "forward"}, {"sparsity": np.ones((3, 3))}])
def test_a_batch_costs_what_a_sample_costs(options: Any) -> None:
    def f(k: Any, x: Any) -> Any:
        return k[..., None] * np.sin(x) * x.sum(-1, keepdims=True)

    def loss(f: Any) -> Any:
        grad = ad.func.grad(lambda k, x: f(k, x).sum(), argnums=(0, 1))
        return ad.func.vmap(grad, in_dims=(None, 0))

    e = ad.external(f, batched=True, probe=False, **options)
    x, k = ad.linspace(0.5, 2, 60).double().reshape(20, 3), ad.tensor(2.0).double()
    found = loss(e)(k, x)
    # The call, whether it repeats, (a pair for) each of the four coordinates, one direction.
    assert e.evaluator.count == 2 + 4 * (1 if "derivative" in options else 2) + 2
    expected = loss(lambda k, x: k * x.sin() * x.sum())(k, x)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)
    twice = ad.func.vmap(lambda x: loss(e)(k, x)[1])(ad.stack([x, x + 0.1]))
    np.testing.assert_allclose(twice[0].numpy(), expected[1].numpy(), rtol=1e-5, atol=1e-6)


def test_samples_that_depend_on_one_another_are_refused() -> None:
    f = ad.external(lambda x: x - x.mean(0), batched=True)
    with pytest.raises(ExternalError, match="not independent"):
        ad.func.vmap(ad.func.grad(lambda x: (f(x) ** 2).sum()))(ad.rand(5, 3).double())
