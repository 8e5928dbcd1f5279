"""autograd.functional: numbers, structures, histories and the errors of strict mode."""

from __future__ import annotations

import pytest

import adjoint as ad
from adjoint.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp


def x2() -> ad.Tensor:
    return ad.tensor([1.0, 2.0], dtype=ad.float64)


def cubic(x: ad.Tensor) -> ad.Tensor:
    return (x**3).sum() + x[0] * x[1]


H = [[6.0, 1.0], [1.0, 12.0]]
WAYS = [(False, "reverse-mode"), (True, "reverse-mode"), (False, "forward-mode")]


@pytest.mark.parametrize(("vectorize", "strategy"), WAYS)
def test_jacobians_and_hessians(vectorize: bool, strategy: str) -> None:
    j = jacobian(lambda x: x**2, x2(), vectorize=vectorize, strategy=strategy)
    assert j.tolist() == [[2.0, 0.0], [0.0, 4.0]] and not j.requires_grad
    blocks = jacobian(lambda a, b: (a * b, a.sum()), (x2(), x2()), vectorize=vectorize)
    assert blocks[1][0].tolist() == [1.0, 1.0] and not blocks[1][1].any()
    h = hessian(cubic, x2(), vectorize=vectorize, outer_jacobian_strategy=strategy)
    assert h.tolist() == H
    pair = hessian(lambda a, b: (a * b).sum() ** 2, (x2(), x2()), vectorize=vectorize)
    assert pair[0][1].shape == (2, 2)
    scalar = jacobian(lambda x: x * x, ad.tensor(3.0), vectorize=vectorize, strategy=strategy)
    assert scalar == 6 and scalar.shape == ()


@pytest.mark.parametrize("product", [hvp, vhp])
def test_products(product: object) -> None:
    value, got = product(cubic, x2(), ad.tensor([1.0, -1.0], dtype=ad.float64))
    assert value == 11 and got.tolist() == [5.0, -11.0] and not got.requires_grad
    v = ad.ones(2, dtype=ad.float64)
    assert vjp(lambda x: x**2, x2(), v)[1].tolist() == [2.0, 4.0]
    assert jvp(lambda x: x**2, x2(), v)[1].tolist() == [2.0, 4.0]


@pytest.mark.parametrize("product", [vjp, jvp])
def test_results_with_a_history(product: object) -> None:
    x = x2().requires_grad_()
    v = ad.ones(2, dtype=ad.float64)
    y, got = product(lambda x: x**3, x, v, create_graph=True)
    assert ad.autograd.grad(got.sum(), x)[0].tolist() == [6.0, 12.0] and y.requires_grad
    h = hessian(cubic, x, create_graph=True)
    assert ad.autograd.grad(h.sum(), x)[0].tolist() == [6.0, 6.0]
    hv = hvp(cubic, x, v, create_graph=True)[1]
    assert ad.autograd.grad(hv.sum(), x)[0].tolist() == [6.0, 6.0]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: vjp(ad.sin, (x2(), 2), x2()), TypeError, "inputs given to vjp must be"),
        (lambda: vjp(lambda x: 2, x2()), TypeError, "outputs of the user-provided function"),
        (lambda: vjp(ad.sin, x2()), RuntimeError, "v can only be None if the user-provided"),
        (lambda: jvp(ad.sin, x2()), RuntimeError, "v can only be None if the input"),
        (lambda: vjp(ad.sin, x2(), x2()[:1]), RuntimeError, r"invalid size.*\[2\].*\[1\]"),
        (lambda: vjp(ad.sin, x2(), (x2(), x2())), RuntimeError, "contain a single Tensor"),
        (lambda: hessian(ad.sin, x2()), RuntimeError, "should contain a single element"),
        (lambda: hvp(ad.sin, x2(), x2()), RuntimeError, "should contain a single element"),
        (lambda: jacobian(ad.sin, x2(), strategy="other"), ValueError, "strategy"),
        (
            lambda: jacobian(ad.sin, x2(), strict=True, vectorize=True),
            RuntimeError,
            "not supported together",
        ),
        (
            lambda: vjp(lambda x: x.detach(), x2(), x2(), strict=True),
            RuntimeError,
            "Output 0 .* does not require gradients",
        ),
        (
            lambda: jacobian(lambda a, b: a.sin(), (x2(), x2()), strict=True),
            RuntimeError,
            "independent of input 1",
        ),
    ],
)
def test_messages(call: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
