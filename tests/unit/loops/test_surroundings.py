"""What runs a part of a call again, later, finds it in the surroundings that the call had."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn
from adjoint.func import functional_call, grad, hessian, jacrev, vmap
from adjoint.utils.checkpoint import checkpoint
from tests.unit.loops.plain_loop import plain


def _while(step: Callable[..., Any], carry: Any, xs: Any) -> tuple[Any, Any]:
    def body(i: Any, h: Any) -> tuple[Any, Any]:
        return i + 1, step(h, xs[0])[0]

    _, last = ad.while_loop(lambda i, h: i < len(xs), body, (ad.tensor(0), carry))
    return last, last


def _checkpoint(step: Callable[..., Any], carry: Any, xs: Any) -> tuple[Any, Any]:
    return plain(functools.partial(checkpoint, step, use_reentrant=False), carry, xs)


def _plain_while(step: Callable[..., Any], carry: Any, xs: Any) -> tuple[Any, Any]:
    for _ in xs:
        carry = step(carry, xs[0])[0]
    return carry, carry


def _sqrt(step: Callable[..., Any], carry: Any, xs: Any) -> tuple[Any, Any]:
    return ad.scan(step, carry, xs, memory="sqrt")


class _Net(nn.Module):
    """A cell that is called by a loop."""

    def __init__(self, loop: Callable[..., Any]) -> None:
        super().__init__()
        self.weight = nn.Parameter(ad.zeros(3, 3))
        self.loop = loop

    def forward(self, x: Any) -> Any:
        def step(h: Any, x: Any) -> tuple[Any, Any]:
            h = (h @ self.weight + x).tanh()
            return h, h

        last, ys = self.loop(step, ad.zeros(2, 3, dtype=x.dtype), x)
        return last.sum() + (ys * ys).sum()


def _twice(f: Callable[..., Any]) -> Callable[..., Any]:
    return grad(lambda w, *rest: grad(f)(w, *rest).square().sum())


@pytest.mark.parametrize("transform", [grad, jacrev, hessian, _twice])
@pytest.mark.parametrize("loop", [ad.scan, _sqrt, _while, ad.checkpoint_loop, _checkpoint])
def test_functional_call(loop: Callable[..., Any], transform: Callable[..., Any]) -> None:
    if transform is hessian and loop in (ad.checkpoint_loop, _checkpoint):
        pytest.skip("checkpoints refuse forward mode")
    ad.manual_seed(0)
    x, w = ad.randn(5, 2, 3, dtype=ad.float64), ad.randn(3, 3, dtype=ad.float64)
    usual = _plain_while if loop is _while else plain
    found, wanted = (
        transform(lambda w, net: functional_call(net, {"weight": w}, (x,)))(w, _Net(way))
        for way in (loop, usual)
    )
    assert ad.allclose(found, wanted, rtol=1e-12, atol=0)


def test_a_checkpoint_in_a_batch_of_functional_calls() -> None:
    x, w = ad.randn(4, 5, 2, 3), ad.randn(3, 3)

    def slopes(loop: Callable[..., Any]) -> Any:
        net = _Net(loop)
        return vmap(grad(lambda w, x: functional_call(net, {"weight": w}, (x,))), (None, 0))(w, x)

    assert ad.allclose(slopes(_checkpoint), slopes(plain))


def test_the_module_is_left_as_it_was() -> None:
    net = _Net(ad.scan)
    own, other = net.weight, ad.eye(3, requires_grad=True)
    y = functional_call(net, {"weight": other}, (ad.ones(5, 2, 3),))
    assert net.weight is own
    with pytest.raises(KeyError):
        functional_call(_Net(_failing), {"weight": other}, (ad.ones(5, 2, 3),))
    (g,) = ad.autograd.grad(y, other, create_graph=True)
    assert net.weight is own and g is not None and g.requires_grad


def _failing(*args: Any) -> Any:
    raise KeyError


@pytest.mark.parametrize("loop", [ad.scan, _while])
def test_autocast(loop: Callable[..., Any]) -> None:
    """Gradients are taken outside the block: the step runs again as it did inside."""
    ad.manual_seed(0)
    w, start = ad.randn(4, 4, requires_grad=True), ad.randn(3, 4)

    def slope(graph: bool) -> Any:
        with ad.autocast("cpu", dtype=ad.bfloat16):
            y, _ = loop(lambda h, _: (((h @ w).float()).tanh(), None), start, ad.zeros(6))
        return ad.autograd.grad(y.square().sum(), w, create_graph=graph)[0]

    # In float32 the two differ by 0.3.
    assert ad.allclose(slope(True), slope(False), rtol=0.02, atol=0.05)


def test_the_default_dtype() -> None:
    a = ad.tensor(0.5, dtype=ad.float64, requires_grad=True)
    ad.set_default_dtype(ad.float64)
    try:
        y, _ = ad.scan(lambda c, _: (c * a + ad.tensor(0.1), None), a, length=5)
    finally:
        ad.set_default_dtype(ad.float32)
    (found,), (wanted,) = (ad.autograd.grad(y, a, create_graph=graph) for graph in (True, False))
    assert found is not None and wanted is not None and found.item() == wanted.item()
    assert ad.get_default_dtype() is ad.float32


def test_a_step_that_has_changed_has_no_hessian() -> None:
    gains = [2.0]

    def f(x: Any) -> Any:
        y, _ = ad.scan(lambda c, _: ((c * gains[0]).sin(), None), x, length=5)
        gains[0] = 3.0
        return y

    with pytest.raises(RuntimeError, match="has changed since"):
        hessian(f)(ad.tensor(0.5))
