"""``autograd.strong_zeros``: a zero gradient stays zero through an infinite or NaN partial."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.autograd import Function, grad, strong_zeros

BAD = float("nan")
# Each is finite where `mask` is true and has an infinite or NaN derivative elsewhere.
MASKED: list[tuple[str, Callable[[Any], Any], list[float], list[bool], list[float]]] = [
    ("sqrt", lambda x: x.sqrt(), [4.0, 0.0], [True, False], [0.25, 0.0]),
    ("log", lambda x: x.log(), [2.0, 0.0], [True, False], [0.5, 0.0]),
    ("rsqrt", lambda x: x.rsqrt(), [1.0, 0.0], [True, False], [-0.5, 0.0]),
    ("div", lambda x: 1 / x, [2.0, 0.0], [True, False], [-0.25, 0.0]),
    ("pow", lambda x: x**0.5, [4.0, 0.0], [True, False], [0.25, 0.0]),
    ("acos", lambda x: x.acos(), [0.0, 1.0], [True, False], [-1.0, 0.0]),
    ("asin", lambda x: x.asin(), [0.0, 2.0], [True, False], [1.0, 0.0]),
    ("atanh", lambda x: x.atanh(), [0.0, 1.0], [True, False], [1.0, 0.0]),
    ("nan", lambda x: x.sqrt(), [4.0, -1.0], [True, False], [0.25, 0.0]),
    ("chain", lambda x: (x.sqrt() + 1).log().sqrt(), [1.0, 0.0], [True, False], [BAD, 0.0]),
    ("overflow", lambda x: (x * x).exp(), [0.0, 30.0], [True, False], [0.0, 0.0]),
]


@pytest.mark.parametrize(("name", "f", "at", "mask", "want"), MASKED, ids=[m[0] for m in MASKED])
def test_a_masked_branch_has_no_influence(
    name: str, f: Callable[[Any], Any], at: list[float], mask: list[bool], want: list[float]
) -> None:
    x = ad.tensor(at, requires_grad=True)
    y = ad.where(ad.tensor(mask), f(x), 0.0).sum()
    with strong_zeros():
        (g,) = grad(y, x, retain_graph=True)
    assert g is not None
    for got, wanted in zip(g.tolist(), want, strict=True):
        assert math.isfinite(got)
        assert math.isnan(wanted) or got == pytest.approx(wanted)
    if name != "chain":
        (plain,) = grad(y, x)
        assert plain is not None
        assert not plain.isfinite().all(), "without the switch IEEE's 0 * inf"


def test_where_the_gradient_is_not_zero_nothing_changes() -> None:
    x = ad.tensor([0.0, 4.0, -1.0], requires_grad=True)
    with strong_zeros():
        (g,) = grad(x.sqrt().sum(), x)
    assert g is not None
    assert g[0] == float("inf")
    assert g[1] == 0.25
    assert g[2].isnan()


def test_both_operands_are_kept() -> None:
    x = ad.tensor([1.0, 0.0], requires_grad=True)
    y = ad.tensor([2.0, 0.0], requires_grad=True)
    out = ad.where(y > 0, x / y, 0.0).sum()
    with strong_zeros():
        gx, gy = grad(out, (x, y))
    assert gx is not None
    assert gy is not None
    assert gx.tolist() == [0.5, 0.0]
    assert gy.tolist() == [-0.25, 0.0]


def test_broadcast_operands_are_kept() -> None:
    x = ad.tensor([[1.0], [0.0]], requires_grad=True)
    y = ad.tensor([1.0, 2.0], requires_grad=True)
    out = ad.where(ad.tensor([[True], [False]]), y / x, 0.0).sum()
    with strong_zeros():
        gx, gy = grad(out, (x, y))
    assert gx is not None
    assert gy is not None
    assert gx.tolist() == [[-3.0], [0.0]]
    assert gy.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_are_kept_row_by_row(keepdim: bool) -> None:
    x = ad.tensor([[0.0, 0.0], [-math.inf, -math.inf]], requires_grad=True)
    rows = x.logsumexp(1, keepdim=keepdim).reshape(2)
    out = ad.where(rows.isfinite(), rows, 0.0).sum()
    with strong_zeros():
        (g,) = grad(out, x, retain_graph=True)
    assert g is not None
    assert g.tolist() == [[0.5, 0.5], [0.0, 0.0]]
    (plain,) = grad(out, x)
    assert plain is not None
    assert plain[1].isnan().all()


def test_a_whole_zero_gradient_is_kept_by_every_node() -> None:
    class Odd(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * float("inf")

    x = ad.ones(2, requires_grad=True)
    y = (Odd.apply(x) * 0).sum()
    assert grad(y, x, retain_graph=True)[0].isnan().all()  # type: ignore[union-attr]
    with strong_zeros():
        (g,) = grad(y, x)
    assert g is not None
    assert g.tolist() == [0.0, 0.0]


def test_changes_through_views_are_kept() -> None:
    x = ad.tensor([4.0, 0.0], requires_grad=True)
    z = x.clone()
    z[:].sqrt_()
    out = ad.where(x > 0, z, 0.0).sum()
    with strong_zeros():
        (g,) = grad(out, x)
    assert g is not None
    assert g.tolist() == [0.25, 0.0]


def test_double_backward_is_right() -> None:
    x = ad.tensor([4.0, 0.0], dtype=ad.float64, requires_grad=True)
    out = ad.where(x > 0, x.sqrt(), 0.0).sum()
    with strong_zeros():
        (g,) = grad(out, x, create_graph=True)
        assert g is not None
        (second,) = grad(g.sum(), x)
    assert second is not None
    assert second.tolist() == [pytest.approx(-1 / 32), 0.0]


def test_a_zero_gradient_still_has_its_derivative() -> None:
    # The directional derivative by two backward passes starts from a gradient of zeros.
    x = ad.tensor([2.0, 3.0], dtype=ad.float64, requires_grad=True)
    v = ad.zeros(2, dtype=ad.float64, requires_grad=True)
    with strong_zeros():
        (g,) = grad(x.log(), x, v, create_graph=True)
        assert g is not None
        (tangent,) = grad(g, v, ad.ones(2, dtype=ad.float64))
    assert tangent is not None
    assert tangent.tolist() == [pytest.approx(1 / 2), pytest.approx(1 / 3)]


def test_an_infinite_partial_leaves_the_derivatives_beside_it() -> None:
    x = ad.tensor([2.0, 0.0], dtype=ad.float64, requires_grad=True)
    v = ad.zeros(2, dtype=ad.float64, requires_grad=True)
    with strong_zeros():
        (g,) = grad(x.log(), x, v, create_graph=True)
        assert g is not None
        assert g.tolist() == [0.0, 0.0]
        (tangent,) = grad(g, v, ad.ones(2, dtype=ad.float64))
    assert tangent is not None
    assert tangent.tolist() == [0.5, 0.0]


def test_the_switch_nests_decorates_and_is_read_by_the_backward_pass() -> None:
    x = ad.tensor([0.0], requires_grad=True)
    with strong_zeros():
        with strong_zeros():
            y = x.sqrt() * 0
        (g,) = grad(y, x, retain_graph=True)
    assert g is not None
    assert g.item() == 0
    assert grad(y, x, retain_graph=True)[0].isnan().all()  # type: ignore[union-attr]

    @strong_zeros()
    def gradient() -> Any:
        return grad(y, x, retain_graph=True)[0]

    assert gradient().item() == 0
    assert grad(y, x)[0].isnan().all()  # type: ignore[union-attr]


def test_it_works_under_vmap_for_each_sample() -> None:
    def f(x: Any) -> Any:
        return ad.where(x > 0, x.sqrt(), 0.0).sum()

    with strong_zeros():
        cubic = ad.func.hessian(lambda x: (x**3).sum())(ad.ones(2))
        rows = ad.func.vmap(ad.func.grad(f))(ad.tensor([[4.0, 0.0], [0.0, 1.0]]))
        second = ad.func.hessian(f)(ad.tensor([4.0, 0.0]))
    assert cubic.tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert rows.tolist() == [[0.25, 0.0], [0.0, 0.5]]
    assert second.tolist() == [[-1 / 32, 0.0], [0.0, 0.0]]


def test_a_whole_zero_gradient_is_kept_in_the_samples_that_have_one() -> None:
    class Odd(Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x.clone()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * float("inf")

    x = ad.ones(2, requires_grad=True)
    y = Odd.apply(x)
    with strong_zeros():
        pulled = ad.func.vmap(lambda g: grad(y, x, g, retain_graph=True)[0])
        rows = pulled(ad.tensor([[0.0, 0.0], [1.0, 1.0]]))
    assert rows.tolist() == [[0.0, 0.0], [math.inf, math.inf]]
