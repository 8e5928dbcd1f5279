"""Backward parts are recorded when a backward pass needs them; nobody may see the difference."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint import nn


def step(x: Any, w: Any) -> Any:
    for _ in range(3):
        x = (x * w).sin() + w
    return x


def leaves(*seeds: int) -> list[Any]:
    made = []
    for seed in seeds:
        generator = ad.Generator()
        generator.manual_seed(seed)
        made.append(ad.randn(5, generator=generator).requires_grad_())
    return made


def bits(*tensors: Any) -> list[Any]:
    return [None if t is None else (t.shape, t.detach().numpy().tobytes()) for t in tensors]


def gradients(f: Callable[..., Any], *inputs: Any) -> list[Any]:
    y = f(*inputs)
    return bits(y, *ad.autograd.grad(y.square().sum(), inputs))


def test_a_backward_pass_makes_the_programs() -> None:
    f, inputs = ad.compile(step), leaves(0, 1)
    y = f(*inputs)
    (made,) = f.programs
    assert not made.is_ready()
    grads = ad.autograd.grad(y.square().sum(), inputs)
    assert made.is_ready()
    assert bits(y, *grads) == gradients(step, *inputs)
    others = leaves(2, 3)
    assert gradients(f, *others) == gradients(step, *others)
    assert f.programs == [made]


def test_a_second_call_makes_the_programs() -> None:
    f, (x, w) = ad.compile(step), leaves(0, 1)
    w = w.detach()
    assert gradients(lambda x: f(f(f(x, w), w), w), x) == gradients(
        lambda x: step(step(step(x, w), w), w), x
    )
    assert [one.is_ready() for one in f.programs] == [True, True]  # of a leaf, of a result


def test_somebody_who_asks_makes_the_programs() -> None:
    f, inputs = ad.compile(step), leaves(0, 1)
    y = f(*inputs)
    assert f.programs[0].backward.code()
    assert bits(*ad.autograd.grad(y.square().sum(), inputs)) == gradients(step, *inputs)[1:]


def test_a_result_that_is_thrown_away_leaves_nothing() -> None:
    f, (x, w) = ad.compile(step), leaves(0, 1)
    f(x, w)
    assert f.programs == []
    f(x, w)  # the next call is recorded for good
    (made,) = f.programs
    assert made.is_ready()
    assert gradients(f, x, w) == gradients(step, x, w)
    assert f.programs == [made]


def test_nothing_is_kept_alive_once_the_result_is_gone() -> None:
    f, (x, w) = ad.compile(step), leaves(0, 1)
    gone = weakref.ref(x)
    y = f(x, w)
    del x
    assert gone() is not None
    del y
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("late", [False, True])
def test_what_is_changed_in_the_meantime_makes_another_recording(late: bool) -> None:
    def program(f: Callable[..., Any]) -> list[Any]:
        x, w = leaves(0, 1)
        y = f(x, w)
        with ad.no_grad():
            (x if late else y).add_(1.0)
        return [*bits(y.detach()), *gradients(f, x, w), *gradients(f, x, w)]

    assert program(ad.compile(step)) == program(step)


def test_a_value_that_backward_needs_and_was_changed_is_told_of() -> None:
    x, w = leaves(0, 1)
    y = ad.compile(step)(x, w)
    with ad.no_grad():
        w.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_second_derivatives_go_through_the_graph_of_the_call() -> None:
    def second(f: Callable[..., Any]) -> list[Any]:
        x, w = leaves(0, 1)
        found = []
        for _ in range(3):
            (g,) = ad.autograd.grad(f(x, w).sum(), x, create_graph=True)
            found += bits(g, *ad.autograd.grad(g.square().sum(), (x, w)))
        return found

    assert second(ad.compile(step)) == second(step)


def test_a_graph_that_is_retained_runs_again() -> None:
    f, (x, w) = ad.compile(step), leaves(0, 1)
    y = f(x, w).sum()
    first = bits(*ad.autograd.grad(y, (x, w), retain_graph=True))
    assert bits(*ad.autograd.grad(y, (x, w), retain_graph=True)) == first
    assert bits(*ad.autograd.grad(y, (x, w))) == first
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_some_of_the_results_are_used(used: tuple[int, ...]) -> None:
    def pair(x: Any, w: Any) -> Any:
        return {"a": (x * w).exp(), "b": [x + w]}

    def program(f: Callable[..., Any]) -> list[Any]:
        found = []
        for k in range(4):
            x, w = leaves(k, k + 1)
            y = f(x, w)
            parts = [y["a"], y["b"][0]]
            for one in (used, (0, 1), (1,)):
                loss = sum((parts[k].square().sum() for k in one), ad.tensor(0.0))
                found += bits(*ad.autograd.grad(loss, (x, w), retain_graph=True))
        return found

    assert program(ad.compile(pair)) == program(pair)


def test_gradients_of_any_layout_arrive() -> None:
    def program(f: Callable[..., Any]) -> list[Any]:
        found = []
        for gradient in (ad.ones(1).expand(5), ad.arange(10.0)[::2], leaves(7)[0].detach()):
            x, w = leaves(0, 1)
            y = f(x, w)
            y.backward(gradient)
            found += bits(x.grad, w.grad)
        return found

    assert program(ad.compile(step)) == program(step)


def test_sums_of_gradients_that_lie_otherwise_than_the_result() -> None:
    """They run in the order of memory, which is that of the gradients of the first pass."""

    def function(w: Any, k: Any) -> Any:
        return ad.tanh(w.T * k)

    for seed in range(20):
        ad.manual_seed(seed)
        w, k, weights = ad.randn(5, 3), ad.randn(()).requires_grad_(), ad.randn(3, 5)
        fast = ad.compile(function)
        for _ in range(3):
            expected, found = (
                ad.autograd.grad((f(w, k) * weights).sum(), k)[0] for f in (function, fast)
            )
            assert bits(found) == bits(expected)


def test_an_argument_may_be_the_gradient_that_arrives() -> None:
    def program(f: Callable[..., Any]) -> list[Any]:
        found = []
        for k in range(3):
            x, w = leaves(k, k + 1)
            found += bits(*ad.autograd.grad(f(x, w), (x, w), x.detach()))
            found += bits(*ad.autograd.grad(f(x, w), (x, w), w.detach().clone()))
        return found

    assert program(ad.compile(step)) == program(step)


class Twice(ad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


def with_hook(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y.sin()


@pytest.mark.parametrize("function", [lambda x: Twice.apply(x).sin(), with_hook])
def test_python_in_the_backward_pass_is_recorded_at_once(function: Any) -> None:
    f = ad.compile(function)
    y = f(leaves(0)[0])
    assert f.programs[0].is_ready()
    assert y.requires_grad


def test_everything_is_known_at_once_where_that_is_asked_for() -> None:
    for options in ({"fullgraph": True}, {"verify": True}):
        f = ad.compile(step, **options)
        f(*leaves(0, 1))
        assert f.programs[0].is_ready()


def test_a_step_with_its_own_backward_is_recorded_at_once() -> None:
    net = nn.Linear(5, 5)
    optimizer = ad.optim.SGD(net.parameters(), lr=0.1)

    def train(x: Any) -> Any:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    f = ad.compile(train)
    f(leaves(0)[0].detach())
    assert [one.is_ready() for one in f.programs] == [True]


def test_a_recorded_call_takes_about_the_memory_of_an_eager_one() -> None:
    # In a process of its own: the peak counts from its start.
    code = """if True:
        import adjoint as ad
        def f(u):
            for _ in range(60):
                a = u[1:] * 0.5
                u = ad.cat([u[:1], (u + 0.1)[1:] + a])
            return u
        u = ad.ones(1 << 18, requires_grad=True)
        f(u).sum().backward()
        before = ad.memory_stats()["peak_bytes"]
        ad.compile(f)(u).sum().backward()
        print(ad.memory_stats()["peak_bytes"] - before)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 80 << 20  # all that the call has made is 300 MB


def test_a_tensor_that_is_frozen_before_the_first_backward_pass() -> None:
    """The pass is not taken down: later calls, where it is not frozen, would lack its gradient."""
    x, w = ad.ones(3, requires_grad=True), ad.full((3,), 2.0, requires_grad=True)
    f = ad.compile(lambda a, b: a.sin() * b)
    y = f(x, w)
    x.requires_grad_(False)
    (y.sum()).backward()
    assert x.grad is None and ad.equal(w.grad, x.sin())
    x.requires_grad_()
    for _ in range(2):
        assert ad.equal(ad.autograd.grad(f(x, w).sum(), x)[0], x.cos() * w)


def test_a_compiled_function_in_a_transform_that_is_differentiated_by_others() -> None:
    x, w = ad.ones(3), ad.full((3,), 2.0, requires_grad=True)
    f = ad.compile(lambda a, b: (a, a.sin() * b))

    def slope(make: Any) -> Any:
        g = ad.func.grad(lambda a, b: sum(t.square().sum() for t in make(a, b)))(x, w)
        return g, *ad.autograd.grad((g * g).sum(), w)

    wanted = slope(lambda a, b: (a, a.sin() * b))
    for _ in range(2):
        assert all(map(ad.equal, slope(f), wanted))
