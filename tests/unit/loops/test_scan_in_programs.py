"""`scan` inside a compiled function, and inside the step of another scan: one instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad


def same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


def plain(step: Callable[..., Any], carry: Any, xs: Any, length: int = 0, **_: Any) -> Any:
    ys = []
    for t in range(length or len(xs)):
        carry, y = step(carry, None if xs is None else xs[t])
        ys.append(y)
    return carry, None if ys[0] is None else ad.stack(ys)


def close(a: Any, b: Any) -> bool:
    """Sums over an inner loop are added to those over the outer one as they are."""
    return a.dtype == b.dtype and bool(ad.allclose(a, b, rtol=1e-13, atol=0))


def names(program: Any) -> list[str]:
    return [row[0] for row in program.code()]


@pytest.mark.parametrize("kept", [{}, {"memory": "sqrt"}, {"snapshots": 2}], ids=str)
def test_in_a_compiled_function_it_is_one_instruction(kept: dict[str, Any]) -> None:
    ad.manual_seed(0)
    k = ad.rand(3, requires_grad=True)

    def run(loop: Callable[..., Any], start: ad.Tensor, push: ad.Tensor) -> Any:
        gain = k * 1.5

        def step(c: Any, x: Any) -> Any:
            c = c * gain.sin() + x
            return c, c * start

        last, ys = loop(step, start * 2, push, **kept)
        return last.sin(), ys

    compiled = ad.compile(lambda start, push: run(ad.scan, start, push), fullgraph=True)
    for turn in range(3):
        start = ad.rand(3, requires_grad=True)
        push = ad.rand(40, 3, requires_grad=True)
        leaves = [k, start, push]
        found, wanted = compiled(start, push), run(plain, start, push)
        assert all(map(same, found, wanted))
        losses = [(last * 2).sum() + ys.square().sum() for last, ys in (found, wanted)]
        if turn == 2:
            losses = [ys.sum() for _, ys in (found, wanted)]
        assert all(map(same, *(ad.autograd.grad(loss, leaves) for loss in losses)))
    (program,) = compiled.programs
    for part in (program.program, program.backward):
        assert names(part).count("host call") == 1


@pytest.mark.parametrize("kept", [{}, {"memory": "sqrt"}, {"snapshots": 2}], ids=str)
@pytest.mark.parametrize("inner_kept", [{}, {"snapshots": 2}], ids=str)
def test_in_another_scan(kept: dict[str, Any], inner_kept: dict[str, Any]) -> None:
    ad.manual_seed(1)
    a = ad.rand(2, dtype=ad.float64, requires_grad=True)

    def run(inner_loop: Callable[..., Any], loop: Callable[..., Any]) -> Any:
        def outer(c: Any, row: Any) -> Any:
            def inner(s: Any, x: Any) -> Any:  # reads its own state, and that of the outer loop
                s = s * a.cos() + x * c
                return s, s

            s, ys = inner_loop(inner, c * 0.5, row, **inner_kept)
            return s, ys.sum(0)

        return loop(outer, start, xs, **kept)

    start = ad.rand(2, dtype=ad.float64, requires_grad=True)
    xs = ad.rand(6, 5, 2, dtype=ad.float64, requires_grad=True)
    leaves = [a, start, xs]
    wanted, found = run(plain, plain), run(ad.scan, ad.scan)
    assert all(map(same, found, wanted))
    for loss in (lambda c, y: c.sum(), lambda c, y: (c * y).sum()):
        gradients = [ad.autograd.grad(loss(*r), leaves, retain_graph=True) for r in (found, wanted)]
        assert all(map(close, *gradients))


def test_three_deep() -> None:
    a = ad.tensor(0.7, dtype=ad.float64, requires_grad=True)

    def run(loop: Callable[..., Any]) -> Any:
        def third(c: Any, _: Any) -> Any:
            return (c * a).sin(), None

        def second(c: Any, _: Any) -> Any:
            return loop(third, c, None, length=5)[0] + 0.1, None

        def first(c: Any, _: Any) -> Any:
            return loop(second, c, None, length=5)[0] * a, None

        return loop(first, ad.tensor(1.0, dtype=ad.float64), None, length=5)[0]

    found, wanted = run(ad.scan), run(plain)
    assert same(found, wanted)
    assert close(*(ad.autograd.grad(t, a)[0] for t in (found, wanted)))


def test_effects_happen_as_often_as_there_are_steps() -> None:
    log: list[int] = []
    a = ad.tensor(3.0, requires_grad=True)

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        log.append(1)
        return c * a, None

    def f(x: ad.Tensor) -> ad.Tensor:
        return ad.scan(step, x, length=4)[0]

    compiled = ad.compile(f)
    with pytest.warns(ad.compiler.CompileWarning, match="`log` is changed"):
        last = compiled(ad.ones(2))
    assert len(log) == 4 and last.tolist() == [81.0, 81.0]
    assert ad.autograd.grad(last.sum(), a)[0] == 2 * 4 * 27


def test_random_numbers_are_those_of_the_loop() -> None:
    a = ad.tensor(0.9, requires_grad=True)

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        return c * a + ad.randn(3) * c, None

    def run(loop: Callable[..., Any]) -> Any:
        def outer(c: Any, _: Any) -> Any:
            return loop(step, c, None, length=3)[0] * a, None

        ad.manual_seed(3)
        last, _ = loop(outer, ad.ones(3), None, length=4)
        return last, ad.autograd.grad(last.sum(), a)[0], ad.rand(2)

    assert all(map(same, run(ad.scan), run(plain)))
    compiled = ad.compile(lambda x: ad.scan(step, x, length=5)[0])
    for _ in range(2):
        ad.manual_seed(4)
        found = compiled(ad.ones(3))
        ad.manual_seed(4)
        assert same(found, plain(step, ad.ones(3), None, 5)[0])


def test_what_a_step_reads_guards_the_function() -> None:
    state = {"gain": 2.0}

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        return c * state["gain"], None

    compiled = ad.compile(lambda x: ad.scan(step, x, length=3)[0])
    assert compiled(ad.tensor(1.0)) == 8
    state["gain"] = 3.0
    assert compiled(ad.tensor(1.0)) == 27


def test_parameters_may_be_changed_in_place_between_calls() -> None:
    w = ad.tensor([1.1, 0.9], requires_grad=True)

    @ad.compile
    def f(x: ad.Tensor) -> ad.Tensor:
        return ad.scan(lambda c, _: (c * w.sin(), None), x, length=5)[0].sum()

    for _ in range(4):
        x = ad.rand(2, requires_grad=True)
        found = ad.autograd.grad(f(x), [x, w])
        c = x
        for _ in range(5):
            c = c * w.sin()
        assert all(map(same, found, ad.autograd.grad(c.sum(), [x, w])))
        with ad.no_grad():
            w.add_(0.1)


def test_gradients_inside_a_compiled_function() -> None:
    def loss(x: ad.Tensor, loop: Callable[..., Any]) -> ad.Tensor:
        return loop(lambda c, _: (c * x.sin() + 1, None), x, None, length=6)[0].sum()

    compiled = ad.compile(lambda x: ad.func.grad(lambda y: loss(y, ad.scan))(x) * 2)
    for _ in range(2):
        x = ad.rand(3)
        y = x.clone().requires_grad_()
        assert same(compiled(x), ad.autograd.grad(loss(y, plain), y)[0] * 2)


def test_errors_name_the_step_in_programs() -> None:
    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        ad.linalg.cholesky(c)
        return c - ad.eye(2), None

    compiled = ad.compile(lambda x: ad.scan(step, x, length=6)[0])
    compiled(9.5 * ad.eye(2))
    with pytest.raises(ad.linalg.LinAlgError):
        compiled(3.5 * ad.eye(2))


def test_after_the_recording_around_it_was_refused() -> None:
    def f(x: ad.Tensor) -> ad.Tensor:
        factor = 2.0 if bool(x.sum() > 0) else 3.0
        last, _ = ad.scan(lambda c, _: (c * factor, None), x, length=5)
        return ad.while_loop(lambda x: x.max() < 1000, lambda x: x * 2, last)

    with pytest.warns(ad.compiler.CompileWarning, match="the value of a tensor decides"):
        found = ad.compile(f)(ad.ones(2))
    assert found.tolist() == [1024.0, 1024.0]
