"""How exact the derivatives of externals are, what they refuse, and where they evaluate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

External = Any


def gradient(f: External, x: Any, dtype: Any = ad.float64) -> Any:
    t = ad.tensor(x, dtype=dtype, requires_grad=True)
    f(t).sum().backward()
    return t.grad.numpy()


def error(f: External, x: Any, expected: Any, dtype: Any = ad.float64) -> float:
    """The largest error, relative to the largest derivative."""
    expected = np.asarray(expected)
    return float(np.max(np.abs(gradient(f, x, dtype) - expected)) / np.max(np.abs(expected)))


X = [0.3, -1.2, 2.5]


@pytest.mark.parametrize(
    ("method", "bound64", "bound32"),
    [
        ("forward", 1e-6, 1e-2),
        ("central", 1e-9, 1e-3),
        ("complex-step", 1e-15, 1e-6),
        ("richardson", 1e-11, 1e-4),
    ],
)
def test_errors_are_those_of_the_method(method: str, bound64: float, bound32: float) -> None:
    expected = np.exp(X) * (np.sin(X) + np.cos(X))
    f = ad.external(lambda x: np.exp(x) * np.sin(x), derivative=method)
    assert error(f, X, expected) < bound64
    assert error(f, X, expected, ad.float32) < bound32


# Functions whose natural step is far from the usual one; a fixed step is good for one of them.
CASES: dict[str, tuple[Any, Any, list[float], Any]] = {
    "smooth": (np.sin, np.cos, [1.0], ad.float64),
    "float32": (np.sin, np.cos, [1.0], ad.float32),
    "fast": (lambda x: np.sin(1e3 * x), lambda x: 1e3 * np.cos(1e3 * x), [1.0], ad.float64),
    "slow": (lambda x: np.sin(1e-3 * x), lambda x: 1e-3 * np.cos(1e-3 * x), [1.0], ad.float64),
    "large": (lambda x: np.sin(x / 1e8), lambda x: np.cos(x / 1e8) / 1e8, [1e8], ad.float64),
    "small": (lambda x: np.sin(x / 1e-8), lambda x: np.cos(x / 1e-8) / 1e-8, [1e-8], ad.float64),
    "offset": (lambda x: 1e6 + np.sin(x), np.cos, [1.0], ad.float64),
    "digits": (lambda x: np.round(np.sin(x), 6), np.cos, [1.0], ad.float64),
    "pole": (lambda x: 1 / (x - 0.85123), lambda x: -1 / (x - 0.85123) ** 2, [1.0], ad.float64),
}


@pytest.mark.parametrize("case", CASES)
def test_the_default_is_near_the_best_fixed_step(case: str) -> None:
    f, d, points, dtype = CASES[case]
    xs = [p * s for p in points for s in (0.97, 1.0, 1.013, 1.05, 1.11)]

    def worst(**options: Any) -> float:
        return max(error(ad.external(f, **options), [x], [d(x)], dtype) for x in xs)

    best = min(
        worst(step=points[0] * 10.0**k)
        for k in np.arange(-9, 0, 0.5)
        if dtype is ad.float64 or k > -6
    )
    assert worst() <= 10 * best


@pytest.mark.parametrize("method", ["forward", "central", "richardson"])
def test_bounds_are_never_left(method: str) -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(x.copy())
        return np.sqrt(x * (1 - x) + 0.25 * x)

    x = np.array([1e-9, 0.2, 1.0])
    f_ = ad.external(f, derivative=method, bounds=(0, 1))
    found = gradient(f_, x)
    assert all((p >= 0).all() and (p <= 1).all() for p in seen)
    expected = (1.25 - 2 * x) / (2 * np.sqrt(1.25 * x - x * x))
    np.testing.assert_allclose(found[1:], expected[1:], rtol=1e-5)


def test_bounds_by_argument_and_one_sided_at_the_edge() -> None:
    def f(x: Any, k: Any) -> Any:
        assert (k >= 0).all()
        return x * np.exp(-k)

    x = ad.tensor([1.0, 2.0], dtype=ad.float64, requires_grad=True)
    k = ad.tensor([0.0, 1.0], dtype=ad.float64, requires_grad=True)
    ad.external(f, bounds={"k": (0, None)})(x, k).sum().backward()
    np.testing.assert_allclose(k.grad.numpy(), -x.detach().numpy() * np.exp([0.0, -1.0]), rtol=1e-7)


def test_mistakes_in_bounds_and_steps_are_named() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"bounds": (0, 1)}, r"x\[1\] = 2 is outside its bounds \[0, 1\]"),
        ({"bounds": 3}, r"bounds= takes \(low, high\)"),
        ({"bounds": {"q": (0, 1)}}, r"bounds= names 'q', but the arguments of .* are 'x'"),
        ({"step": -1.0}, "step= must be positive"),
        ({"scale": 0.0}, "scale= must be positive"),
        ({"step": [1.0, 2.0, 3.0]}, r"step= for x has shape \[3\], the input \[2\]"),
        ({"step": 1e-30}, r"no room to step x\[0\] = 1 \(float64\)"),
    ]
    for options, message in cases:
        with pytest.raises(ValueError, match=message):
            gradient(ad.external(lambda x: x**2, **options), [1.0, 2.0])


def test_a_scale_helps_a_zero() -> None:
    f = ad.external(lambda x: np.sin(x / 1e-9), scale=1e-9, probe=False)
    np.testing.assert_allclose(gradient(f, [0.0]), [1e9], rtol=1e-8)


def test_a_complex_step_of_a_steep_function_is_no_reason_to_refuse_it() -> None:
    """The central differences that it is compared with are off by more than a millionth."""
    f = ad.external(lambda x: np.sin(1e4 * x), derivative="complex-step")
    x = np.array([0.3, 0.5])
    np.testing.assert_allclose(gradient(f, x), 1e4 * np.cos(1e4 * x), rtol=1e-10)


def test_complex_steps_are_refused_when_the_imaginary_part_is_dropped() -> None:
    dropped: list[Any] = [
        lambda x: x.real**2,
        lambda x: np.asarray(x).astype(float) ** 2,
        lambda x: np.array([float(v) for v in x]),
    ]
    for f in dropped:
        with pytest.raises(
            ad.external.ExternalError, match=r"refused: .* drops the imaginary part"
        ):
            gradient(ad.external(f, derivative="complex-step"), [1.0, 2.0])
    with pytest.raises(ad.external.ExternalError, match="not analytic"):
        gradient(ad.external(lambda x: x * np.conj(x), derivative="complex-step"), [1.0, 2.0])
    mixed = ad.external(
        lambda x: np.exp(100 * x) + 1e37 * x * np.conj(x), derivative="complex-step"
    )
    with pytest.raises(ad.external.ExternalError, match="not analytic"):
        gradient(mixed, [0.9, 0.8])
    with pytest.raises(TypeError, match="needs real inputs"):
        z = ad.tensor([1j], requires_grad=True)
        ad.external(np.sin, derivative="complex-step")(z).abs().sum().backward()


def test_richardson_estimates_its_error() -> None:
    f = ad.external(lambda x: np.exp(np.sin(3 * x)), derivative="richardson")
    x = np.array([0.1, 0.5, 0.9])
    true = 3 * np.cos(3 * x) * np.exp(np.sin(3 * x))
    found = gradient(f, x)
    assert f.error.shape == (3, 3) and (f.error < 1e-8).all()
    assert (np.abs(found - true) <= 10 * np.diag(f.error) + 1e-13).all()


def test_spsa_estimates_with_few_evaluations() -> None:
    f = ad.external(lambda x: (x**2).sum(), derivative="spsa", directions=400)
    x = np.linspace(0.5, 1.5, 20)
    found = gradient(f, x)
    assert np.linalg.norm(found - 2 * x) < 0.4 * np.linalg.norm(2 * x)
    again = ad.external(lambda x: (x**2).sum(), derivative="spsa", directions=400)
    np.testing.assert_array_equal(found, gradient(again, x))


def test_elementwise_is_verified() -> None:
    f = ad.external(lambda x: np.tanh(x) * x, elementwise=True)
    x = np.linspace(-2, 2, 1001).reshape(7, 143)
    np.testing.assert_allclose(gradient(f, x), np.tanh(x) + x / np.cosh(x) ** 2, atol=1e-8)
    for n in (2, 5, 300):
        with pytest.raises(ad.external.ExternalError, match="is not elementwise: output"):
            gradient(ad.external(lambda x: x * np.roll(x, 1), elementwise=True), np.ones(n) * 2)
    with pytest.raises(ad.external.ExternalError, match="keeps the shape"):
        gradient(ad.external(lambda x: x.sum(), elementwise=True), [1.0, 2.0])


def heat(x: Any) -> Any:
    y = -2 * x**2
    y[1:] += x[:-1]
    y[:-1] += x[1:]
    return y


def test_a_sparse_jacobian_costs_its_colours() -> None:
    n = 60
    pattern = np.eye(n, dtype=bool) | np.eye(n, k=1, dtype=bool) | np.eye(n, k=-1, dtype=bool)
    f = ad.external(heat, sparsity=pattern, probe=False)
    x = ad.tensor(np.linspace(1, 2, n), requires_grad=True)
    assert f.cost(x).vjp == 6 + 2  # a pair verifies the pattern
    expected = np.diag(-4 * x.detach().numpy()) + np.eye(n, k=1) + np.eye(n, k=-1)
    np.testing.assert_allclose(f.jacobian(x).numpy(), expected, atol=1e-8)
    assert f.evaluator.count == 1 + 6 + 3


def test_a_pattern_that_misses_entries_is_found() -> None:
    with pytest.raises(ad.external.ExternalError, match="sparsity= misses entries: output"):
        gradient(ad.external(heat, sparsity=np.eye(6)), np.linspace(1, 2, 6))
    with pytest.raises(ValueError, match=r"sparsity= has shape \[2, 2\]; .* has \[6, 6\]"):
        gradient(ad.external(heat, sparsity=np.eye(2)), np.linspace(1, 2, 6))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda x: np.where(x > 1, np.nan, x), r"returned nan for output\[1\] at x\[1\] \+ 0.001"),
        (lambda x: x if x[1] <= 1 else x[:1], r"output of shape \[1\] at x\[1\] \+ 0.001"),
        (lambda x: x if x[1] <= 1 else x.astype("f4"), r"dtype float32 at x\[1\] \+ 0.001"),
        (lambda x: x if x[1] <= 1 else (x, x), r"another form at x\[1\] \+ 0.001"),
        (lambda x: x if x[1] <= 1 else 1 // 0, r"failed at x\[1\] \+ 0.001: ZeroDivisionError"),
    ],
)
def test_a_bad_evaluation_names_the_perturbed_input(bad: Any, message: str) -> None:
    with pytest.raises(ad.external.EvaluationError, match=message) as caught:
        gradient(ad.external(bad, step=1e-3), [0.5, 1.0])
    assert caught.value.where == "x[1] + 0.001"


def test_a_fresh_result_is_not_copied() -> None:
    kept: list[int] = []

    def f(x: Any) -> Any:
        y = np.sin(x)
        kept.append(y.ctypes.data)
        return y

    y = ad.external(f)(ad.rand(1000, dtype=ad.float64))
    assert y.data_ptr() == kept[0]


def test_magnitudes_whose_squares_overflow() -> None:
    x = ad.tensor([1e200, 1e-200, 0.0], dtype=ad.float64, requires_grad=True)
    ad.external(lambda x: 3 * x)(x).sum().backward()
    assert x.grad is not None and ad.allclose(x.grad, ad.full((3,), 3.0, dtype=ad.float64))


@pytest.mark.parametrize(("dtype", "allowed"), [(np.float64, 1e-7), (np.float32, 1e-2)])
@pytest.mark.parametrize("start", [[1.0], [1.0, 1.0, 1.0003], [1.0, 2.0]])
def test_steps_at_a_bound_suit_the_function(dtype: Any, allowed: float, start: list[float]) -> None:
    """It varies over 1e-3: the step of the rule is far too long, and there is one side only."""
    inputs: list[Any] = []

    def f(x: Any) -> Any:
        inputs.append(x)
        return np.exp(-1000 * (x - 1)) + 3 * x

    x = ad.tensor(np.asarray(start, dtype), requires_grad=True)
    e = ad.external(f, bounds=(1.0, None))
    assert e.cost(x).first == 21  # does it repeat; five pairs, as a rule, and five at the bound
    e(x).sum().backward()
    assert min(v.min() for v in inputs) >= 1
    expected = 3 - 1000 * np.exp(-1000 * (np.asarray(start, dtype).astype(float) - 1))
    np.testing.assert_allclose(x.grad, expected, allowed)
