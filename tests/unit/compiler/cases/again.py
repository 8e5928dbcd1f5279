"""What runs a function again: many results used in part, second derivatives, batched gradients."""

from __future__ import annotations

from typing import Any

import adjoint as ad
from adjoint import nn

from .harness import Box, Compile, Table

table = Table("reruns")


def changed_between(function: Any, differentiate: Any, change: Any, make: Any = None) -> Any:
    """A program that changes state between a call and its backward pass."""

    def program(compile: Compile) -> Any:
        state = make() if make is not None else Box(scale=2.0, table=[2.0], on=True)
        f = compile(lambda x: function(state, x))
        found = []
        for k in range(4):
            x = ad.tensor([1.0, 2.0], requires_grad=True)
            y = f(x)
            if k == 3:
                change(state)
            found += differentiate(y, x)
        return found

    return program


def some_of_many(y: Any, x: Any) -> Any:
    return [ad.autograd.grad(y[0].sum() + y[2].sum(), x)[0]]


def second(y: Any, x: Any) -> Any:
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    return [g.detach(), ad.autograd.grad(g.sum(), x)[0]]


def batched(y: Any, x: Any) -> Any:
    return [ad.autograd.grad(y, x, ad.eye(2), is_grads_batched=True)[0]]


def penalty(y: Any, x: Any) -> Any:
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    (y.sum() + g.square().sum()).backward()
    return [x.grad.clone()]


def four(s: Any, x: Any) -> Any:
    y = x * s.scale
    return y.sin(), y.cos(), y.exp(), y * y


def cubic(s: Any, x: Any) -> Any:
    return (x * s.scale) ** 3


def of_table(s: Any, x: Any) -> Any:
    return (x * s.table[0]).sin() * x


def branch(s: Any, x: Any) -> Any:
    return x**3 if s.on else x**2


def _set(**attributes: Any) -> Any:
    return lambda s: s.__dict__.update(attributes)


def _item(s: Any) -> None:
    s.table[0] = 5.0


FUNCTIONS = {"attribute": cubic, "item": of_table, "branch": branch}
CHANGES = {"attribute": _set(scale=5.0), "item": _item, "branch": _set(on=False)}
for how in (second, batched, penalty):
    for name, function in FUNCTIONS.items():
        program = changed_between(function, how, CHANGES[name])
        program.__name__ = f"{how.__name__} after a change of an {name}"
        table.add(program, raises=True)
        program = changed_between(function, how, lambda s: None)
        program.__name__ = f"{how.__name__} of an {name}"
        table.add(program, recorded=True)
for name, change in {"attribute": _set(scale=5.0), "nothing": _set()}.items():
    program = changed_between(four, some_of_many, change)
    program.__name__ = f"some of many after a change of {name}"
    table.add(program, raises=name != "nothing", recorded=name == "nothing")


@table.raises
def another_weight_before_the_second_derivative(compile: Compile) -> Any:
    box = Box(w=ad.tensor([2.0, 3.0], requires_grad=True))
    f = compile(lambda x: (x * box.w) ** 2)
    found = []
    for k in range(3):
        x = ad.ones(2, requires_grad=True)
        y = f(x)
        if k == 2:
            box.w = ad.tensor([7.0, 7.0], requires_grad=True)
        found += second(y, x)
    return found


@table.raises
def a_mode_before_the_second_derivative(compile: Compile) -> Any:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    net.eval()
    f = compile(lambda x: net(x) ** 2)
    found = []
    for k in range(3):
        x = ad.ones(2, requires_grad=True)
        y = f(x)
        if k == 2:
            net.train()
        found += second(y, x)
    return found


@table.raises
def a_weight_in_place_before_the_second_derivative(compile: Compile) -> Any:
    w = ad.tensor([2.0, 3.0])
    f = compile(lambda x: (x * w) ** 2)
    found = []
    for k in range(3):
        x = ad.ones(2, requires_grad=True)
        y = f(x)
        if k == 2:
            w.mul_(3)
        try:
            found += second(y, x)
        except RuntimeError:
            found.append("refused")  # eagerly too
    return found


@table
def a_global_before_the_second_derivative(compile: Compile) -> Any:
    f = compile(lambda x: x**3 * 2.0)
    x = ad.ones(2, requires_grad=True)
    return [one for _ in range(3) for one in second(f(x), x)]


@table.recorded
def hessians_of_a_compiled_function(compile: Compile) -> Any:
    f = compile(lambda x: (x**3).sum())
    point = ad.tensor([1.0, 2.0])
    return [ad.func.hessian(f)(point) for _ in range(2)] + [f(point) for _ in range(2)]


@table.raises
def many_results_one_at_a_time(compile: Compile) -> Any:
    box = Box(scale=2.0)
    f = compile(lambda x: [x * box.scale * k for k in range(1, 6)])
    x = ad.ones(2, requires_grad=True)
    found = []
    for _ in range(2):
        ys = f(x)
        found += [ad.autograd.grad(y.sum(), x, retain_graph=True)[0] for y in ys]
    ys = f(x)
    box.scale = 3.0
    return found + [ad.autograd.grad(ys[1].sum(), x)[0]]


@table
def the_state_comes_back_before_the_pass(compile: Compile) -> Any:
    box = Box(scale=2.0)
    f = compile(lambda x: (x * box.scale) ** 3)
    x = ad.ones(2, requires_grad=True)
    found = []
    for _ in range(3):
        y = f(x)
        box.scale = 9.0
        box.scale = 2.0
        found += second(y, x)
    return found


@table.raises
def a_retained_graph_after_a_change(compile: Compile) -> Any:
    box = Box(scale=2.0)
    f = compile(lambda x: (x * box.scale) ** 3)
    x = ad.ones(2, requires_grad=True)
    f(x)
    y = f(x)
    first = ad.autograd.grad(y.sum(), x, retain_graph=True)
    box.scale = 4.0
    return [*first, *second(y, x)]


@table
def plain_backward_after_a_change(compile: Compile) -> Any:
    box = Box(scale=2.0)
    f = compile(lambda x: (x * box.scale) ** 3)
    found = []
    for k in range(3):
        x = ad.ones(2, requires_grad=True)
        y = f(x)
        box.scale = 3.0 + k
        y.sum().backward()
        found.append(x)
    return found


@table.raises
def a_custom_function_reads_in_backward(compile: Compile) -> Any:
    box = Box(scale=2.0)

    class Scaled(ad.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * box.scale

    f = compile(lambda x: Scaled.apply(x))
    found = []
    for k in range(4):
        x = ad.ones(2, requires_grad=True)
        y = f(x)
        box.scale = 2.0 + (k > 2)
        y.sum().backward()
        found.append(x)
    return found


@table.raises
def a_hook_reads_in_backward(compile: Compile) -> Any:
    box = Box(scale=2.0)

    def f(x: Any) -> Any:
        y = x * 2
        y.register_hook(lambda g: g * box.scale)
        return y.sin()

    g = compile(f)
    found = []
    for k in range(4):
        x = ad.ones(2, requires_grad=True)
        y = g(x)
        box.scale = 2.0 + (k > 2)
        y.sum().backward()
        found.append(x)
    return found
