"""Programs around which something happens: errors, random numbers, custom functions, modes.

Read worlds.py first: each function builds a world, in which one is called eagerly or compiled.
"""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from adjoint.utils.checkpoint import checkpoint
from tests.unit.compiler.worlds import Worlds, check, draw

F = ad.nn.functional

world = Worlds()
# What cannot be a program runs eagerly; everything else is expected to be replayed.
EAGER = {
    "a_custom_backward_that_decides",
    "a_generator_of_its_own",
    "an_error_in_a_replay",
    "an_error_that_is_caught",
    "checkpoints_that_draw",
    "set_grad_enabled_left_off",
}


class Scaled(ad.autograd.Function):
    """A custom function whose backward reads a saved value and a number."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x.exp() * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x.exp() * ctx.scale, None


class Doubled(ad.autograd.Function):
    """A custom function that changes its argument."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2


class Deciding(ad.autograd.Function):
    """A custom function whose backward looks at a value."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * 2 if x.sum() > 0 else g * 7


@world
def an_error_that_is_caught() -> Any:
    def f(a: Any) -> Any:
        try:
            return ad.take(a, (a[:1] * 100).long().abs())
        except IndexError:
            return a[:1] * 0 - 1

    return f, lambda g, k: [g(ad.ones(3)), g(ad.zeros(3)), g(ad.ones(3))]


@world
def an_error_in_a_replay() -> Any:
    def f(a: Any) -> Any:
        try:
            return ad.take(a, (a[:1] * 100).long().abs())
        except IndexError:
            return a[:1] * 0 - 1

    return f, lambda g, k: [g(ad.zeros(3)), g(ad.ones(3)), g(ad.zeros(3))]


@world
def a_generator_of_its_own() -> Any:
    def f(a: Any) -> Any:
        return a + ad.randn(3, generator=ad.Generator().manual_seed(3))

    return f, lambda g, k: g(draw(3))


@world
def random_numbers() -> Any:
    generator = ad.Generator().manual_seed(3)

    def f(a: Any) -> Any:
        ad.randn(3)  # nobody reads it, but it moves the stream
        b = ad.empty(3).normal_()
        drawn = ad.randn(3, generator=generator) + ad.rand(3) + b.uniform_()
        chosen = ad.multinomial(ad.softmax(a.detach(), 0), 2)
        return (F.dropout(a, 0.5) * a).sum(), drawn, chosen, ad.bernoulli(ad.sigmoid(a.detach()))

    def drive(g: Any, k: int) -> Any:
        if k == 2:
            ad.manual_seed(5)
        x = draw(3, requires_grad=True)
        out = g(x)
        out[0].backward()
        return [out, x.grad, ad.randn(2), ad.randn(2, generator=generator)]

    return f, drive


@world
def running_statistics() -> Any:
    norm = ad.nn.BatchNorm1d(3)

    def f(a: Any) -> Any:
        norm(a)  # nobody reads it, but it counts
        return norm(a)

    def drive(g: Any, k: int) -> Any:
        out = g(draw(4, 3))
        return [out, norm.running_mean, norm.running_var, norm.num_batches_tracked]

    return f, drive


@world
def custom_functions() -> Any:
    def f(a: Any) -> Any:
        return Scaled.apply(a, 3.0) + Doubled.apply(a.clone())

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        out = g(x)
        out.sum().backward()
        return [out, x.grad]

    return f, drive


@world
def a_custom_backward_that_decides() -> Any:
    def f(a: Any) -> Any:
        return Deciding.apply(a)

    def drive(g: Any, k: int) -> Any:
        x = ad.full((3,), 1.0 if k % 2 else -1.0, requires_grad=True)
        g(x).sum().backward()
        return x.grad

    return f, drive


@world
def checkpoints() -> Any:
    def f(a: Any) -> Any:
        part = checkpoint(
            lambda t: (t.sin() * t).exp(), a, use_reentrant=False, preserve_rng_state=False
        )
        return part.sum()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def checkpoints_that_draw() -> Any:
    def f(a: Any) -> Any:
        return checkpoint(lambda t: F.dropout(t, 0.5) * t, a, use_reentrant=False).sum()

    def drive(g: Any, k: int) -> Any:
        x = draw(8, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def hooks_of_saved_values() -> Any:
    def f(a: Any) -> Any:
        with ad.autograd.graph.saved_tensors_hooks(lambda t: t.clone() * 2, lambda t: t):
            return (a * a).sum()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def transforms_inside() -> Any:
    func = ad.func

    def f(a: Any) -> Any:
        return (
            func.vmap(lambda t: (t * t).sum())(a),
            func.vmap(func.grad(lambda t: (t.sin() * t).sum()))(a),
            func.hessian(lambda t: (t**3).sum())(a[0]),
            func.jvp(lambda t: t.exp() * t, (a,), (a,))[1],
            func.jacrev(lambda t: t.sin())(a[0]),
            func.jacfwd(lambda t: t.tanh() * t)(a[0]),
        )

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 2, requires_grad=True)
        out = g(x)
        sum(t.sum() for t in out).backward()
        return [out, x.grad]

    return f, drive


@world
def random_numbers_under_vmap() -> Any:
    def f(a: Any) -> Any:
        added = ad.func.vmap(lambda t: t + ad.randn(2), randomness="different")(a)
        return added + ad.func.vmap(lambda t: F.dropout(t, 0.5), randomness="same")(a)

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 2, requires_grad=True)
        out = g(x)
        out.sum().backward()
        return [out, x.grad, ad.randn(2)]

    return f, drive


@world
def set_grad_enabled_left_off() -> Any:
    def f(a: Any) -> Any:
        ad.set_grad_enabled(False)
        return a * 2

    def drive(g: Any, k: int) -> Any:
        try:
            return [g(draw(2)), ad.is_grad_enabled()]
        finally:
            ad.set_grad_enabled(True)

    return f, drive


@world
def the_default_dtype_changes() -> Any:
    def f(a: Any) -> Any:
        return a * 2.5, ad.zeros(2), ad.arange(3) * 0.5

    def drive(g: Any, k: int) -> Any:
        ad.set_default_dtype(ad.float64 if k % 2 else ad.float32)
        try:
            return g(ad.ones(2, dtype=ad.int64))
        finally:
            ad.set_default_dtype(ad.float32)

    return f, drive


@pytest.mark.parametrize("name", world)
def test_a_compiled_function_is_seen_to_do_what_the_function_does(name: str) -> None:
    check(world[name], name not in EAGER)
