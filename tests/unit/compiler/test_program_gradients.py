"""Programs in which gradients are read, set, added to or hooked; leaves and histories.

Read worlds.py first: each function builds a world, in which one is called eagerly or compiled.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import adjoint as ad
from tests.unit.compiler.worlds import Worlds, check, draw

F = ad.nn.functional

world = Worlds()
# What cannot be a program runs eagerly; everything else is expected to be replayed.
EAGER = {
    "a_hook_on_the_result",
    "a_leaf_as_result",
    "gradients_through_outer_history",
    "retain_grad_on_the_result",
}


@world
def whether_there_is_a_gradient() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        return a * 2 if w.grad is None else a + w.grad

    def drive(g: Any, k: int) -> Any:
        w.grad = ad.ones(3) * k if k % 2 else None
        return g(draw(3))

    return f, drive


@world
def equal_gradients_are_set() -> Any:
    w, u = draw(3, requires_grad=True), draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        w.grad = a + 1
        u.grad = a + 1
        return a * 2

    def drive(g: Any, k: int) -> Any:
        out = g(draw(3))
        w.grad.zero_()
        return [out, w.grad, u.grad]

    return f, drive


@world
def a_leaf_made_inside() -> Any:
    def f(a: Any) -> Any:
        x = a.detach().requires_grad_()
        (x**3).sum().backward()
        p = ad.nn.Parameter(a.detach())
        (p.sin() * p).sum().backward()
        return x.grad, p.grad

    return f, lambda g, k: g(draw(3))


@world
def a_gradient_of_a_gradient_inside() -> Any:
    def f(a: Any) -> Any:
        x = a.detach().requires_grad_()
        (slope,) = ad.autograd.grad((x**3).sum(), x, create_graph=True)
        (curve,) = ad.autograd.grad(slope.sum(), x)
        return slope.detach(), curve

    return f, lambda g, k: g(draw(3))


@world
def gradients_added_inside() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        ((a * w) ** 2).sum().backward()
        return a + 1

    def drive(g: Any, k: int) -> Any:
        first = g(draw(3))
        if k == 2:
            w.grad = None
        return [first, g(draw(3)), w.grad]

    return f, drive


@world
def gradients_changed_inside() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        w.grad = None
        ((a * w) ** 2).sum().backward()
        w.grad.mul_(0.5)
        return ad.nn.utils.clip_grad_norm_([w], 1.0)

    def drive(g: Any, k: int) -> Any:
        first = g(draw(3))
        held = w.grad
        return [first, held, g(draw(3)), w.grad, held is w.grad]

    return f, drive


@world
def the_gradient_as_argument() -> Any:
    w = draw(3, requires_grad=True)

    def f(h: Any) -> Any:
        before = h * 2
        (w**2).sum().backward()
        return before, h * 2

    def drive(g: Any, k: int) -> Any:
        w.grad = ad.ones(3)
        return [g(draw(3)), g(w.grad), w.grad, g(draw(3))]

    return f, drive


@world
def closures_with_a_history() -> Any:
    w = draw(3, requires_grad=True)
    h = w * 2

    def f(a: Any) -> Any:
        return (a * h).sum()

    def drive(g: Any, k: int) -> Any:
        out = g(draw(3))
        w.grad = None
        out.backward(retain_graph=True)
        return [out, w.grad]

    return f, drive


@world
def gradients_through_outer_history() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        return ad.autograd.grad((a**2).sum(), w, retain_graph=True)[0]

    return f, lambda g, k: [g(w * 2), g(w**3), g(w.sin())]


@world
def arguments_that_depend_on_one_another() -> Any:
    def f(a: Any, b: Any) -> Any:
        return (a * b).sin()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        x.register_hook(lambda t: t * 2)
        y = x.exp()
        y.register_hook(lambda t: t * 3)
        y.retain_grad()
        out = g(g(y, x), y)
        out.sum().backward()
        return [out, x.grad, y.grad]

    return f, drive


@world
def a_hook_inside() -> Any:
    def f(a: Any) -> Any:
        h = a * 3
        h.register_hook(lambda t: t * 10)
        return (h * h).sum()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def a_hook_on_the_result() -> Any:
    def f(a: Any) -> Any:
        h = a * 3
        h.register_hook(lambda t: t * 10)
        return h

    def drive(g: Any, k: int) -> Any:
        x = draw(3, requires_grad=True)
        g(x).sum().backward()
        return x.grad

    return f, drive


@world
def retain_grad_on_the_result() -> Any:
    def f(a: Any) -> Any:
        h = a * 3
        h.retain_grad()
        return h

    def drive(g: Any, k: int) -> Any:
        out = g(draw(3, requires_grad=True))
        (out * out).sum().backward()
        return out.grad

    return f, drive


@world
def retain_grad_inside() -> Any:
    def f(a: Any) -> Any:
        x = a.clone().requires_grad_()
        h = x * 3
        h.retain_grad()
        (h * h).sum().backward()
        return h.grad, x.grad

    return f, lambda g, k: g(draw(3))


@world
def a_leaf_as_result() -> Any:
    def f(a: Any) -> Any:
        return (a.detach() * 2).requires_grad_()

    def drive(g: Any, k: int) -> Any:
        out = g(draw(3))
        (out * out).sum().backward()
        return [out, out.grad]

    return f, drive


@world
def zeros_in_a_product() -> Any:
    def f(a: Any) -> Any:
        return a.prod() + a.cumprod(0).sum()

    def drive(g: Any, k: int) -> Any:
        x = ad.tensor([1.0, float(k % 2), 3.0], requires_grad=True)
        g(x).backward()
        return x.grad

    return f, drive


@world
def targets_that_are_ignored() -> Any:
    weight = ad.tensor([0.5, 2.0, 1.0])

    def f(a: Any, t: Any) -> Any:
        both = F.nll_loss(a.log_softmax(1), t, ignore_index=0, weight=weight)
        return F.cross_entropy(a, t, ignore_index=0) + both

    def drive(g: Any, k: int) -> Any:
        x = draw(4, 3, requires_grad=True)
        g(x, ad.tensor([[1, 2, 1, 2], [0, 0, 1, 2], [0, 1, 1, 1], [0, 0, 0, 1]][k])).backward()
        return x.grad

    return f, drive


@world
def gradients_of_any_layout() -> Any:
    def f(a: Any) -> Any:
        return a * a, a.exp()

    def drive(g: Any, k: int) -> Any:
        x = draw(3, 3, requires_grad=True)
        out = g(x)
        out[k % 2].backward(draw(3, 3).T if k < 2 else ad.ones(1).expand(3, 3))
        return [out, x.grad, x.grad.stride()]

    return f, drive


@world
def an_update_by_hand() -> Any:
    w = draw(3, requires_grad=True)

    def f(a: Any) -> Any:
        loss = ((a * w) ** 2).sum()
        (slope,) = ad.autograd.grad(loss, w)
        with ad.no_grad():
            w.sub_(slope, alpha=0.1)
        return loss.detach()

    return f, lambda g, k: [g(draw(3)), w]


@world
def parameters_that_are_frozen_or_replaced() -> Any:
    layer = ad.nn.Linear(3, 2)

    def f(a: Any) -> Any:
        return layer(a).sum()

    def drive(g: Any, k: int) -> Any:
        layer.weight.requires_grad_(k % 2 == 0)
        if k == 2:
            layer.weight = ad.nn.Parameter(draw(2, 3))
        layer.load_state_dict({n: v + 1 for n, v in layer.state_dict().items()})
        layer.zero_grad()
        out = g(draw(4, 3))
        out.backward()
        return [out, layer.weight.grad, layer.bias.grad]

    return f, drive


@pytest.mark.parametrize("name", world)
def test_a_compiled_function_is_seen_to_do_what_the_function_does(name: str) -> None:
    check(world[name], name not in EAGER)


def test_a_pass_through_some_results_may_read_thousands_of_values() -> None:
    kinds = tuple(random.Random(0).choices(range(4), k=9000))

    def function(a: ad.Tensor, b: ad.Tensor) -> tuple[ad.Tensor, ad.Tensor]:
        x = a * 1
        for kind in kinds:
            if kind == 0:
                x = 0.5 * ad.sin(x * b)
            elif kind == 1:
                x = ad.softmax(x, 0)
            else:
                x = ad.tanh(x + b) if kind == 2 else x @ x * b * 0.1
        return b * b, x * 2

    def gradients(run: Any) -> list[list[float]]:
        leaves = [ad.linspace(0.1, 0.9, 3, requires_grad=True) for _ in "ab"]
        run(*leaves)[1].sum().backward()
        return [t.grad.tolist() for t in leaves if t.grad is not None]

    expected, fast = gradients(function), ad.compile(function)
    for _ in range(3):
        assert gradients(fast) == expected
    assert max(len(places) for _, places in fast.programs[0].partial.values()) > 4096
