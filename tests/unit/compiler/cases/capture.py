"""The capture's own matters: views and detach, writes of arguments, gradients, modes, re-entry."""

from __future__ import annotations

from typing import Any

import numpy as np

import adjoint as ad
from adjoint import nn

from .harness import Box, Compile, Table, called

table = Table("capture")


def leaf_view() -> Any:
    """A leaf that is a view, which requires grad."""
    return ad.arange(4.0)[1:3].requires_grad_()


def over(name: str, make: Any, function: Any, recorded: bool = False) -> None:
    """A row: a function of a tensor that `make` gives, with its gradients."""

    def program(compile: Compile) -> Any:
        f = compile(function)
        found = []
        for _ in range(4):
            x = make()
            y = f(x)
            outputs = [t for t in (y if isinstance(y, tuple) else (y,)) if t.requires_grad]
            if outputs and x.requires_grad:
                sum(t.sum() for t in outputs).backward()
            found += [y, x, x.is_leaf]
        return found

    program.__name__ = name
    table.add(program, recorded=recorded)


over("detach of a view leaf", leaf_view, lambda x: (x * 2, x.detach()))
over("detach times it", leaf_view, lambda x: x * x.detach(), recorded=True)
over("detach of a slice", leaf_view, lambda x: x * x[:1].detach(), recorded=True)
over("slice of a detach", leaf_view, lambda x: (x * 2, x.detach()[:1]))
over("data of a view leaf", leaf_view, lambda x: x * x.data)
over("a view of it in no_grad", leaf_view, lambda x: in_no_grad(x))
over("detach and reshape", leaf_view, lambda x: (x.detach().reshape(2, 1), x * 3))
over("detach of a product", leaf_view, lambda x: ((x * 2).detach(), x * 2), recorded=True)
over("an alias of a leaf", lambda: ad.ones(2, requires_grad=True), lambda x: (x.view(2), x * 1))
over("the leaf itself", lambda: ad.ones(2, requires_grad=True), lambda x: (x, x * 2))
over("a clone and a detach", leaf_view, lambda x: (x.clone(), x.detach().clone()), recorded=True)
over("expand of a detach", leaf_view, lambda x: x.detach().expand(2, 2) * x)
over("the transpose", lambda: ad.ones(2, 3, requires_grad=True), lambda x: x.T @ x.detach())
over("a detach that is changed", lambda: ad.ones(2), lambda x: x.detach().add_(1) * 2)
over("requires_grad is asked", leaf_view, lambda x: x * (2.0 if x.requires_grad else 3.0))
over("is_leaf is asked", lambda: ad.ones(2, requires_grad=True) * 1, lambda x: x * (1 + x.is_leaf))
over("a fresh leaf inside", lambda: ad.ones(2), lambda x: inner_gradient(x), recorded=True)
over("gradient of the argument", lambda: ad.ones(2, requires_grad=True), lambda x: own_gradient(x))
over("chunks", lambda: ad.arange(4.0).requires_grad_(), lambda x: tuple(x.chunk(2)))
over("unbind", lambda: ad.ones(2, 2, requires_grad=True), lambda x: sum(x.unbind(0)), recorded=True)
over("in place on a fresh view", leaf_view, lambda x: write_view(x), recorded=True)
over("no_grad inside", leaf_view, lambda x: in_no_grad(x) + x, recorded=True)
over("enable_grad in no_grad", leaf_view, lambda x: with_grad(x))
over("a number to a tensor", lambda: ad.ones(2), lambda x: x + ad.tensor(2.0), recorded=True)
over("an array to a tensor", lambda: ad.ones(2), lambda x: x + ad.from_numpy(np.ones(2, "f4")))
over("tensor of a list", lambda: ad.ones(2), lambda x: x + ad.tensor([1.0, 2.0]), recorded=True)
over("item", lambda: ad.ones(2), lambda x: x * x[0].item())
over("float", lambda: ad.ones(2), lambda x: x * float(x.sum()))
over("bool", lambda: ad.ones(2), lambda x: x * 2 if x.sum() > 1 else x * 3)
over("tolist", lambda: ad.ones(2), lambda x: x * sum(x.tolist()))
over("numpy", lambda: ad.ones(2), lambda x: x * float(x.numpy().sum()))
over("iterate", lambda: ad.ones(2), lambda x: sum(t * 2 for t in x), recorded=True)
over("len", lambda: ad.ones(3, 2), lambda x: x * len(x), recorded=True)
over("shape", lambda: ad.ones(3, 2), lambda x: x * x.shape[-1] + x.size(0), recorded=True)


def in_no_grad(x: Any) -> Any:
    with ad.no_grad():
        return x * 2


