"""Compiled functions inside checkpoints: replayed in both runs, keeping no more than they must."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd.graph import saved_tensors_hooks
from adjoint.utils.checkpoint import checkpoint


def block(x: ad.Tensor, k: ad.Tensor) -> ad.Tensor:
    for _ in range(3):
        x = ad.tanh(x.roll(1) * k) + ad.sin(x)
    return x


def noisy(x: ad.Tensor, k: ad.Tensor) -> ad.Tensor:
    return ad.dropout(ad.exp(x) * k, 0.5, True) + ad.rand(6)


def gradients(first: Callable[..., Any], second: Callable[..., Any], how: bool | None) -> list[Any]:
    """Results and gradients of two functions in turn; how: use_reentrant, if at all."""
    x = ad.linspace(-1, 1, 6, requires_grad=True)
    k = ad.tensor(0.7, requires_grad=True)
    ad.manual_seed(4)

    def chain(x: ad.Tensor) -> ad.Tensor:
        return first(second(x * 2, k).square(), k).cos()

    y = chain(x) if how is None else checkpoint(chain, x, use_reentrant=how)
    y.sum().backward()
    return [y.detach().tolist(), x.grad.tolist(), k.grad.tolist()]


def python_runs(of: Callable[..., Any], during: Callable[[], Any]) -> int:
    count = 0

    def watch(frame: Any, event: str, _: Any) -> None:
        nonlocal count
        count += event == "call" and frame.f_code is of.__code__

    sys.setprofile(watch)
    try:
        during()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_compiled_function_is_replayed_in_a_checkpoint_and_its_recomputation(
    reentrant: bool,
) -> None:
    fast, faster = ad.compile(block), ad.compile(noisy)
    expected = gradients(fast, faster, None)
    for _ in range(3):
        assert gradients(fast, faster, reentrant) == expected
    assert python_runs(block, lambda: gradients(fast, faster, reentrant)) == 0


def test_a_function_that_is_only_called_in_checkpoints_becomes_a_program() -> None:
    fast = ad.compile(block)
    expected = gradients(block, noisy, None)
    assert gradients(fast, noisy, False) == expected
    gradients(fast, noisy, False)
    assert len(fast.programs) == 1
    assert python_runs(block, lambda: gradients(fast, noisy, False)) == 0


def test_what_a_replay_keeps_is_the_checkpoints() -> None:
    fast = ad.compile(block)
    x, k = ad.ones(6, requires_grad=True), ad.tensor(0.5, requires_grad=True)
    fast(x * 1, k).sum().backward()
    handed: list[weakref.ref[Any]] = []

    def inside(x: ad.Tensor) -> ad.Tensor:
        z = x * 3
        handed.append(weakref.ref(z))
        return fast(z, k)

    y = checkpoint(inside, x, use_reentrant=False)
    assert handed[0]() is None, "the argument of the replay is kept"
    y.sum().backward()
    assert len(handed) == 2


def test_second_derivatives_through_a_checkpoint() -> None:
    fast = ad.compile(block)

    def second(function: Callable[..., Any]) -> Any:
        x = ad.linspace(-1, 1, 6, dtype=ad.float64, requires_grad=True)
        k = ad.tensor(0.7, dtype=ad.float64, requires_grad=True)
        y = checkpoint(lambda x: function(x * 2, k).cos().sum(), x, use_reentrant=False)
        (g,) = ad.autograd.grad(y, x, create_graph=True)
        return ad.autograd.grad(g.square().sum(), [x, k])

    for _ in range(3):
        for found, expected in zip(second(fast), second(block), strict=True):
            ad.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_state_that_changes_before_the_recomputation_is_an_error() -> None:
    gains = [2.0]
    fast = ad.compile(lambda x: ad.sin(x * gains[0]).exp())
    x = ad.ones(3, requires_grad=True)
    for _ in range(2):
        fast(x * 1).sum().backward()
    y = checkpoint(lambda x: fast(x * 1), x, use_reentrant=False)
    gains[0] = 3.0
    with pytest.raises(RuntimeError, match="a checkpoint runs a compiled function again"):
        y.sum().backward()


def test_other_hooks_inside_a_checkpoint_see_every_saved_value() -> None:
    fast = ad.compile(block)
    x, k = ad.ones(6, requires_grad=True), ad.tensor(0.5, requires_grad=True)
    fast(x, k).sum().backward()
    seen = []

    def inside(x: ad.Tensor) -> ad.Tensor:
        with saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
            return fast(x, k)

    checkpoint(inside, x, use_reentrant=False)
    assert len(seen) > 6


def test_a_function_may_import_what_it_calls() -> None:
    """What adjoint's own code asks for is not asked of the module that was imported."""

    def function(x: ad.Tensor) -> ad.Tensor:
        from adjoint.utils.checkpoint import checkpoint

        return checkpoint(ad.tanh, x, use_reentrant=False)

    fast, x = ad.compile(function, fullgraph=True), ad.ones(3, requires_grad=True)
    (expected,) = ad.autograd.grad(function(x).sum(), x)
    for _ in range(3):
        assert ad.equal(ad.autograd.grad(fast(x).sum(), x)[0], expected)
    assert len(fast.programs) == 1
