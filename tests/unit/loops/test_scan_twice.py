"""Derivatives of derivatives of a scan: its backward pass is a loop of recorded steps, too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from tests.unit.loops.plain_loop import plain, same

OPTIONS: list[dict[str, Any]] = [{}, {"reverse": True}, {"memory": "sqrt"}, {"snapshots": 3}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_the_second_derivative(options: dict[str, Any]) -> None:
    ad.manual_seed(0)
    k = ad.rand(3, dtype=ad.float64, requires_grad=True)
    start = ad.rand(3, dtype=ad.float64, requires_grad=True)
    push = ad.rand(25, 3, dtype=ad.float64, requires_grad=True)
    leaves = [k, start, push]

    def run(loop: Callable[..., Any]) -> Any:
        gain = k * 1.5

        def step(c: Any, x: Any) -> Any:
            x, v = c[0] + 0.1 * c[1], c[1] - gain * c[0].sin() + x
            return (x, v), x * v

        (x, v), ys = loop(step, (start * 2, start), push, **options)
        return x.sum() * v.sum() + (ys * ys).sum()

    found, wanted = (ad.autograd.grad(run(f), leaves, create_graph=True) for f in (ad.scan, plain))
    assert all(map(same, found, wanted))
    weights = [ad.rand(t.shape, dtype=ad.float64) for t in leaves]
    second = [
        ad.autograd.grad(sum((g * w).sum() for g, w in zip(first, weights, strict=True)), leaves)
        for first in (found, wanted)
    ]
    assert all(ad.allclose(a, b, rtol=1e-10) for a, b in zip(*second, strict=True))


def test_a_long_loop() -> None:
    a = ad.tensor(0.9, dtype=ad.float64, requires_grad=True)
    last, _ = ad.scan(lambda c, _: (c * a.sin() + a, None), a, length=2000)
    (g,) = ad.autograd.grad(last, a, create_graph=True)
    (h,) = ad.autograd.grad(g, a)
    c = a
    for _ in range(2000):
        c = c * a.sin() + a
    (wanted,) = ad.autograd.grad(c, a, create_graph=True)
    assert same(g, wanted) and ad.allclose(h, ad.autograd.grad(wanted, a)[0], rtol=1e-9)


def test_the_third_derivative() -> None:
    x = ad.tensor(0.7, dtype=ad.float64, requires_grad=True)

    def third(loop: Callable[..., Any]) -> ad.Tensor:
        y = loop(lambda c, _: ((c * x).sin(), None), x * 1.1, None, length=6)[0]
        for _ in range(2):
            (y,) = ad.autograd.grad(y, x, create_graph=True)
        return ad.autograd.grad(y, x)[0]

    assert ad.allclose(third(ad.scan), third(plain), rtol=1e-10)


def test_a_step_may_read_the_first_carry() -> None:
    """Which is another tensor than the carry in all steps but the first."""
    x = ad.tensor([0.3, 0.4], requires_grad=True)
    for start in (x, x.detach(), ad.tensor([1, 2])):

        def step(c: Any, _: Any, start: Any = start) -> Any:
            return c * start + start, None

        found, wanted = ad.scan(step, start, length=4)[0], plain(step, start, None, 4)[0]
        assert same(found, wanted)
    (a,), (b,) = (
        ad.autograd.grad(t.sum(), x)
        for t in (
            ad.scan(lambda c, _: (c * x + x, None), x, length=4)[0],
            plain(lambda c, _: (c * x + x, None), x, None, 4)[0],
        )
    )
    assert same(a, b)


def test_random_numbers_and_a_carry_that_was_computed_from_what_is_read() -> None:
    a = ad.tensor(0.9, requires_grad=True)
    found = []
    for loop in (ad.scan, plain):
        ad.manual_seed(5)
        start = a * ad.ones(3)
        last, _ = loop(lambda c, _: (c * a.sin() + ad.randn(3) * c, None), start, None, length=6)
        (g,) = ad.autograd.grad(last.sum(), a, create_graph=True)
        found.append((g, ad.autograd.grad(g, a)[0]))
    assert all(ad.allclose(x, y) for x, y in zip(*found, strict=True))


def test_hessian_of_a_long_loop() -> None:
    def f(x: ad.Tensor, loop: Callable[..., Any]) -> ad.Tensor:
        return loop(lambda c, y: (c * x.cos() + y, c), x, ad.ones(8, 2) * x, length=8)[1].sum()

    x = ad.tensor([0.3, 0.4], dtype=ad.float64)
    found, wanted = (ad.func.hessian(lambda y, g=g: f(y, g))(x) for g in (ad.scan, plain))
    assert ad.allclose(found, wanted)


def test_a_tensor_that_is_carried_twice_has_its_gradient_once() -> None:
    found = []
    for loop in (ad.scan, plain):
        for noise in (0.0, 1.0):
            ad.manual_seed(1)
            x = ad.tensor([0.5, 0.6], dtype=ad.float64, requires_grad=True)

            def step(c: Any, _: Any, noise: float = noise) -> Any:
                more = ad.randn(2, dtype=ad.float64) if noise else 1.0
                return (c[0] * c[1].sin(), c[1] + more * c[0]), None

            (a, b), _ = loop(step, (x, x), None, length=5)
            (g,) = ad.autograd.grad(a.sum() + b.sum(), x, create_graph=True)
            found.append((g, ad.autograd.grad(g.sum(), x)[0]))
    for scanned, wanted in zip(found[:2], found[2:], strict=True):
        assert all(ad.allclose(p, q) for p, q in zip(scanned, wanted, strict=True))


def test_carries_of_one_element_and_inputs_that_need_no_gradient() -> None:
    """A gradient that arrives expanded fits the program; nothing of stand-ins is left behind."""
    xs = ad.linspace(0.5, 1, 8, dtype=ad.float64)

    def by_loop(loop: Callable[..., Any]) -> Callable[[ad.Tensor], ad.Tensor]:
        def function(m: ad.Tensor) -> ad.Tensor:
            def step(c: Any, x: ad.Tensor) -> Any:
                a, b = c
                return (x, b * m + a * b * m), a * b

            (a, b), ys = loop(
                step, (ad.ones((), dtype=ad.float64), ad.ones(1, dtype=ad.float64)), xs
            )
            return (a * b).sum() + ys.sum()

        return function

    m = ad.tensor(0.3, dtype=ad.float64)
    twice = ad.func.grad(ad.func.grad(by_loop(ad.scan)))(m)
    assert twice.grad_fn is None
    assert abs(float(twice) - float(ad.func.grad(ad.func.grad(by_loop(plain)))(m))) < 1e-9