def with_grad(x: Any) -> Any:
    with ad.no_grad():
        y = x * 2
        with ad.enable_grad():
            z = x * 3
    return y * z


def inner_gradient(x: Any) -> Any:
    w = ad.ones(2, requires_grad=True)
    (g,) = ad.autograd.grad((w * w * x).sum(), w)
    return g + x


def own_gradient(x: Any) -> Any:
    y = x * x
    (g,) = ad.autograd.grad(y.sum(), x, create_graph=True)
    return y + g


def write_view(x: Any) -> Any:
    y = x * 2
    y[:1] = 5.0
    y[1:].mul_(x[1:])
    return y


@table.recorded
def an_argument_is_written(compile: Compile) -> Any:
    def f(x: Any) -> Any:
        x.add_(1)
        x[0] = 7.0
        return x * 2

    g = compile(f)
    x = ad.zeros(2)
    return [*(g(x) for _ in range(3)), x]


@table.recorded
def running_statistics(compile: Compile) -> Any:
    net = nn.BatchNorm1d(3)
    f = compile(lambda x: net(x))
    found = [f(ad.randn(4, 3)).detach() for _ in range(4)]
    net.eval()
    return [found, f(ad.ones(4, 3)).detach(), list(net.buffers())]


@table.recorded
def two_arguments_on_one_memory(compile: Compile) -> Any:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return a * b

    g = compile(f)
    x, y = ad.ones(4), ad.ones(4)
    return [g(x, y), g(x, y), g(x, x), g(x[:2], x[1:3]), g(x[:2], x[1:3]), g(x, y), x, y]


@table
def the_result_is_the_argument(compile: Compile) -> Any:
    f = compile(lambda x: x)
    x = ad.ones(2)
    return [f(x) is x for _ in range(3)]


@table
def the_result_is_a_weight(compile: Compile) -> Any:
    net = nn.Linear(2, 2)
    f = compile(lambda x: (x * 2, net.weight))
    return [f(ad.ones(2))[1] is net.weight for _ in range(3)]


@table
def the_same_tensor_twice(compile: Compile) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y

    g = compile(f)
    return [g(ad.ones(2))[0] is g(ad.ones(2))[1] or (lambda r: r[0] is r[1])(g(ad.ones(2)))]


@table
def results_share_memory(compile: Compile) -> Any:
    def f(x: Any) -> Any:
        y = x * 2
        return y, y[:1]

    g = compile(f)
    found = []
    for _ in range(3):
        a, b = g(ad.ones(2))
        a.add_(1)
        found += [a, b]
    return found


@table
def a_result_is_changed_by_the_caller(compile: Compile) -> Any:
    f = compile(lambda x: x * 0 + 1)
    found = []
    for _ in range(3):
        y = f(ad.ones(2))
        found.append(y.clone())
        y.mul_(9)
    return found


@table
def a_constant_is_changed_by_the_caller(compile: Compile) -> Any:
    f = compile(lambda x: (ad.tensor([1.0, 2.0]), ad.zeros(2), x * 1))
    found = []
    for _ in range(3):
        a, b, _ = f(ad.ones(2))
        found += [a.clone(), b.clone()]
        a.mul_(9)
        b.add_(3)
    return found


@table
def no_grad_around(compile: Compile) -> Any:
    f = compile(lambda x: x * 2)
    x = ad.ones(2, requires_grad=True)
    found = [f(x).requires_grad, f(x).requires_grad]
    with ad.no_grad():
        found += [f(x).requires_grad, f(x).requires_grad]
    return [*found, f(x).requires_grad]


@table
def the_default_dtype_changes(compile: Compile) -> Any:
    f = compile(lambda x: x + ad.ones(2))
    found = [f(ad.ones(2, dtype=ad.float32)) for _ in range(2)]
    ad.set_default_dtype(ad.float64)
    try:
        found += [f(ad.ones(2, dtype=ad.float32)) for _ in range(2)]
    finally:
        ad.set_default_dtype(ad.float32)
    return found


@table
def gradients_are_read(compile: Compile) -> Any:
    w = ad.ones(2, requires_grad=True)
    f = compile(lambda x: x * (0.0 if w.grad is None else 1.0) + (0 if w.grad is None else w.grad))
    found = [f(ad.ones(2)), f(ad.ones(2))]
    w.grad = ad.full((2,), 4.0)
    found += [f(ad.ones(2)), f(ad.ones(2))]
    w.grad = None
    return [*found, f(ad.ones(2))]


