"""`cond` in compiled functions and in steps of loops: one of two branches in each run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.loops import _run
from tests.unit.loops.plain_loop import same


def plain(step: Callable[..., Any], carry: Any, xs: Any, **_: Any) -> Any:
    ys = []
    for x in xs:
        carry, y = step(carry, x)
        ys.append(y)
    return carry, ad.stack(ys)


@pytest.mark.parametrize("kept", [{}, {"memory": "sqrt"}, {"snapshots": 2}], ids=str)
def test_in_a_step(kept: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    a = ad.tensor([0.9, 1.2], requires_grad=True)
    b = ad.tensor(0.7, requires_grad=True)
    ran: list[int] = []
    advance = _run.LoopRun.advance

    def note(self: Any, *args: Any, **options: Any) -> Any:
        ran.append(args[4] - args[3])
        return advance(self, *args, **options)

    monkeypatch.setattr(_run.LoopRun, "advance", note)

    def step(c: Any, x: Any) -> Any:
        c, y = ad.cond(
            c.sum() > 2.5, lambda c: (c * b + x, c), lambda c: (c * a, c.sin() * b), (c,)
        )
        return c + 0.1, y

    xs = ad.rand(15, 2, requires_grad=True)
    start = ad.tensor([1.0, 1.5], requires_grad=True)
    found, wanted = ad.scan(step, start, xs, **kept), plain(step, start, xs)
    assert max(ran) > 1  # natively
    assert all(map(same, found, wanted))
    leaves = [a, b, start, xs]
    losses = [last.sum() + (ys * ys).sum() for last, ys in (found, wanted)]
    first, second = (ad.autograd.grad(loss, leaves) for loss in losses)
    assert all(ad.allclose(g, h, rtol=1e-6) for g, h in zip(first, second, strict=True))


def test_in_a_compiled_function() -> None:
    w = ad.tensor(3.0, requires_grad=True)

    @ad.compile(fullgraph=True)
    def f(x: ad.Tensor) -> ad.Tensor:
        return ad.cond(x.sum() > 0, lambda x: x * w, lambda x: x.exp(), (x * 2,)).sin()

    for value in (1.0, -1.0, 2.0, -2.0):
        x = ad.tensor([value, value], requires_grad=True)
        y = (x * 2 * w if value > 0 else (x * 2).exp()).sin()
        found = f(x)
        assert same(found, y)
        (g, gw), (h, hw) = (
            ad.autograd.grad(t.sum(), [x, w], allow_unused=True) for t in (found, y)
        )
        assert same(g, h) and (same(gw, hw) if hw is not None else gw == 0)
    assert len(f.programs) == 1


def test_the_second_derivative_of_a_loop_with_branches() -> None:
    a = ad.tensor(0.9, dtype=ad.float64, requires_grad=True)

    def step(c: Any, x: Any) -> Any:
        return ad.cond(c > 1, lambda c: c * a * x, lambda c: c + a.sin(), (c,)), c

    xs, found = ad.ones(9, dtype=ad.float64), []
    with pytest.warns(ad.compiler.CompileWarning, match="is differentiated"):
        for loop in (ad.scan, plain):
            last, _ = loop(step, ad.tensor(0.5, dtype=ad.float64), xs)
            (g,) = ad.autograd.grad(last, a, create_graph=True)
            found.append((last, g, ad.autograd.grad(g, a)[0]))
    assert all(ad.allclose(x, y) for x, y in zip(*found, strict=True))


def test_effects_of_the_branch_that_is_not_taken_do_not_happen() -> None:
    log: list[str] = []

    def note(text: str, x: ad.Tensor) -> ad.Tensor:
        log.append(text)
        return x * 2

    def quiet(x: ad.Tensor) -> ad.Tensor:
        return x * 3

    f = ad.compile(lambda x: ad.cond(x > 0, quiet, lambda x: note("no", x), (x,)))
    with pytest.warns(ad.compiler.CompileWarning):
        assert f(ad.tensor(1.0)) == 3
    assert log == []
    g = ad.compile(lambda x: ad.cond(x > 0, lambda x: note("yes", x), quiet, (x,)))
    with pytest.warns(ad.compiler.CompileWarning):
        assert g(ad.tensor(1.0)) == 2
    assert log == ["yes"]


@pytest.mark.parametrize(
    "other",
    [
        lambda x: ad.cat([x, x]),
        lambda x: ad.linalg.cholesky(-ad.eye(2)).sum() * x,
        lambda x: (x, x),
        lambda x: x + ad.rand(2),
    ],
    ids=["shape", "error", "structure", "random numbers"],
)
def test_branches_that_cannot_be_recorded_together(other: Callable[..., Any]) -> None:
    f = ad.compile(lambda x: ad.cond(x.sum() > 0, lambda x: x * 3, other, (x,)))
    with pytest.warns(ad.compiler.CompileWarning):
        assert f(ad.ones(2)).tolist() == [3.0, 3.0]
    assert f(ad.ones(2)).tolist() == [3.0, 3.0]


def test_effects_before_it_stay() -> None:
    log: list[int] = []

    def f(x: ad.Tensor) -> ad.Tensor:
        log.append(1)
        return ad.cond(x > 0, lambda x: x * 3, lambda x: x * 2, (x,))

    with pytest.warns(ad.compiler.CompileWarning, match="`log` is changed"):
        assert ad.compile(f)(ad.tensor(1.0)) == 3
    assert len(log) == 1


ROWS = ad.tensor([[1.0, 2.0], [-1.0, 0.5], [0.3, -4.0]], dtype=ad.float64)


def _chosen(x: Any) -> Any:
    return ad.cond(x.sum() > 0, lambda x: (x * x).sin().sum(), lambda x: x.cos().sum(), (x,))


def _in_a_scan(x: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        return ad.cond(c.sum() > 0, lambda c: c - 0.7 * x, lambda c: c + 1.1, (c,)), c

    return ad.scan(step, x, length=7)[1].square().sum()


@pytest.mark.filterwarnings("ignore:the step of a scan runs as Python")  # in forward mode
@pytest.mark.parametrize("transform", [lambda f: f, ad.func.grad, ad.func.hessian, ad.func.jacfwd])
@pytest.mark.parametrize("function", [_chosen, _in_a_scan])
def test_each_sample_of_a_batch_takes_its_branch(
    function: Callable[..., Any], transform: Callable[..., Any]
) -> None:
    f = transform(function)
    wanted = ad.stack([f(row) for row in ROWS])
    assert ad.allclose(ad.vmap(f)(ROWS), wanted, rtol=1e-13, atol=1e-13)


def test_a_branch_that_a_sample_does_not_take_leaves_no_nan() -> None:
    def root(x: Any) -> Any:
        return ad.cond(x > 0, ad.sqrt, lambda x: x * 2, (x,))

    x = ad.tensor([4.0, 0.0, -1.0])
    assert ad.vmap(ad.func.grad(root))(x).tolist() == [0.25, 2.0, 2.0]
    assert ad.vmap(ad.func.jacfwd(root))(x).tolist() == [0.25, 2.0, 2.0]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: ad.cond(x > 0, lambda: x, lambda: -x), "one bool, not a tensor"),
        (lambda x: ad.cond(x.sum() > 0, lambda: x, lambda: x.sum()), "one shape and dtype"),
        (lambda x: ad.cond(x.sum() > 0, lambda: x, lambda: (x,)), "the structure"),
    ],
)
def test_bad_branches_of_a_batch(function: Callable[..., Any], text: str) -> None:
    with pytest.raises((RuntimeError, ValueError), match=text):
        ad.vmap(function)(ROWS)
