"""`checkpoint_loop`: a Python loop with its gradient, and few of its states."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.loops._schedule import fewest_steps


def same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


def plain(step: Any, carry: Any, xs: Any) -> Any:
    ys = []
    for x in xs:
        carry, y = step(carry, x)
        ys.append(y)
    return carry, ad.stack(ys)


@pytest.mark.parametrize("snapshots", [None, 1, 2, 3, 7, 100])
def test_values_and_gradients_are_those_of_the_loop(snapshots: int | None) -> None:
    ad.manual_seed(0)
    a = ad.rand(3, requires_grad=True)
    start, xs = ad.rand(3, requires_grad=True), ad.rand(23, 3, requires_grad=True)
    calls: list[int] = []

    def step(c: Any, x: Any) -> Any:
        calls.append(1)
        c = c * a if c.sum() > 1 else c + a.sin() * x  # which no recording could follow
        return c, c * x

    found = ad.checkpoint_loop(step, start, xs, snapshots=snapshots)
    assert len(calls) == 23
    wanted = plain(step, start, xs)
    assert all(map(same, found, wanted))
    calls.clear()
    leaves = [a, start, xs]
    gradients = ad.autograd.grad(found[0].sum() + found[1].sum(), leaves)
    assert all(map(same, gradients, ad.autograd.grad(wanted[0].sum() + wanted[1].sum(), leaves)))


@pytest.mark.parametrize("snapshots", [1, 2, 3, 7, 20])
def test_no_more_steps_are_run_again_than_have_to_be(snapshots: int) -> None:
    a = ad.tensor(1.01, requires_grad=True)
    calls: list[int] = []

    def step(c: Any, _: Any) -> Any:
        calls.append(1)
        return c * a, None

    last, ys = ad.checkpoint_loop(step, 1.0, length=57, snapshots=snapshots)
    assert ys is None
    last.backward()
    # Each step but the last is differentiated in another run than the first.
    assert len(calls) <= fewest_steps(57, snapshots) + 57


def test_random_numbers_lists_and_no_gradients() -> None:
    a = ad.tensor(0.9, requires_grad=True)

    def step(c: Any, name: str) -> Any:
        noise = ad.randn(3)
        return c * a + (noise if name == "noise" else 0.1), None

    names = ["noise", "quiet"] * 5
    found = []
    for loop in (ad.checkpoint_loop, lambda s, c, x: plain(lambda d, y: (s(d, y)[0], d), c, x)):
        ad.manual_seed(3)
        last, _ = loop(step, ad.ones(3), names)
        found.append((last, ad.autograd.grad(last.sum(), a)[0], ad.rand(2)))
    assert all(map(same, *found))
    with ad.no_grad():
        ad.manual_seed(3)
        last, _ = ad.checkpoint_loop(step, ad.ones(3), names)
    assert same(last, found[0][0].detach()) and not last.requires_grad
    assert ad.checkpoint_loop(step, 1.0, [])[0] == 1


def test_bad_input() -> None:
    def step(c: Any, x: Any) -> Any:
        return c, x

    with pytest.raises(ValueError, match="needs `length`"):
        ad.checkpoint_loop(step, 1.0)
    with pytest.raises(ValueError, match="snapshots=0"):
        ad.checkpoint_loop(step, 1.0, length=2, snapshots=0)
    with pytest.raises(ValueError, match="3 rows and length 4"):
        ad.checkpoint_loop(step, 1.0, ad.ones(3), length=4)
    with pytest.raises(TypeError, match="a tensor, a list or a tuple"):
        ad.checkpoint_loop(step, 1.0, {1: 2})
    with pytest.raises(TypeError, match="returns a pair"):
        ad.checkpoint_loop(lambda c, x: c, 1.0, length=2)