@table
def gradients_are_set(compile: Compile) -> Any:
    w = ad.ones(2, requires_grad=True)

    def f(x: Any) -> Any:
        w.grad = x * 2
        return x + 1

    g = compile(f)
    found = []
    for k in range(3):
        found += [g(ad.full((2,), float(k))), w.grad.clone()]
    return found


@table
def a_compiled_function_calls_itself(compile: Compile) -> Any:
    def f(x: Any, n: int) -> Any:
        return x if n == 0 else g(x * 2, n - 1) + 1

    g = compile(f)
    return [called(g, ad.ones(2, requires_grad=True), n) for n in (3, 3, 2, 2, 3)]


@table
def one_compiled_function_calls_another(compile: Compile) -> Any:
    box = Box(scale=2.0)
    inner = compile(lambda x: x * box.scale)
    outer = compile(lambda x: inner(x).sin() + inner(x))
    found = [called(outer) for _ in range(3)] + [called(inner) for _ in range(2)]
    box.scale = 3.0
    return found + [called(outer), called(inner), called(outer)]


@table
def a_compiled_function_in_state(compile: Compile) -> Any:
    box = Box(f=compile(lambda x: x * 2))
    outer = compile(lambda x: box.f(x) + 1)
    found = [called(outer) for _ in range(3)]
    box.f = compile(lambda x: x * 5)
    return found + [called(outer), called(outer)]


@table
def shapes_strides_and_dtypes(compile: Compile) -> Any:
    f = compile(lambda x: (x * 2).sum(0))
    given = [ad.ones(2, 3), ad.ones(3, 2), ad.ones(3, 2).T, ad.ones(2, 3, dtype=ad.float64)]
    return [f(x) for _ in range(2) for x in given]


@table
def requires_grad_changes(compile: Compile) -> Any:
    w = ad.ones(2)
    f = compile(lambda x: x * w)
    found = [f(ad.ones(2)).requires_grad for _ in range(2)]
    w.requires_grad_()
    return found + [f(ad.ones(2)).requires_grad for _ in range(2)]


@table
def a_weight_gets_another_shape(compile: Compile) -> Any:
    box = Box(w=ad.ones(2))
    f = compile(lambda x: x.sum() * box.w)
    found = [f(ad.ones(2)) for _ in range(2)]
    box.w = ad.ones(3) * 2
    return found + [f(ad.ones(2)) for _ in range(2)]


@table
def a_weight_gets_other_data(compile: Compile) -> Any:
    w = ad.ones(2)
    f = compile(lambda x: x * w)
    found = [f(ad.ones(2)) for _ in range(2)]
    w.data = ad.full((2,), 5.0)
    return found + [f(ad.ones(2)) for _ in range(2)]


@table
def a_weight_shares_an_array(compile: Compile) -> Any:
    array = np.ones(2, dtype=np.float32)
    w = ad.from_numpy(array)
    f = compile(lambda x: x * w)
    found = [f(ad.ones(2)) for _ in range(2)]
    array[:] = 4.0
    return found + [f(ad.ones(2)) for _ in range(2)]


@table
def masked_writes(compile: Compile) -> Any:
    def f(x: Any) -> Any:
        y = x * 1
        y[x > 1] = 0.0
        return y.sum()

    g = compile(f)
    return [g(ad.tensor([float(k), 1.0 + k])) for k in range(4)]


@table
def an_index_from_values(compile: Compile) -> Any:
    f = compile(lambda x, i: x[i] * 2)
    return [f(ad.arange(4.0), ad.tensor([k, 3 - k])) for k in range(4)]


@table
def shapes_from_values(compile: Compile) -> Any:
    f = compile(lambda x: x[x > 0] * 2)
    return [f(ad.tensor([1.0, -1.0, float(k)])) for k in range(-1, 3)]


@table
def a_slice_by_a_value(compile: Compile) -> Any:
    f = compile(lambda x, n: x[:n].sum())
    return [f(ad.arange(4.0), k) for k in (1, 1, 2, 2, 3)]


@table
def nan_and_signed_zero(compile: Compile) -> Any:
    box = Box(v=0.0)
    f = compile(lambda x: x / box.v)
    found = [f(ad.ones(2)) for _ in range(2)]
    box.v = -0.0
    found += [f(ad.ones(2)) for _ in range(2)]
    box.v = float("nan")
    return found + [f(ad.ones(2)) for _ in range(2)]


@table
def numbers_of_other_types(compile: Compile) -> Any:
    box = Box(v=1)
    f = compile(lambda x: x.to(ad.int64) * box.v)
    found = [f(ad.ones(2)) for _ in range(2)]
    for v in (1.0, True, 1 + 0j, np.float32(1), np.int8(1)):
        box.v = v
        found += [f(ad.ones(2)) for _ in range(2)]
    return found
