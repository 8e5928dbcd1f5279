"""`scan` inside `vmap`, `jvp`, `jacfwd`, `jacrev`, `hessian`: the results of the plain loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.loops import _run


def same(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool((a == b).all())


def plain(step: Callable[..., Any], carry: Any, xs: Any, length: int = 0, **options: Any) -> Any:
    ys = []
    places = range(length or len(xs))
    for t in reversed(places) if options.get("reverse") else places:
        carry, y = step(carry, None if xs is None else xs[t])
        ys.append(y)
    if options.get("reverse"):
        ys.reverse()
    return carry, None if ys[0] is None else ad.stack(ys)


@pytest.fixture
def native_steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many steps ran natively, by run."""
    ran: list[int] = []
    advance = _run.LoopRun.advance

    def note(self: Any, *args: Any, **options: Any) -> Any:
        first, last = args[3:5]
        ran.append(last - first)
        return advance(self, *args, **options)

    monkeypatch.setattr(_run.LoopRun, "advance", note)
    return ran


def decay(loop: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    def f(x: ad.Tensor) -> Any:
        def step(c: Any, y: Any) -> Any:
            u, n = c
            u = u * x.cos() + y
            return (u, n + u.sum()), u * 2

        (u, n), ys = loop(step, (ad.ones(3), ad.tensor(0.0)), x * ad.ones(9, 3), **options)
        return u * n + ys.sum(0)

    return f


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"memory": "sqrt"}], ids=str)
def test_vmap(options: dict[str, Any], native_steps: list[int]) -> None:
    x = ad.rand(4, 3)
    assert same(ad.vmap(decay(ad.scan, **options))(x), ad.vmap(decay(plain, **options))(x))
    assert sum(native_steps) == 7  # the first made batches of the carry, the second is the pattern
    two = ad.vmap(ad.vmap(decay(ad.scan)), in_dims=1, out_dims=1)
    assert same(
        two(ad.ones(2, 4, 3) * x),
        ad.vmap(ad.vmap(decay(plain)), in_dims=1, out_dims=1)(ad.ones(2, 4, 3) * x),
    )


@pytest.mark.parametrize("options", [{}, {"reverse": True}], ids=str)
def test_forward_mode(options: dict[str, Any], native_steps: list[int]) -> None:
    f, g = decay(ad.scan, **options), decay(plain, **options)
    x, t = ad.rand(3), ad.rand(3)
    assert all(map(same, ad.func.jvp(f, (x,), (t,)), ad.func.jvp(g, (x,), (t,))))
    assert sum(native_steps) == 7
    assert same(ad.func.jacfwd(f)(x), ad.func.jacfwd(g)(x))
    assert sum(native_steps) == 14
    nested = [ad.func.jvp(lambda y, h=h: ad.func.jvp(h, (y,), (t,))[1], (x,), (t,)) for h in (f, g)]
    assert all(map(same, *nested))
    assert sum(native_steps) > 14


def test_reverse_mode(native_steps: list[int]) -> None:
    f, g = decay(ad.scan), decay(plain)
    x = ad.rand(3)
    assert ad.allclose(ad.func.jacrev(f)(x), ad.func.jacrev(g)(x))
    # Forward, the states once more, and the batch of gradients back over most of them.
    assert sum(native_steps) >= 9 + 8 + 5
    assert ad.allclose(
        ad.func.hessian(lambda y: f(y).sum())(x),
        ad.func.hessian(lambda y: g(y).sum())(x),
        rtol=1e-4,
    )
    assert ad.allclose(
        ad.vmap(ad.func.grad(lambda y: f(y).sum()))(ad.stack([x, x * 2])),
        ad.vmap(ad.func.grad(lambda y: g(y).sum()))(ad.stack([x, x * 2])),
    )


def test_a_batch_that_only_an_output_depends_on() -> None:
    def f(x: ad.Tensor, loop: Callable[..., Any]) -> Any:
        return loop(lambda c, _: (c * 1.5, c * x), ad.ones(2), None, length=5)[1]

    x = ad.rand(3, 2)
    found, wanted = (ad.vmap(lambda y, g=g: f(y, g))(x) for g in (ad.scan, plain))
    assert same(found, wanted)


