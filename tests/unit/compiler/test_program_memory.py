"""Programs of tensors that share memory, are one another, or are changed in place.

Read worlds.py first: each function builds a world, in which one is called eagerly or compiled.
"""

from __future__ import annotations

from typing import Any

import pytest

import adjoint as ad
from tests.unit.compiler.worlds import Worlds, check, draw

world = Worlds()
# What cannot be a program runs eagerly; everything else is expected to be replayed.
EAGER = {"as_strided_with_an_offset", "data_is_exchanged"}


@world
def one_tensor_twice() -> Any:
    def f(a: Any, b: Any) -> Any:
        return a * 5 if a is b else a - b

    def drive(g: Any, k: int) -> Any:
        x, y = draw(3), draw(3)
        return [g(x, x), g(x, y)] if k % 2 else [g(x, y), g(y, y)]

    return f, drive


@world
def arguments_that_share_memory() -> Any:
    def f(a: Any, b: Any) -> Any:
        a.add_(1)
        return b * 2

    def drive(g: Any, k: int) -> Any:
        x = draw(6)
        if k % 2:
            return [g(x[:3], x[3:]), x]
        return [g(x[:3], x[1:4]), g(x[:3], x[:3]), g(x[2:5], x[1:4]), x]

    return f, drive


@world
def a_closure_that_shares_memory_with_an_argument() -> Any:
    w = draw(4)

    def f(a: Any) -> Any:
        a.mul_(2)
        return w.sum()

    def drive(g: Any, k: int) -> Any:
        return [g(draw(2)), w] if k % 2 else [g(w[:2]), w.clone(), g(draw(2)), w]

    return f, drive


@world
def an_argument_that_is_in_a_closure() -> Any:
    w = draw(3)

    def f(a: Any) -> Any:
        return a * w

    return f, lambda g, k: [g(w), g(draw(3)), g(w)]


@world
def a_parameter_as_argument() -> Any:
    layer = ad.nn.Linear(3, 3, bias=False)

    def f(a: Any) -> Any:
        return layer(a)

    return f, lambda g, k: [g(layer.weight), g(draw(3, 3)), g(layer.weight.detach())]


@world
def a_detached_closure_gets_other_memory() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        return a * w.detach() + w.data

    def drive(g: Any, k: int) -> Any:
        first = g(ad.ones(3))
        w.data = ad.full((3,), float(k))
        return [first, g(ad.ones(3))]

    return f, drive


@world
def two_closures_on_one_memory() -> Any:
    w = draw(4)
    v = w[1:3]

    def f(a: Any) -> Any:
        return a * w.sum() + v.sum()

    def drive(g: Any, k: int) -> Any:
        first = g(ad.ones(3))
        if k == 1:
            w.data = ad.full((4,), 7.0)
        w.add_(1)
        return [first, g(ad.ones(3))]

    return f, drive


@world
def facts_of_a_tensor_that_no_op_reads() -> Any:
    w = draw(3)

    def f(a: Any) -> Any:
        return a * 2 if w.requires_grad else a * w.shape[0]

    def drive(g: Any, k: int) -> Any:
        w.requires_grad_(k % 2 == 0)
        w.data = draw(3 + k // 2)
        with ad.no_grad():
            return g(ad.ones(2))

    return f, drive


@world
def a_view_of_a_constant_is_returned() -> Any:
    def f(a: Any) -> Any:
        return ad.tensor([1.0, 2.0, 3.0])[1:], a + 1

    def drive(g: Any, k: int) -> Any:
        part, _ = g(draw(2))
        part.add_(5)
        return [part, g(draw(2))]

    return f, drive


@world
def views_of_equal_results() -> Any:
    def f(a: Any) -> Any:
        u, v = a + 1, a + 1
        return u[0], v[0], u, v

    def drive(g: Any, k: int) -> Any:
        u, v, first, second = g(draw(2, 2))
        u.add_(5)
        second.mul_(3)
        return [u, v, first, second]

    return f, drive


@world
def inputs_and_results_are_returned_twice() -> Any:
    def f(a: Any) -> Any:
        y = a + 1
        return a, y, a, y

    def drive(g: Any, k: int) -> Any:
        x = draw(3)
        out = g(x)
        return [out, out[0] is x, out[2] is x, out[1] is out[3]]

    return f, drive


@world
def views_of_inputs_are_returned() -> Any:
    def f(a: Any) -> Any:
        return a[1:], a.T

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 3)
        first, turned = g(x)
        first.add_(1)
        return [first, turned, x]

    return f, drive


@world
def changes_of_views_with_a_gradient() -> Any:
    def f(a: Any) -> Any:
        b = a.clone()
        b[0] = b[1] * 2
        b[:, 1].mul_(3)
        b[b > 0] = 0.5
        c = b.t()[1:].unsqueeze(0).expand(2, 2, 3).clone()
        c[:, 0] += a[0]
        return c

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 3, requires_grad=True)
        out = g(x)
        (out * out).sum().backward()
        return [out, x.grad]

    return f, drive


@world
def changes_of_arguments() -> Any:
    def f(a: Any) -> Any:
        before = a * 3
        a.mul_(2)
        a[0] = 7
        return a.sum(), a * 3, before

    def drive(g: Any, k: int) -> Any:
        base = draw(5)
        return [g(base[1:4]), g(base[::2]), base, base._version]

    return f, drive


@world
def an_alias_sees_changes() -> Any:
    def f(a: Any) -> Any:
        b = a + 1
        v = b[1:]
        w = v.detach()
        b.mul_(2)
        return v + 1, w * 3, b

    return f, lambda g, k: g(draw(3))


@world
def data_is_exchanged() -> Any:
    def f(a: Any) -> Any:
        b = a * 2
        b.data = a * 3
        return b + 1

    return f, lambda g, k: g(draw(3))


@world
def changes_after_the_call() -> Any:
    def f(a: Any, b: Any) -> Any:
        c = a * b
        return (c * c).exp()

    def drive(g: Any, k: int) -> Any:
        x, b = draw(3, requires_grad=True), draw(3)
        y = g(x, b)
        b.mul_(2)
        with pytest.raises(RuntimeError, match="inplace"):
            y.sum().backward()
        return x.grad

    return f, drive


@world
def as_strided_with_an_offset() -> Any:
    def f(a: Any) -> Any:
        return a.as_strided((2,), (1,), 2)

    def drive(g: Any, k: int) -> Any:
        base = draw(8, requires_grad=True)
        g((base * 1)[k : k + 4]).sum().backward()
        return base.grad

    return f, drive


@world
def shapes_and_strides() -> Any:
    def f(a: Any) -> Any:
        return (a * 2).contiguous(), a.T.contiguous(), a.sum()

    def drive(g: Any, k: int) -> Any:
        given = [draw(3, 3), draw(3, 3).T, draw(6, 6)[::2, ::2], draw(3, 1).expand(3, 3)]
        return [g(x) for x in [*given, ad.zeros(0, 3), ad.zeros(3, 0)]]

    return f, drive


@pytest.mark.parametrize("name", world)
def test_a_compiled_function_is_seen_to_do_what_the_function_does(name: str) -> None:
    check(world[name], name not in EAGER)
