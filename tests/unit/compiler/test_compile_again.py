"""Backward passes that run the function again: on the state of the call, or not at all.

Second derivatives, batches of gradients, and passes through some of many results run the function
once more. What it reads of the program around it may have changed since: then they raise, and
never give the gradient of another function than was called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

Change = Callable[[Any], None]


def many(y: Any, x: Any) -> Any:
    """Go through one of several results."""
    return ad.autograd.grad(y[1].sum(), x)


def twice(y: Any, x: Any) -> Any:
    (first,) = ad.autograd.grad(sum(y).sum(), x, create_graph=True)
    return ad.autograd.grad(first.sum(), x)


def batch(y: Any, x: Any) -> Any:
    return ad.autograd.grad(sum(y), x, ad.eye(3), is_grads_batched=True)


def transform(y: Any, x: Any) -> Any:
    return ad.func.vmap(lambda v: ad.autograd.grad(sum(y), x, v)[0])(ad.eye(3))


class World:
    """What the functions read, each in its own way."""

    def __init__(self) -> None:
        self.scale = 2.0
        self.table = {"k": 3.0}
        self.weight = ad.full((3,), 4.0, requires_grad=True)
        self.buffer = ad.full((3,), 5.0)


def scale(w: World) -> Any:
    return lambda x: tuple(x**3 * w.scale * k for k in range(1, 6))


def table(w: World) -> Any:
    return lambda x: tuple(x**3 * w.table["k"] * k for k in range(1, 6))


def weight(w: World) -> Any:
    return lambda x: tuple(x**3 * w.weight * k for k in range(1, 6))


def buffer(w: World) -> Any:
    return lambda x: tuple(x**3 * w.buffer * k for k in range(1, 6))


def _set(name: str, value: Any) -> Change:
    return lambda w: setattr(w, name, value)


def _item(w: World) -> None:
    w.table["k"] = 7.0


def _in_place(w: World) -> None:
    with ad.no_grad():
        w.weight.mul_(2)
        w.buffer.mul_(2)


def _flip(w: World) -> None:
    w.weight.requires_grad_(False)


CHANGES = [
    (scale, _set("scale", 7.0), r"has changed since the call: .*scale"),
    (table, _item, r"has changed since the call: .*table"),
    (
        weight,
        _set("weight", ad.ones(3, requires_grad=True)),
        "has changed since the call: .*weight",
    ),
    (weight, _in_place, "modified by an inplace operation.*is at version 1; expected version 0"),
    (buffer, _in_place, "modified by an inplace operation.*is at version 1; expected version 0"),
    (weight, _flip, r"requires_grad of a tensor float32 \[3\] has changed"),
]


@pytest.mark.parametrize("way", [many, twice, batch, transform])
@pytest.mark.parametrize(("function", "change", "message"), CHANGES)
def test_what_has_changed_since_the_call_is_an_error(
    way: Callable[[Any, Any], Any],
    function: Callable[[World], Any],
    change: Change,
    message: str,
) -> None:
    world = World()
    f = ad.compile(function(world), fullgraph=True)
    f(ad.ones(3, requires_grad=True))
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    kept, y = way(function(world)(x), x), f(x)
    assert all(map(ad.equal, way(f(x), x), kept))
    change(world)
    with pytest.raises(RuntimeError, match=rf"(?s){message}.*fix: "):
        way(y, x)


@pytest.mark.parametrize("way", [many, twice, batch, transform])
def test_what_was_changed_and_put_back_is_no_matter(way: Callable[[Any, Any], Any]) -> None:
    world = World()
    f = ad.compile(scale(world), fullgraph=True)
    f(ad.ones(3, requires_grad=True))
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y, want = f(x), way(scale(world)(x), x)
    world.scale = 9.0
    f(x)
    world.scale = 2.0
    assert all(map(ad.equal, way(y, x), want))


def test_a_whole_pass_needs_nothing_of_the_function() -> None:
    world = World()
    f = ad.compile(scale(world), fullgraph=True)
    x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    f(x)
    y, want = f(x), ad.autograd.grad(sum(scale(world)(x)).sum(), x)
    world.scale = 9.0
    assert ad.equal(ad.autograd.grad(sum(y).sum(), x)[0], want[0])


def test_a_gradient_that_is_read_is_not_read_again() -> None:
    w = ad.ones(3, requires_grad=True)
    w.grad = ad.full((3,), 2.0)
    f = ad.compile(lambda x: (x**3 * w.grad).sum(), fullgraph=True)
    x = ad.ones(3, requires_grad=True)
    for _ in range(2):
        y = f(x)
    w.grad = ad.full((3,), 5.0)
    with pytest.raises(RuntimeError, match=r"reads the gradient .*\n  fix: pass the gradient"):
        ad.autograd.grad(y, x, create_graph=True)
    assert ad.autograd.grad(y, x)[0].tolist() == [6.0] * 3


# --- what a pass that runs the function again must not do twice


@pytest.mark.parametrize("way", [many, twice, batch, transform])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, h: tuple(x * h * k for k in range(1, 6)),
        lambda x, h: tuple((x + h) ** 2 * k for k in range(1, 6)),
    ],
)
@pytest.mark.parametrize("middle", [lambda x: x * 3, lambda x: x.view(3), lambda x: x.exp() + x])
def test_an_argument_that_is_computed_from_another_counts_once(
    way: Callable[[Any, Any], Any], function: Any, middle: Any
) -> None:
    f = ad.compile(function, fullgraph=True)
    for _ in range(3):
        x = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
        found, want = (way(g(x, middle(x)), x) for g in (f, function))
        assert all(map(ad.allclose, found, want))


@pytest.mark.parametrize("way", [many, twice])
def test_hooks_of_arguments_run_once(way: Callable[[Any, Any], Any]) -> None:
    f = ad.compile(lambda x: tuple(x**3 * k for k in range(1, 6)), fullgraph=True)
    for _ in range(3):
        plain = ad.tensor([1.0, 2.0, 3.0], requires_grad=True)
        hooked = plain.detach().clone().requires_grad_()
        calls: list[Any] = []
        hooked.register_hook(lambda g, calls=calls: calls.append(g) or g * 2)
        way(f(hooked), hooked)
        once = len(calls)
        calls.clear()
        eager = tuple(hooked**3 * k for k in range(1, 6))
        way(eager, hooked)
        assert once == len(calls)


# --- results that depend on one another, and arguments that they do not depend on


def _hook(y: Any, x: Any) -> None:
    y[0].register_hook(lambda g: g * 2)
    y[1].sum().backward()


def _retain(y: Any, x: Any) -> None:
    y[0].retain_grad()
    y[1].sum().backward()


def _by_result(y: Any, x: Any) -> None:
    ad.autograd.grad(y[1].sum(), y[0], allow_unused=True)


def _into_result(y: Any, x: Any) -> None:
    y[1].sum().backward(inputs=[y[0]])


@pytest.mark.parametrize(
    ("ask", "who"),
    [
        (_hook, "a hook"),
        (_retain, r"retain_grad\(\)"),
        (_by_result, "a backward pass"),
        (_into_result, "a backward pass"),
    ],
)
def test_the_gradient_between_results_is_an_error(
    ask: Callable[[Any, Any], None], who: str
) -> None:
    def function(x: Any) -> Any:
        logits = x * 3
        return logits, logits.exp()

    f = ad.compile(function, fullgraph=True)
    x = ad.ones(3, requires_grad=True)
    f(x)
    with pytest.raises(
        RuntimeError, match=rf"(?s){who} is asked for .* result 0 .*one node.*fix: "
    ):
        ask(f(x), x)
    # That of a result which no other is computed from is known.
    y = f(x)
    y[1].retain_grad()
    sum(y).sum().backward()
    assert y[1].grad.tolist() == [1.0] * 3


def test_hooks_of_arguments_that_a_result_does_not_depend_on_are_not_called() -> None:
    f = ad.compile(lambda a, b: (a * 2, b * 3), fullgraph=True)
    for _ in range(3):
        a, b = (ad.ones(3, requires_grad=True) for _ in range(2))
        a.register_hook(lambda g: g * 2)  # None would be an error
        f(a, b)[1].sum().backward()
        assert a.grad is None
        assert b.grad.tolist() == [3.0] * 3


def test_parameters_that_were_given_other_memory_before_have_a_second_derivative() -> None:
    model = ad.nn.Linear(2, 2).double()  # by `.data =`, which `_version` does not show
    fast = ad.compile(lambda x: model(x).square().sum())
    x = ad.ones(2, dtype=ad.float64, requires_grad=True)
    for _ in range(3):
        (slope,) = ad.autograd.grad(fast(x), x, create_graph=True)
        (second,) = ad.autograd.grad(slope.sum(), x)
        assert ad.allclose(second, 2 * (model.weight.mT @ model.weight).sum(0))
    y = fast(x)
    model.weight.data = model.weight.data.clone()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        ad.autograd.grad(y, x, create_graph=True)