def test_parameters_with_a_gradient() -> None:
    w = ad.rand(3, requires_grad=True)

    def f(x: ad.Tensor, loop: Callable[..., Any]) -> Any:
        return loop(lambda c, _: ((c * w).sin() + x, None), x, None, length=5)[0]

    x, t = ad.rand(4, 3), ad.rand(4, 3)
    for run in (
        lambda g: ad.vmap(lambda y: f(y, g))(x),
        lambda g: ad.func.jvp(lambda y: f(y, g), (x,), (t,))[1],
    ):
        found, wanted = run(ad.scan), run(plain)
        assert same(found, wanted)
        gradients = [ad.autograd.grad(r.sum(), w, create_graph=True)[0] for r in (found, wanted)]
        assert ad.allclose(*gradients)
        assert ad.allclose(*(ad.autograd.grad(g.sum(), w)[0] for g in gradients))


def test_jacrev_of_a_batch() -> None:
    def f(x: ad.Tensor, loop: Callable[..., Any]) -> Any:
        return ad.vmap(lambda y: loop(lambda c, _: (c.sin() * y, None), y, None, length=5)[0])(x)

    x = ad.rand(3, dtype=ad.float64)
    found, wanted = (ad.func.jacrev(lambda y, g=g: f(y, g))(x) for g in (ad.scan, plain))
    assert ad.allclose(found, wanted, rtol=1e-12)


def test_compiled_transforms() -> None:
    x = ad.rand(4, 3)
    for transform in (ad.vmap, lambda f: ad.vmap(ad.func.jacfwd(f))):
        compiled = ad.compile(transform(decay(ad.scan)))
        wanted = transform(decay(plain))(x)
        assert same(compiled(x), wanted) and same(compiled(x), wanted)


def test_effects_happen_as_often_as_there_are_steps() -> None:
    log: list[int] = []

    def step(c: ad.Tensor, _: None) -> tuple[ad.Tensor, None]:
        log.append(1)
        return c * 2, None

    with pytest.warns(ad.compiler.CompileWarning, match="`log` is changed"):
        found = ad.vmap(lambda x: ad.scan(step, x, length=6)[0])(ad.ones(2))
    assert found.tolist() == [64.0, 64.0] and len(log) == 6


def test_random_numbers_in_a_batch() -> None:
    def f(x: ad.Tensor, loop: Callable[..., Any]) -> Any:
        return loop(lambda c, _: (c + ad.randn(2) * x, None), ad.zeros(2), None, length=6)[0]

    x = ad.rand(3)
    for randomness in ("different", "same"):
        found = []
        for loop in (ad.scan, plain):
            ad.manual_seed(2)
            found.append(ad.vmap(lambda y, g=loop: f(y, g), randomness=randomness)(x))
        assert same(*found)


def test_parts_of_a_tensor_with_tangents_keep_a_step_recorded() -> None:
    # Warnings are errors: a step that runs as Python would say so.
    def force(x: Any, p: Any) -> Any:
        return p[0] * x**2 + p[1] * x

    def run(p: Any) -> Any:
        def step(x: Any, _: None) -> Any:
            return x - 0.1 * ad.func.grad(lambda v: force(v, p).sum())(x), None

        return ad.scan(step, ad.ones(3), length=5)[0]

    p = ad.tensor([1.0, 2.0])
    slope = ad.func.jacfwd(run)(p)
    moved = [run(p + h * e) for h in (1e-2, -1e-2) for e in ad.eye(2)]
    wanted = ad.stack([moved[0] - moved[2], moved[1] - moved[3]], 1) / 2e-2
    assert ad.allclose(slope, wanted, atol=1e-3)


def test_elements_of_a_tensor_from_outside_are_taken_into_the_program() -> None:
    """No warning: a view of a tensor with batched tangents does not depend on where it lies."""

    def end(p: ad.Tensor) -> ad.Tensor:
        return ad.scan(lambda c, _: (c + 0.1 * p[1] * c, None), p[:1] * 1, length=6)[0]

    p = ad.tensor([2.0, 0.5, 3.0], dtype=ad.float64)
    by_reverse, by_forward = ad.func.jacrev(end)(p), ad.func.jacfwd(end)(p)
    assert bool(((by_reverse - by_forward).abs() < 1e-12).all())
