"""What the capture has to get right by itself: views of leaves, Python that is called, re-entry."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.compiler import CompileWarning
from tests.unit.compiler.test_compile_semantics import randn, same, seen

Compile = Callable[..., Any]


# --- views of leaves


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.detach(),
        lambda x: x.detach()[1:],
        lambda x: x.detach().view(3, 1),
        lambda x: (x.detach()[1:], x * 2),
        lambda x: (x * 2, x.detach()[1:] * 3, x.data[:1]),
    ],
)
def test_what_is_detached_of_a_leaf_that_is_a_view_stays_so(function: Any) -> None:
    def program(compile: Compile) -> Any:
        f = compile(function)
        return [f(randn(6, seed=k)[:3].requires_grad_()) for k in range(3)]

    same(program)


def test_a_view_without_gradients_of_a_leaf_that_is_a_view_requires_none() -> None:
    leaf = ad.ones(6)[:3].requires_grad_()
    whole = ad.ones(6, requires_grad=True)
    with ad.no_grad():
        assert not leaf[1:].requires_grad  # as in PyTorch, by what it is a view of
        assert whole[:3][1:].requires_grad


@pytest.mark.parametrize("function", [lambda x: x.detach_(), lambda x: x.detach().detach_() * 2])
def test_what_is_a_view_is_told_from_what_is_none(function: Any) -> None:
    f = ad.compile(function)
    for make in (lambda: ad.ones(3), lambda: ad.ones(6)[:3], lambda: ad.ones(3)):
        for _ in range(2):
            results = []
            for g in (f, function):
                try:
                    results.append(seen(g(make())))
                except RuntimeError as error:
                    results.append(str(error).partition("\n")[0])
            assert results[0] == results[1]


# --- Python that a program calls


CHANGED = "changes a tensor that the function uses; fix: return the new value"


def changing(tensor: Any) -> Any:
    """An external that doubles a tensor that is not one of its arguments."""

    def work(v: Any) -> Any:
        tensor.mul_(2)
        return v * 2

    return ad.external(work)


@pytest.mark.parametrize(
    "function",
    [
        lambda e, buffer, x: e(x) + buffer * 3,
        lambda e, buffer, x: buffer * 3 + e(x) + buffer * 3,
        lambda e, buffer, x: (e(x), buffer[1:] * 1),
        lambda e, buffer, x: (e(x), buffer),
        lambda e, buffer, x: e(e(x)) + buffer,
    ],
)
def test_an_external_that_changes_a_tensor_is_not_put_in_another_order(function: Any) -> None:
    def program(compile: Compile) -> Any:
        buffer = ad.ones(3, dtype=ad.float64)
        e = changing(buffer)
        f = compile(lambda x: function(e, buffer, x))
        return [(f(ad.full((3,), float(k), dtype=ad.float64)), buffer.clone()) for k in range(4)]

    same(program, programs=None)
    buffer = ad.ones(3, dtype=ad.float64)
    e = changing(buffer)
    with pytest.raises(ad.compiler.CompileError, match=CHANGED):
        ad.compile(lambda x: function(e, buffer, x), fullgraph=True)(ad.ones(3, dtype=ad.float64))


def test_an_external_may_change_what_the_function_does_not_use() -> None:
    def program(compile: Compile) -> Any:
        counter = ad.zeros(1, dtype=ad.float64)

        @ad.external
        def count(v: Any) -> Any:
            counter.add_(1)
            return v * 2

        f = compile(lambda x: count(x) + 1)
        return [(f(ad.ones(2, dtype=ad.float64)), counter.clone()) for _ in range(4)]

    same(program)


def test_the_state_of_an_optimiser_is_read_after_its_step() -> None:
    def program(compile: Compile) -> Any:
        w = randn(3).requires_grad_()
        optimizer = ad.optim.SGD([w], lr=0.1, momentum=0.9)
        w.square().sum().backward()
        optimizer.step()
        momentum = optimizer.state[w]["momentum_buffer"]

        def step(x: Any) -> Any:
            w.grad = x * 1
            optimizer.step()
            return momentum * 1

        f = compile(step)
        return [(f(randn(3, seed=k)), w.detach().clone()) for k in range(4)]

    same(program, programs=None)


# --- inside another call


def test_an_external_may_call_a_compiled_function() -> None:
    inner = ad.compile(lambda x: x * 3)
    e = ad.external(lambda v: inner(ad.tensor(v)).numpy())
    outer = ad.compile(lambda x: e(x) + 1, fullgraph=True)
    for k in range(4):
        x = ad.full((2,), float(k), dtype=ad.float64)
        assert outer(x).tolist() == [3.0 * k + 1] * 2
    assert len(outer.programs) == 1
    assert len(inner.programs) == 1


def test_an_external_may_call_the_function_that_calls_it() -> None:
    e = ad.external(lambda v: half(ad.tensor(v) / 2).numpy() if v[0] > 1 else v)
    half = ad.compile(lambda x: e(x) + 1, fullgraph=True)
    for k in (1.0, 4.0, 9.0, 4.0):
        x, want = ad.full((2,), k, dtype=ad.float64), 1
        while k > 1:
            k, want = k / 2, want + 1
        assert half(x).tolist() == [k + want] * 2


def test_a_function_that_runs_eagerly_may_call_a_compiled_one() -> None:
    inner = ad.compile(lambda x: x * 3)
    outer = ad.compile(lambda x: inner(x) * x.sum().item() + inner(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        for k in range(4):
            x = ad.full((2,), float(k))
            assert outer(x).tolist() == [6.0 * k * k + 3 * k] * 2
    assert len(inner.programs) == 1


def test_hooks_may_call_compiled_functions() -> None:
    def program(compile: Compile) -> Any:
        inner = compile(lambda g: g * 3)

        def f(x: Any) -> Any:
            y = x * 2
            if y.requires_grad:
                y.register_hook(inner)
            return y * y

        g, out = compile(f), []
        for k in range(4):
            x = randn(3, seed=k).requires_grad_()
            x.register_hook(inner)
            g(x).sum().backward()
            out.append(x)
        return out

    expected = seen(program(lambda function: function))
    assert seen(program(ad.compile)) == expected


def test_a_function_may_call_itself() -> None:
    def program(compile: Compile) -> Any:
        def power(x: Any, n: int) -> Any:
            return x * fast(x, n - 1) if n else x

        fast = compile(power)
        out = []
        for k in range(4):
            x = randn(3, seed=k).requires_grad_()
            fast(x, 3).sum().backward()
            out.append(x)
        return out

    same(program)


# --- a refusal in the backward pass


def test_a_scatter_by_a_mask_is_refused_and_right() -> None:
    def program(compile: Compile) -> Any:
        f = compile(lambda x, m, s: x.masked_scatter(m, s))
        out = []
        for k in range(3):
            x, s = randn(4, seed=k).requires_grad_(), randn(4, seed=k + 9).requires_grad_()
            f(x, ad.tensor([True, False, True, True]), s).square().sum().backward()
            out += [x, s]
        return out

    same(program, programs=None)
