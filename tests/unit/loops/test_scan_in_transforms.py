"""`scan` inside `vmap`, `jvp`, `jacfwd`, `jacrev`, `hessian`: the results of the plain loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad
from adjoint.loops import _run
from tests.unit.loops.plain_loop import plain, same


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
        start = ad.ones(3, dtype=x.dtype)

        def step(c: Any, y: Any) -> Any:
            u, n = c
            u = u * x.cos() + y
            return (u, n + u.sum()), u * 2

        (u, n), ys = loop(step, (start, start[0] * 0), x * ad.ones(9, 3), **options)
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


F = ad.func
X, T, MANY = (0.1 + 0.9 * ad.rand(*s, dtype=ad.float64) for s in ((3,), (3,), (2, 3)))

# By name: a transform, and whether all but a few steps run natively.
TRANSFORMS: dict[str, tuple[Callable[[Callable[..., Any]], Any], bool]] = {
    "vmap(grad)": (lambda f: ad.vmap(F.grad(f))(MANY), True),
    "vmap(vmap(grad))": (lambda f: ad.vmap(ad.vmap(F.grad(f)))(ad.stack([MANY, MANY / 2])), True),
    "grad(vmap)": (lambda f: F.grad(lambda z: ad.vmap(f)(z).sum())(MANY), True),
    "jacrev(vmap)": (lambda f: F.jacrev(ad.vmap(f))(MANY), True),
    "vmap(jacrev)": (lambda f: ad.vmap(F.jacrev(lambda y: ad.stack([f(y), f(y / 2)])))(MANY), True),
    "hessian": (lambda f: F.hessian(f)(X), True),
    "jacrev(jacfwd)": (lambda f: F.jacrev(F.jacfwd(f))(X), True),
    "jvp(grad)": (lambda f: F.jvp(F.grad(f), (X,), (T,))[1], True),
    "grad(jvp)": (lambda f: F.grad(lambda y: F.jvp(f, (y,), (T,))[1])(X), True),
    "jvp(jvp(grad))": (
        lambda f: F.jvp(lambda y: F.jvp(F.grad(f), (y,), (T,))[1], (X,), (T,))[1],
        True,
    ),
    "jvp(grad) by its direction": (
        lambda f: F.grad(lambda t: F.jvp(F.grad(f), (X,), (t,))[1].square().sum())(T),
        False,
    ),
    "grad(jvp(grad))": (
        lambda f: F.grad(lambda y: F.jvp(F.grad(f), (y,), (T,))[1].sum())(X),
        False,
    ),
    "vmap(hessian)": (lambda f: ad.vmap(F.hessian(f))(MANY), False),
    "vmap(grad(grad))": (lambda f: ad.vmap(F.grad(lambda y: F.grad(f)(y).sum()))(MANY), False),
    "grad(vmap(grad))": (
        lambda f: F.grad(lambda z: ad.vmap(F.grad(f))(z).square().sum())(MANY),
        False,
    ),
    "grad(grad(vmap))": (
        lambda f: F.grad(lambda z: F.grad(lambda q: ad.vmap(f)(q).sum())(z).sum())(MANY),
        False,
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"snapshots": 2}], ids=str)
def test_reverse_mode_inside_and_outside_of_others(
    name: str, options: dict[str, Any], native_steps: list[int]
) -> None:
    transform, is_native = TRANSFORMS[name]
    scanned, wanted = (
        transform(lambda y, loop=loop: decay(loop, **options)(y).square().sum())
        for loop in (ad.scan, plain)
    )
    assert ad.allclose(scanned, wanted, rtol=1e-11)
    assert not is_native or sum(native_steps) >= 7


def test_a_loop_inside_a_step_and_a_gradient_inside_a_step() -> None:
    def nested(y: ad.Tensor, loop: Callable[..., Any]) -> Any:
        def step(c: Any, _: Any) -> Any:
            c = loop(lambda d, _: ((d * y).sin(), None), c, None, length=5)[0]
            return c - 0.1 * F.grad(lambda v: (v.sin() * y).sum())(c), None

        return loop(step, y, None, length=5)[0].sum()

    for transform in ("vmap(grad)", "grad(vmap)", "hessian", "jacrev(jacfwd)"):
        run, _ = TRANSFORMS[transform]
        found, wanted = (run(lambda y, g=g: nested(y, g)) for g in (ad.scan, plain))
        assert ad.allclose(found, wanted, rtol=1e-10)


def test_a_gradient_that_would_need_the_step_when_it_cannot_run_is_refused() -> None:
    def f(y: ad.Tensor) -> Any:
        return ad.scan(lambda c, _: (c.sin() * y, None), y, length=6)[0].sum()

    def after(z: ad.Tensor) -> Any:
        (g,) = ad.autograd.grad(ad.vmap(f)(z).sum(), z, create_graph=True)
        return g.square().sum()

    with pytest.raises(RuntimeError, match="when the transform is over"):
        F.grad(after)(MANY)

    def before(z: ad.Tensor) -> Any:
        return F.jvp(lambda q: ad.autograd.grad(f(q), q)[0].sum(), (z,), (T,))[1]

    with pytest.raises(RuntimeError, match="before forward mode is over"):
        F.grad(before)(X)


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


@pytest.mark.parametrize("needs", range(8))
def test_steps_that_hand_out_samples_from_outside(needs: int) -> None:
    """Under forward mode their gradients are batched anew on the way."""
    a, w, p = (ad.full((3,), 0.5 + k, requires_grad=bool(needs >> k & 1)) for k in range(3))

    def by(mapped: Any) -> Any:
        def f(a: ad.Tensor, w: ad.Tensor) -> ad.Tensor:
            def sample(x: ad.Tensor) -> ad.Tensor:
                rows = ad.stack([x * (0.2 * t) for t in range(3)])
                return mapped(lambda _: ad.stack([(w * 0.7).tanh() + p, w]), rows).sum(0)

            return ad.vmap(sample)(ad.stack([a]))

        found = ad.func.jvp(f, (a, w), (a.detach().cos(), w.detach()))
        leaves = [t for t in (a, w, p) if t.requires_grad and t is not a]
        total = sum((t * t).sum() for t in found)
        return [*found, *(ad.autograd.grad(total, leaves) if leaves else [])]

    ours, wanted = by(ad.loops.map), by(lambda f, rows: ad.stack([f(row) for row in rows]))
    assert all(map(ad.allclose, ours, wanted))
