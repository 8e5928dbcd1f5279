"""Differences by elements that are tiny beside the others of their array.

A step of such an element's own size may be lost in the rounding of the outputs; then the step of
the array is used instead, and only then.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as ad

X = [1.0, 1e-9, 1e-12, 3.0]
FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "squares": (np.square, lambda x: 2 * x),
    "sin": (np.sin, np.cos),
    "exp": (np.exp, np.exp),
}
DTYPES = {"f8": 1e-7, "f4": 2e-2}
METHODS = ["central", "forward", "richardson"]


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.function(*args)


def jacobian(function: Any, x: Any, **options: Any) -> Any:
    found = ad.external(function, **options).jacobian(ad.tensor(np.asarray(x))).numpy()
    return found[0] if len(found) == 1 else found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_sum(name: str, dtype: str, method: str) -> None:
    f, derivative = FUNCTIONS[name]
    x = np.array(X, dtype)
    found = jacobian(lambda x: f(x).sum(), x, derivative=method, probe=False)
    np.testing.assert_allclose(found, derivative(x), rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_with_chosen_steps(name: str, dtype: str) -> None:
    f, derivative = FUNCTIONS[name]
    x = np.array(X, dtype)
    found = jacobian(lambda x: f(x).sum(), x)
    np.testing.assert_allclose(found, derivative(x), rtol=DTYPES[dtype], atol=DTYPES[dtype])


def test_an_output_near_zero_has_the_rounding_of_what_it_is_made_of() -> None:
    x = np.array(X)
    found = jacobian(lambda x: (x**2).sum() - 10.0, x, probe=False)
    np.testing.assert_allclose(found, 2 * x, atol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_vectors(name: str, dtype: str, method: str) -> None:
    f, derivative = FUNCTIONS[name]
    x = np.array(X, dtype)
    found = jacobian(lambda x: np.append(f(x), f(x).sum()), x, derivative=method, probe=False)
    exact = np.vstack([np.diag(derivative(x)), derivative(x)])
    np.testing.assert_allclose(found, exact, rtol=DTYPES[dtype], atol=DTYPES[dtype])


@pytest.mark.parametrize("method", ["central", "forward"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_elementwise(name: str, dtype: str, method: str) -> None:
    f, derivative = FUNCTIONS[name]
    g = ad.external(f, elementwise=True, derivative=method)
    tolerance = DTYPES[dtype]
    for _ in range(2):  # the first derivative verifies, the second is quicker
        x = ad.tensor(np.array(X, dtype), requires_grad=True)
        g(x).sum().backward()
        exact = derivative(x.detach().numpy())
        np.testing.assert_allclose(x.grad.numpy(), exact, rtol=tolerance, atol=tolerance)


def test_elementwise_costs_more_only_if_something_is_lost() -> None:
    f = Counted(np.exp)
    g = ad.external(f, elementwise=True, probe=False, verify=False)

    def calls(values: Any) -> int:
        x = ad.tensor(np.array(values), requires_grad=True)
        y = g(x)
        before = f.calls
        y.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.exp(values), rtol=1e-7)
        return f.calls - before

    calls([1.0, 2.0, 3.0])
    assert calls([1.0, 2.0, 3.0]) == 2
    assert calls([1.0, 1e-12, 3.0]) == 4
    assert calls([1e-9, 0.0, 3e-9]) == 4
    assert calls([0.0, 0.0, 0.0]) == 2


@pytest.mark.parametrize("method", ["central", "forward"])
def test_a_sparse_jacobian(method: str) -> None:
    x = np.array(X)
    pattern = np.eye(4) + np.eye(4, k=1)

    def f(x: Any) -> Any:
        return np.exp(x) + np.append(np.cos(x[1:] + 1), 0.0)

    found = jacobian(f, x, sparsity=pattern, derivative=method)
    exact = np.diag(np.exp(x)) - np.diag(np.sin(x[1:] + 1), k=1)
    np.testing.assert_allclose(found, exact, atol=1e-6)


@pytest.mark.parametrize("tangent", [[1, 1, 1, 1], [0, 0, 1, 0], [0, 1, 0.5, 0]])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_along_a_direction(name: str, dtype: str, tangent: list[float]) -> None:
    f, derivative = FUNCTIONS[name]
    x, v = np.array(X, dtype), np.array(tangent, dtype)
    g = ad.external(lambda x: f(x).sum())
    _, found = ad.func.jvp(g, (ad.tensor(x),), (ad.tensor(v),))
    np.testing.assert_allclose(found.numpy(), derivative(x) @ v, rtol=2e-2, atol=DTYPES[dtype])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name: str) -> None:
    f, _ = FUNCTIONS[name]
    bend = {"squares": lambda x: 0 * x + 2, "sin": lambda x: -np.sin(x), "exp": np.exp}[name]
    g = ad.external(lambda x: f(x).sum(), probe=False)
    x = ad.tensor(np.array(X))
    found = ad.func.hessian(g)(x).numpy()
    np.testing.assert_allclose(found, np.diag(bend(np.array(X))), atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_array_of_nothing_but_tiny_numbers(name: str, method: str) -> None:
    f, derivative = FUNCTIONS[name]
    x = np.array([1e-12, 0.0, -3e-13])
    found = jacobian(lambda x: f(x).sum() + 1.0, x, derivative=method)
    np.testing.assert_allclose(found, derivative(x), atol=1e-3 if method == "forward" else 1e-7)
    g = ad.external(lambda x: f(x).sum() + 1.0)
    v = ad.tensor([1.0, 2.0, 3.0]).double()
    _, along = ad.func.jvp(g, (ad.tensor(x),), (v,))
    np.testing.assert_allclose(along.item(), derivative(x) @ v.numpy(), atol=1e-7)


def test_two_arguments_of_one_number_each() -> None:
    f = ad.external(lambda a, b: np.exp(a) + np.sin(b))
    a, b = (ad.tensor(v, dtype=ad.float64, requires_grad=True) for v in (1.0, 1e-12))
    f(a, b).backward()
    assert b.grad.item() == pytest.approx(1.0, rel=1e-8)


def test_a_noisy_function() -> None:
    def f(x: Any) -> Any:
        return np.exp(x).sum() * (1 + 1e-9 * np.sin(1e30 * (x @ [1.0, 1.7, 2.3, 0.6])))

    np.testing.assert_allclose(jacobian(f, X), np.exp(X), rtol=1e-3)


# --- where the element's own step is right --------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_a_domain_that_ends_near_the_element(method: str) -> None:
    x = np.array([1.0, 1e-9, 3.0])
    for f in (np.log, lambda x: np.array([math.log(v) for v in x])):
        found = jacobian(f, x, derivative=method)
        np.testing.assert_allclose(found, np.diag(1 / x), rtol=1e-5)
        total = jacobian(lambda x, f=f: f(x).sum(), x, derivative=method)
        np.testing.assert_allclose(total, 1 / x, rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_function_that_follows_the_element_closely(method: str) -> None:
    x = np.array([1.0, 1e-9, 3.0])
    found = jacobian(lambda x: np.exp(x[1] / 1e-9) + x[0], x, derivative=method)
    np.testing.assert_allclose(found, [1, math.e * 1e9, 0], rtol=1e-5, atol=1e-5)
    found = jacobian(lambda x: np.sin(x[1] / 1e-9) + 100 * x[0] * x[2], x, derivative=method)
    np.testing.assert_allclose(found, [300, math.cos(1) * 1e9, 100], rtol=1e-4)


def test_a_square_root_at_its_bound() -> None:
    x = np.array([1.0, 1e-12])
    found = jacobian(lambda x: np.sqrt(x).sum(), x, bounds=(0, None))
    np.testing.assert_allclose(found, 0.5 / np.sqrt(x), rtol=1e-3)


def test_a_function_of_small_numbers_keeps_its_scale() -> None:
    x = np.array([1e-9, 2e-9])
    seen: list[float] = []

    def f(x: Any) -> Any:
        seen.append(float(np.abs(x).max()))
        return np.append(np.sin(x * 1e9), 1.0)  # one output that does not depend on them

    found = jacobian(f, x, probe=False)
    np.testing.assert_allclose(found[:2], np.diag(np.cos(x * 1e9) * 1e9), rtol=1e-8)
    assert max(seen) < 3e-9
    ad.func.jvp(ad.external(f), (ad.tensor(x),), (ad.tensor(x),))
    assert max(seen) < 3e-9


# --- what it costs, what is said ------------------------------------------------------------------


def evaluations(function: Any, x: Any, **options: Any) -> int:
    f = Counted(function)
    jacobian(f, x, probe=False, noise=1e-16, **options)
    return f.calls - 1


def test_only_lost_columns_cost_more() -> None:
    def total(x: Any) -> Any:
        return np.exp(x).sum()

    assert evaluations(total, [1.0, 2.0, 3.0]) == 6
    assert evaluations(total, [1.0, 1e-3, 0.0]) == 6
    assert evaluations(total, X) == 8 + 4
    assert evaluations(total, X, derivative="forward") == 4 + 2
    assert evaluations(lambda x: np.exp(x * [1, 1e9, 1e12, 1]).sum(), X) == 8  # nothing is lost


@pytest.mark.parametrize("option", [{"scale": [1, 1e-9, 1e-12, 1]}, {"step": 1e-6}])
def test_what_the_user_says_is_not_second_guessed(option: dict[str, Any]) -> None:
    assert evaluations(lambda x: np.exp(x).sum(), X, **option) == 8


def test_bounds_hold() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        seen.append(float(x.min()))
        return np.exp(x).sum()

    found = jacobian(f, X, bounds=(0, None))
    np.testing.assert_allclose(found, np.exp(X), rtol=1e-6)
    assert min(seen) >= 0


def test_on_workers() -> None:
    f = ad.external(lambda x: np.exp(x).sum(), workers="threads")
    try:
        found = f.jacobian(ad.tensor(np.array(X))).numpy()
    finally:
        f.close()
    np.testing.assert_allclose(found[0], np.exp(X), rtol=1e-7)


def test_the_cost_is_told() -> None:
    f = ad.external(lambda x: np.exp(x).sum())
    x = ad.tensor(np.array(X), requires_grad=True)
    assert (f.cost(x).vjp, f.cost(x).jvp) == (8 + 4 + 2, 3 * 2 + 2 * 2 + 2)  # three sizes, two tiny
    assert "at most 14 more" in str(f.cost(x))
    plain = ad.tensor([1.0, 2.0], requires_grad=True)
    assert f.cost(plain).vjp == 4 + 2
    assert "at most" not in str(f.cost(plain))


def barrier(x: Any) -> Any:
    """Fails for an element below zero, and its size hides what the tiny one does."""
    if (x < 0).any():
        raise ValueError("negative")
    return x.sum() * 1e3


@pytest.mark.parametrize("method", ["central", "richardson"])
def test_a_derivative_that_cannot_be_found_is_a_warning(method: str) -> None:
    with pytest.warns(UserWarning, match=r"by x\[1\] = 1e-17 may be wrong.*\n.*scale="):
        jacobian(lambda x: barrier(x), np.array([1.0, 1e-17]), derivative=method)
    found = jacobian(barrier, np.array([1.0, 1e-17]), derivative=method, bounds=(0, None))
    np.testing.assert_allclose(found, [1e3, 1e3], rtol=1e-6)


def test_a_warning_along_a_direction() -> None:
    f = ad.external(lambda x: barrier(x))
    x, v = ad.tensor([1.0, 1e-17]).double(), ad.tensor([0.0, 1.0]).double()
    with pytest.warns(UserWarning, match=r"by x\[1\] = 1e-17 may be wrong"):
        ad.func.jvp(f, (x,), (v,))


def test_a_warning_of_a_sparse_jacobian() -> None:
    f = ad.external(lambda x: barrier(x)[None], sparsity=np.ones((1, 2)))
    with pytest.warns(UserWarning, match=r"by x\[1\] = 1e-17 may be wrong"):
        f.jacobian(ad.tensor([1.0, 1e-17]).double())


def raising(x: Any) -> Any:
    if (x < 0).any():
        raise ValueError("negative")
    return np.exp(x)


def test_a_warning_of_an_elementwise_function() -> None:
    f = ad.external(lambda x: raising(x), elementwise=True)
    for _ in range(2):
        x = ad.tensor([1.0, 1e-17], dtype=ad.float64, requires_grad=True)
        with pytest.warns(UserWarning, match=r"by x\[1\] = 1e-17 may be wrong"):
            f(x).sum().backward()


def test_random_directions_do_not_drown_a_tiny_element() -> None:
    f = ad.external(lambda x: x.sum(), derivative="spsa", directions=50, seed=0)
    x = ad.tensor([1.0, 1e-12], dtype=ad.float64, requires_grad=True)
    f(x).backward()
    assert abs(x.grad[1].item() - 1) < 1


def test_a_second_derivative_that_cannot_be_found_is_a_warning() -> None:
    f = ad.external(
        lambda x: barrier(x) ** 2, vjp=lambda g, x: g * 2e3 * barrier(x) * np.ones_like(x)
    )
    x = ad.tensor([1.0, 1e-17]).double()
    with pytest.warns(UserWarning, match=r"by x\[1\] = 1e-17 may be wrong"):
        ad.func.hessian(f)(x)
