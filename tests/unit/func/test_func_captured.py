"""Tensors from outside a function that is differentiated are not changed by what it computes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import func
from adjoint.autograd import Function, forward_ad

x = ad.tensor([1.0, 2.0, 3.0])

TRANSFORMS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "grad": lambda f: func.grad(lambda a: f(a).sum())(x),
    "vjp": lambda f: func.vjp(f, x)[1](ad.ones(3))[0],
    "jvp": lambda f: func.jvp(f, (x,), (ad.ones(3),))[1],
    "jacrev": lambda f: func.jacrev(f)(x).sum(0),
    "jacfwd": lambda f: func.jacfwd(f)(x).sum(0),
    "hessian": lambda f: func.hessian(lambda a: f(a).sum())(x),
    "linearize": lambda f: func.linearize(f, x)[1](ad.ones(3)),
    "grad of grad": lambda f: func.grad(lambda a: func.grad(lambda b: f(b).sum())(a).sum())(x),
    "sparse": lambda f: func.sparsity(f)(x),
}


def added(c: Any, a: Any) -> None:
    c.add_(a)


def copied(c: Any, a: Any) -> None:
    c.copy_(a)


def assigned(c: Any, a: Any) -> None:
    c[0] = a[0]


def through_a_view(c: Any, a: Any) -> None:
    c.view(3)[1:].mul_(a[1:])


def indexed(c: Any, a: Any) -> None:
    c.index_add_(0, ad.tensor([0, 2]), a[:2])


CHANGES = [added, copied, assigned, through_a_view, indexed]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_captured_tensor_is_refused_before_it_changes(
    name: str, change: Callable[[Any, Any], None]
) -> None:
    if name == "sparse":
        pytest.importorskip("scipy")
    captured = ad.zeros(3)

    def f(a: Any) -> Any:
        change(captured, a)
        return captured * a

    with pytest.raises(RuntimeError, match="would mutate a captured Tensor") as info:
        TRANSFORMS[name](f)
    assert "\n  fix: " in str(info.value)
    assert captured.tolist() == [0.0] * 3 and captured._version == 0
    assert not captured.requires_grad and captured.grad_fn is None
    captured.add_(1)  # and afterwards it is nobody's business


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", [n for n in TRANSFORMS if n not in ("grad of grad", "sparse")])
def test_what_the_function_made_itself_may_change(
    name: str, change: Callable[[Any, Any], None]
) -> None:
    captured = ad.ones(3)

    def with_clone(a: Any) -> Any:
        own = captured.clone()
        change(own, a)
        return own * a

    TRANSFORMS[name](with_clone)
    assert captured.tolist() == [1.0] * 3


def test_constants_may_be_written() -> None:
    calls = ad.zeros((), dtype=ad.int64)
    seen = ad.zeros(3)

    def f(a: Any) -> Any:
        calls.add_(1)
        with ad.no_grad():
            seen.copy_(a)
        return (a * a).sum()

    for n in (1, 2):
        assert func.grad(f)(x).tolist() == [2.0, 4.0, 6.0]
        assert calls.item() == n
    assert seen.tolist() == x.tolist() and not seen.requires_grad


def test_a_tensor_of_the_outer_function_is_captured_by_the_inner_one() -> None:
    def outer(a: Any) -> Any:
        own = ad.zeros(3)

        def inner(b: Any) -> Any:
            own.add_(b)
            return (own * b).sum()

        return func.grad(inner)(a).sum()

    with pytest.raises(RuntimeError, match=r"\(add_\) that would mutate a captured Tensor"):
        func.grad(outer)(x)
    # The outer function may go on with it.
    made: list[Any] = []

    def changes_later(a: Any) -> Any:
        own = ad.zeros(3)
        g = func.grad(lambda b: (own * b).sum())(a)
        own.add_(a)
        made.append(own)
        return (own * own + g).sum()

    assert func.grad(changes_later)(x).tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("name", ["grad", "jacrev", "jacfwd", "sparse"])
def test_an_argument_that_is_not_differentiated_by_may_be_changed(name: str) -> None:
    buffer, other = ad.zeros(3), ad.zeros(3)

    def f(a: Any, into: Any, more: Any) -> Any:
        into[1:].copy_(a[1:])
        more.add_(a)
        return into * more

    if name == "grad":
        made = func.grad(lambda *args, **more: f(*args, **more).sum())(x, buffer, more=other)
        assert made.tolist() == [0.0, 4.0, 6.0]
    elif name == "sparse":
        pytest.importorskip("scipy")
        assert func.jacobian(f)(x, buffer, more=other).toarray().diagonal().tolist() != [0.0] * 3
    else:
        made = getattr(func, name)(f)(x, buffer, more=other)
        assert made.diagonal().tolist() == [0.0, 4.0, 6.0]
    assert buffer.tolist() == [0.0, 2.0, 3.0]  # and it is changed outside, without a history
    assert not buffer.requires_grad and not other.requires_grad
    assert buffer.grad_fn is None and other.grad_fn is None


def test_an_argument_may_be_changed_in_forward_mode() -> None:
    at = x.clone()
    value, moved = func.jvp(lambda a: a.mul_(2) * a, (at,), (ad.ones(3),))
    assert value.tolist() == [4.0, 16.0, 36.0]
    assert moved.tolist() == [8.0, 16.0, 24.0]


def test_dual_levels_of_ones_own_are_no_transform() -> None:
    captured = ad.zeros(3)
    with forward_ad.dual_level():
        captured.add_(forward_ad.make_dual(x, ad.ones(3)))
        assert forward_ad.unpack_dual(captured).tangent.tolist() == [1.0] * 3


def test_a_function_that_marks_a_captured_tensor_dirty_is_refused() -> None:
    class Added(Function):
        @staticmethod
        def forward(ctx: Any, into: Any, a: Any) -> Any:
            ctx.mark_dirty(into)
            return into.add_(a)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    captured = ad.zeros(3)
    with pytest.raises(RuntimeError, match=r"Added.forward\) that would mutate a captured Tensor"):
        func.grad(lambda a: Added.apply(captured, a).sum())(x)
    assert func.grad(lambda a: Added.apply(ad.zeros(3), a).sum())(x).tolist() == [1.0] * 3


def test_other_threads_are_not_concerned() -> None:
    entered, done = threading.Event(), threading.Event()
    results: list[Any] = []

    def other() -> None:
        entered.wait(60)
        try:
            captured = ad.zeros(3)
            captured.add_(x.clone().requires_grad_())
            results.append(captured.requires_grad)
        finally:
            done.set()

    thread = threading.Thread(target=other)
    thread.start()

    def f(a: Any) -> Any:
        entered.set()
        assert done.wait(60)
        return a.sum()

    func.grad(f)(x)
    thread.join()
    assert results == [True]


def test_results_of_deeply_nested_passes_are_the_functions_own() -> None:
    """Such passes go on in another thread, which has to know of the transform."""

    class Deeper(Function):
        @staticmethod
        def forward(ctx: Any, a: Any, depth: int) -> Any:
            ctx.depth = depth
            return a.clone()

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            if ctx.depth:
                with ad.enable_grad():
                    inner = ad.ones(3, requires_grad=True)
                    (g2,) = ad.autograd.grad(Deeper.apply(inner, ctx.depth - 1).sum(), inner)
                g = g * g2
            return g.clone(), None

    def f(a: Any) -> Any:
        inner = ad.ones(3, requires_grad=True)
        (g,) = ad.autograd.grad(Deeper.apply(inner, 60).sum(), inner)
        return (g.mul_(a) * a).sum()

    assert func.grad(f)(x).tolist() == [2.0, 4.0, 6.0]


def test_autograd_functional_is_no_transform() -> None:
    """It uses one for forward mode, which is nobody's business."""
    captured = ad.zeros(3)

    def f(a: Any) -> Any:
        captured.copy_(a)
        return captured * a

    found = ad.autograd.functional.jacobian(f, x, vectorize=True, strategy="forward-mode")
    assert found.diagonal().tolist() == [2.0, 4.0, 6.0]
