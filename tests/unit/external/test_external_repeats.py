"""An external has to return the same for the same input, unless it is said how noisy it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as ad

_STREAM = np.random.default_rng(7)


def restless(x: Any) -> Any:
    """Random: another value at every call, in every process."""
    return x + _STREAM.standard_normal(np.shape(x))


def leaf(*values: float, dtype: Any = ad.float64) -> Any:
    return ad.tensor(values, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"derivative": "forward"},
        {"derivative": "richardson"},
        {"derivative": "complex-step"},
        {"derivative": "spsa"},
        {"elementwise": True},
        {"sparsity": np.eye(2)},
        {"step": 1e-3},
        {"probe": False},
        {"batched": True},
        {"workers": "threads"},
        {"workers": 2},
        {"workers": 2, "probe": False},
        {"workers": "threads", "step": 1e-3},
    ],
    ids=str,
)
def test_a_random_function_is_refused(options: dict[str, Any]) -> None:
    f = ad.external(restless, **options)
    x = leaf(1.0, 2.0)
    y = f(x).sum()
    with pytest.raises(RuntimeError, match=r"restless returned different values for the same"):
        y.backward()
    assert x.grad is None
    f.close()


def test_a_random_function_is_refused_in_forward_mode_and_in_batches() -> None:
    x = ad.tensor([1.0, 2.0], dtype=ad.float64)
    for options in ({}, {"batched": True}):
        f = ad.external(restless, **options)
        with pytest.raises(RuntimeError, match="noise"):
            ad.func.jvp(f, (x,), (x,))
        with pytest.raises(RuntimeError, match="noise"):
            ad.func.vmap(ad.func.grad(lambda row, f=f: f(row).sum()))(x.reshape(2, 1))


def test_the_message_names_the_values_and_the_noise() -> None:
    values = iter([1.0, 1.25, 1.5, 1.75])
    y = ad.external(lambda x: next(values) + 0 * x, name="drifting")(leaf(1.0))
    with pytest.raises(RuntimeError, match=r"\(1 and 1.25 for output\[0\]\)(.|\n)*noise=2e-01"):
        y.sum().backward()


def test_the_last_digits_may_differ() -> None:
    rng = np.random.default_rng(0)
    for dtype in (ad.float64, ad.float32):
        x = leaf(1.0, 2.0, dtype=dtype)
        eps = ad.finfo(dtype).eps

        def rounded(x: Any, eps: float = eps) -> Any:
            return (np.sin(x) * (1 + 20 * eps * rng.standard_normal(2))).astype(x.dtype)

        ad.external(rounded)(x).sum().backward()
        allowed = 1e-8 if dtype == ad.float64 else 1e-2
        np.testing.assert_allclose(x.grad.numpy(), np.cos(x.detach().numpy()), rtol=allowed)


def test_a_result_near_zero_may_be_what_large_numbers_leave() -> None:
    rng = np.random.default_rng(0)
    x = leaf(1.0, 2.0)
    f = ad.external(lambda x: x - np.array([1.0, 2.0]) + 1e-16 * rng.standard_normal(2))
    f(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 1.0, rtol=1e-8)


@pytest.mark.parametrize("options", [{}, {"elementwise": True}, {"derivative": "forward"}], ids=str)
def test_noise_that_is_told_is_allowed(options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    x = leaf(1.0, 2.0)
    f = ad.external(lambda x: x * (1 + 0.01 * rng.uniform(-1, 1, 2)), noise=0.01, **options)
    f(x).sum().backward()
    # The step is the root (of third order for central differences) of the noise.
    assert (x.grad - 1).abs().max() < 0.3


def test_it_is_looked_at_once() -> None:
    f = ad.external(lambda x: x**2, step=1e-4)
    x = leaf(1.0)
    f(x).backward()
    assert f.evaluator.count == 1 + 1 + 2
    f(x).backward()
    assert f.evaluator.count == 4 + 1 + 2
    assert f.cost(x).first == 0
    assert ad.external(lambda x: x, step=1e-4).cost(x).first == 1
    assert ad.external(lambda x: x, noise=1e-3, step=1e-4).cost(x).first == 0
