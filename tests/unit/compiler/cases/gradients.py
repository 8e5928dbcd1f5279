"""Gradients with Python in them: custom functions, checkpoints, hooks, transforms."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn
from adjoint.autograd import Function
from adjoint.utils.checkpoint import checkpoint

from .harness import Box, Compile, Table

table = Table("gradients")


def passes(function: Any, *changes: Any, between: bool = False) -> Any:
    """A program: calls with backward passes, and changes before a call, or before its pass."""

    def program(compile: Compile) -> Any:
        s = Box(scale=2.0, power=2, parts=[1.0], log=[], on=True, w=ad.ones(2, requires_grad=True))
        f = compile(lambda x: function(s, x))
        found = []
        for k in range(3 + len(changes)):
            x = ad.tensor([1.0, 2.0], requires_grad=True)
            if k >= 3 and not between:
                changes[k - 3](s)
            y = f(x)
            if k >= 3 and between:
                changes[k - 3](s)
            y.sum().backward()
            found += [y.detach(), x.grad, None if s.w.grad is None else s.w.grad.clone()]
        return found

    return program


def case(name: str, function: Any, *changes: Any) -> None:
    before = passes(function, *changes)
    before.__name__ = name
    table.add(before)
    after = passes(function, *changes, between=True)
    after.__name__ = f"{name}, before the pass"
    table.add(after, raises=True)


def scale(v: float) -> Any:
    return lambda s: setattr(s, "scale", v)


class Scaled(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, s: Any) -> Any:
        ctx.s, ctx.at_call = s, s.scale
        ctx.save_for_backward(x)
        return x * s.scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.at_call, None


class Late(Scaled):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.s.scale, None


class Branching(Scaled):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return (g * 3 if ctx.s.on else g * 5), None


class Saved(Scaled):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return g * x * ctx.at_call, None


class Attribute(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, s: Any) -> Any:
        ctx.kept = x * s.scale
        return ctx.kept * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.kept, None


class Counting(Scaled):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        ctx.s.log.append(1)
        return g * len(ctx.s.log), None


class Setup(Function):
    @staticmethod
    def forward(x: Any, k: float) -> Any:
        return x * k

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.k, None


class Needs(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        a = g * w * (2.0 if ctx.needs_input_grad[1] else 1.0)
        return a, (g * x if ctx.needs_input_grad[1] else None)


class Writing(Scaled):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        with ad.no_grad():
            ctx.s.w.add_(1)
        return g * 2, None


def hooked(s: Any, x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * s.scale)
    return y.sin()


def hooked_twice(s: Any, x: Any) -> Any:
    y = x * 2
    for _ in range(2):
        y.register_hook(lambda g: g + s.scale)
    return y.sin()


def hook_that_writes(s: Any, x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: s.log.append(1))
    return y * len(s.log)


def node_hook(s: Any, x: Any) -> Any:
    y = x * 2
    y.grad_fn.register_hook(lambda given, arrived: tuple(g * s.scale for g in given))
    return y.sin()


def retained(s: Any, x: Any) -> Any:
    y = x * s.scale
    y.retain_grad()
    return y.sin()


def inner_pass(s: Any, x: Any) -> Any:
    y = (x * s.scale).sin()
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    return y + g


def detached(s: Any, x: Any) -> Any:
    return x * (x * s.scale).detach() + s.w


def saved_hooks(s: Any, x: Any) -> Any:
    with ad.autograd.graph.saved_tensors_hooks(lambda t: t * s.scale, lambda t: t):
        return x * x


def frozen(s: Any, x: Any) -> Any:
    with ad.set_grad_enabled(s.on):
        return x * s.scale + s.w * 0


case("a custom function", lambda s, x: Scaled.apply(x, s), scale(3.0), scale(4.0))
case("a late custom function", lambda s, x: Late.apply(x, s), scale(3.0), scale(4.0))
case(
    "a custom function that branches",
    lambda s, x: Branching.apply(x, s),
    lambda s: setattr(s, "on", False),
)
case("a custom function that saves", lambda s, x: Saved.apply(x, s), scale(3.0))
case("a custom function that keeps", lambda s, x: Attribute.apply(x, s), scale(3.0))
case("a custom function that counts", lambda s, x: Counting.apply(x, s), scale(3.0))
case("a custom function with a context", lambda s, x: Setup.apply(x, s.scale), scale(3.0))
case(
    "a custom function that asks",
    lambda s, x: Needs.apply(x, s.w),
    lambda s: s.w.requires_grad_(False),
)
case("a custom function that writes", lambda s, x: Writing.apply(x, s), scale(3.0))
case(
    "another custom function",
    lambda s, x: (Scaled if s.on else Late).apply(x, s),
    lambda s: setattr(s, "on", False),
    scale(5.0),
)
case(
    "a checkpoint",
    lambda s, x: checkpoint(lambda y: (y * s.scale).sin(), x, use_reentrant=False),
    scale(3.0),
)
case(
    "a reentrant checkpoint",
    lambda s, x: checkpoint(lambda y: (y * s.scale).sin(), x, use_reentrant=True),
    scale(3.0),
)
case(
    "a checkpoint of a module",
    lambda s, x: checkpoint(nn.Tanh(), x * s.scale, use_reentrant=False),
    scale(3.0),
)
case("a hook", hooked, scale(3.0))
case("two hooks", hooked_twice, scale(3.0))
case("a hook that writes", hook_that_writes, scale(3.0))
case("a hook of a node", node_hook, scale(3.0))
case("a retained gradient", retained, scale(3.0))
case("a pass inside", inner_pass, scale(3.0))
case("a part that is detached", detached, scale(3.0))
case("hooks of saved values", saved_hooks, scale(3.0))
case("gradients on and off", frozen, scale(3.0))
case(
    "grad of a function",
    lambda s, x: ad.func.grad(lambda v: (v * s.scale).sin().sum())(x) + x,
    scale(3.0),
)
case("vmap of a function", lambda s, x: ad.func.vmap(lambda v: v * s.scale)(x), scale(3.0))
case(
    "jacrev",
    lambda s, x: ad.func.jacrev(lambda v: v**s.power)(x).sum(0) * x,
    lambda s: setattr(s, "power", 3),
)
case("jvp", lambda s, x: ad.func.jvp(lambda v: v * s.scale, (x,), (x,))[1], scale(3.0))
case("vjp", lambda s, x: ad.func.vjp(lambda v: v * s.scale, x)[1](x)[0] * x, scale(3.0))
case("a kept transform", lambda s, x: kept_transform(s)(x), scale(3.0))
case(
    "a hook of the weight",
    lambda s, x: x * s.w * s.scale,
    lambda s: s.w.register_hook(lambda g: g * 2),
)
case(
    "a weight that is frozen",
    lambda s, x: x * s.w,
    lambda s: s.w.requires_grad_(False),
    lambda s: s.w.requires_grad_(True),
)
case(
    "another weight",
    lambda s, x: x * s.w,
    lambda s: setattr(s, "w", ad.ones(2, requires_grad=True)),
)
case(
    "a weight that is computed",
    lambda s, x: x * s.w,
    lambda s: setattr(s, "w", (ad.ones(2, requires_grad=True) * 3).detach().requires_grad_()),
)


def kept_transform(s: Any) -> Any:
    if not hasattr(s, "transform"):
        s.transform = ad.func.grad(lambda v: (v * s.scale).sin().sum())
    return s.transform


@table
def a_graph_from_outside(compile: Compile) -> Any:
    w = ad.ones(2, requires_grad=True)
    f = compile(lambda x, h: x * h)
    found = []
    for k in range(4):
        h = (w * (k + 1)).sin()
        (f(ad.ones(2), h) * h).sum().backward()
        found.append(w.grad.clone())
    return found


@table
def a_computed_tensor_in_state(compile: Compile) -> Any:
    w = ad.ones(2, requires_grad=True)
    box = Box(h=w * 2)
    f = compile(lambda x: x * box.h)
    found = []
    for k in range(4):
        box.h = w * (k + 2)
        f(ad.ones(2)).sum().backward()
        found.append(w.grad.clone())
    return found


@table
def the_same_graph_again(compile: Compile) -> Any:
    w = ad.ones(2, requires_grad=True)
    h = (w * 2).exp()
    f = compile(lambda x: x * h)
    found = []
    for _ in range(3):
        f(ad.ones(2)).sum().backward(retain_graph=True)
        found.append(w.grad.clone())
    return found


@table
def jacobians(compile: Compile) -> Any:
    f = compile(lambda x: (x * 2).sin())
    x = ad.tensor([1.0, 2.0])
    found = [f(x) for _ in range(2)]
    return [
        *found,
        ad.autograd.functional.jacobian(f, x),
        ad.func.jacrev(f)(x),
        ad.func.jacfwd(f)(x),
    ]


@table
def gradients_of_some(compile: Compile) -> Any:
    f = compile(lambda x, w, b: ((x * w).sin() + b, (x * b).cos()))
    found = []
    for wanted in ((0,), (1,), (0, 2), (0, 1, 2), (2,)):
        given = [ad.full((2,), float(k + 1), requires_grad=True) for k in range(3)]
        y, z = f(*given)
        inputs = [given[k] for k in wanted]
        found += ad.autograd.grad(y.sum() + z.sum(), inputs, retain_graph=True)
        found += ad.autograd.grad(y.sum(), inputs, retain_graph=True, allow_unused=True)
        found += ad.autograd.grad(z.sum(), inputs, allow_unused=True)
    return found


@table
def tensors_that_need_no_gradient_some_day(compile: Compile) -> Any:
    f = compile(lambda x, w: x * w)
    found = []
    for flags in (
        (True, True),
        (True, True),
        (False, True),
        (True, False),
        (False, False),
        (True, True),
    ):
        x, w = (ad.ones(2, requires_grad=flag) for flag in flags)
        y = f(x, w)
        if y.requires_grad:
            y.sum().backward()
        found += [y.detach(), x, w]
    return found
