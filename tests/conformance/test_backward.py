"""The backward pass beside PyTorch's: order of hooks, what is captured, accumulated and refused.

Each scenario is a function of the library that returns a log; the logs must be equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint as ad

torch = pytest.importorskip("torch")

SCENARIOS: list[Callable[[Any], Any]] = []


def scenario(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    SCENARIOS.append(function)
    return function


def numbers(values: Any) -> Any:
    """Tensors in a nested log as lists of numbers."""
    if hasattr(values, "tolist"):
        return values.detach().tolist()
    if isinstance(values, tuple | list):
        return [numbers(v) for v in values]
    if isinstance(values, dict):
        return {k: numbers(v) for k, v in values.items()}
    return values


def outcome(call: Callable[[], Any]) -> Any:
    """The result, or the class of the error."""
    try:
        return numbers(call())
    except Exception as error:
        return type(error).__name__


@scenario
def all_kinds_of_hooks(lib: Any) -> Any:
    log: list[Any] = []
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    b = a * 3
    c = b * b
    for name, t in (("a", a), ("b", b), ("c", c)):
        t.register_hook(lambda g, name=name: log.append((name, numbers(g))))
    for name, node in (("b", b.grad_fn), ("c", c.grad_fn), ("a", b.grad_fn.next_functions[0][0])):
        node.register_prehook(lambda gs, name=name: log.append((name + " pre", numbers(gs))))
        node.register_hook(lambda i, o, name=name: log.append((name + " post", numbers((i, o)))))
    a.register_post_accumulate_grad_hook(lambda t: log.append(("acc", numbers(t.grad))))
    b.retain_grad()
    c.sum().backward()
    return log, numbers((a.grad, b.grad))


@scenario
def hooks_that_replace(lib: Any) -> Any:
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    b = a * 3
    b.register_hook(lambda g: g + 1)
    b.retain_grad()
    b.register_hook(lambda g: g * 2)
    b.grad_fn.register_prehook(lambda gs: (gs[0] * 10,))
    b.grad_fn.register_hook(lambda ins, outs: (ins[0] + 100, *ins[1:]))
    a.register_hook(lambda g: -g)
    out = (b * b).sum()
    got = [
        outcome(lambda i=i: lib.autograd.grad(out, i, retain_graph=True)) for i in (a, b, (a, b))
    ]
    out.backward()
    return got, numbers((a.grad, b.grad))


@scenario
def in_place_changes(lib: Any) -> Any:
    log: list[Any] = []
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    b = a.clone()
    b.register_hook(lambda g: log.append(("old", numbers(g))))
    b.retain_grad()
    b.mul_(3)
    b.register_hook(lambda g: log.append(("new", numbers(g))))
    view = b[:1]
    view.retain_grad()
    view.register_hook(lambda g: log.append(("view", numbers(g))))
    view.add_(1)
    view.register_hook(lambda g: log.append(("new view", numbers(g))))
    b.register_hook(lambda g: log.append(("newest", numbers(g))))
    (b * b).sum().backward()
    return sorted(log), numbers((a.grad, b.grad, b.retains_grad, view.retains_grad))


@scenario
def inputs_of_backward(lib: Any) -> Any:
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    w = lib.tensor([5.0, 6.0], requires_grad=True)
    b = a * w
    c = b * b
    log: list[Any] = []
    b.grad_fn.register_hook(lambda i, o: log.append("b ran"))
    c.sum().backward(inputs=[b], retain_graph=True)
    c.sum().backward(inputs=[a, b], retain_graph=True)
    c.sum().backward(inputs=[w])
    return log, numbers((a.grad, b.grad, w.grad)), outcome(lambda: c.sum().backward())


@scenario
def edges(lib: Any) -> Any:
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    b = a * a
    edge = lib.autograd.graph.get_gradient_edge(b)
    leaf = lib.autograd.graph.get_gradient_edge(a)
    out = (b * 2).sum()
    log = [
        outcome(lambda: lib.autograd.grad(out, edge, retain_graph=True)),
        outcome(lambda: lib.autograd.grad(out, (leaf, edge, a), retain_graph=True)),
        outcome(lambda: lib.autograd.grad(edge, a, lib.ones(2), retain_graph=True)),
        outcome(lambda: lib.autograd.grad(edge, a, retain_graph=True)),
        outcome(lambda: lib.autograd.grad(edge, a, lib.ones(3), retain_graph=True)),
    ]
    lib.autograd.backward(edge, lib.ones(2), inputs=leaf)
    return log, numbers(a.grad)


@scenario
def unused_and_materialized(lib: Any) -> Any:
    a, b = (lib.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    out = (a * 2).sum()

    def grad(*args: Any, **kwargs: Any) -> Any:
        return outcome(lambda: lib.autograd.grad(out, *args, retain_graph=True, **kwargs))

    return [
        grad(b),
        grad((a, b), allow_unused=True),
        grad((a, b), materialize_grads=True),
        grad((a, b), materialize_grads=True, allow_unused=False),
        grad([]),
        grad(lib.ones(2)),
        grad(a, is_grads_batched=True, grad_outputs=lib.ones(3)),
        grad({"a": a}),
    ]


@scenario
def several_outputs_of_one_node(lib: Any) -> Any:
    log: list[Any] = []
    a = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    parts = a.unbind()
    parts[0].register_hook(lambda g: log.append(numbers(g)))
    parts[1].retain_grad()
    (parts[0] * parts[1]).sum().backward()
    return log, numbers((a.grad, parts[1].grad))


@scenario
def whose_memory_a_gradient_is(lib: Any) -> Any:
    a = lib.ones(3, requires_grad=True)
    g = lib.ones(3)
    (a + 0).backward(g)
    first = a.grad.data_ptr() == g.data_ptr()
    before, version = a.grad, a.grad._version
    (a + 0).backward(g)
    same = a.grad is before
    t = lib.ones(2, 3).t().requires_grad_()
    (t * lib.ones(3, 2)).sum().backward()
    s = lib.ones(4, 6)[:, ::2].detach().requires_grad_()
    (s * 2).sum().backward()
    return first, same, a.grad._version > version, t.grad.stride(), s.grad.stride()


@scenario
def gradients_of_gradients(lib: Any) -> Any:
    a = lib.tensor([1.0, 2.0], requires_grad=True)
    (a**3).sum().backward(create_graph=True)
    (a.grad**2).sum().backward()
    return numbers(a.grad), a.grad.requires_grad


@scenario
def passes_in_hooks(lib: Any) -> Any:
    log: list[Any] = []
    a = lib.tensor([1.0, 2.0], requires_grad=True)

    def hook(g: Any) -> Any:
        log.append(lib.is_grad_enabled())
        with lib.enable_grad():
            inner = (a * a).sum()
        inner.backward()
        return g + a.grad

    b = a * 5
    b.register_hook(hook)
    b.sum().backward()
    return log, numbers(a.grad)


@scenario
def callbacks(lib: Any) -> Any:
    log: list[Any] = []
    engine = lib.autograd.Variable._execution_engine
    a = lib.tensor([1.0], requires_grad=True)

    def first() -> None:
        log.append(("first", lib.is_grad_enabled()))
        engine.queue_callback(lambda: log.append("second"))

    b = a * 5
    b.register_hook(lambda g: engine.queue_callback(first))
    b.backward()
    return log, outcome(lambda: engine.queue_callback(first))


@scenario
def multi_hooks(lib: Any) -> Any:
    log: list[Any] = []
    t = [lib.tensor([float(i)], requires_grad=True) for i in range(4)]
    register = lib.autograd.graph.register_multi_grad_hook
    register(t, lambda gs: log.append(numbers(gs)))
    some = register(t, lambda g: log.append("any"), mode="any")
    (t[0] * t[1]).backward()
    (t[0] * t[1] + t[2]).sum().backward(inputs=t[2])
    some.remove()
    (t[3] * 2).backward()
    return log


@scenario
def saved_values(lib: Any) -> Any:
    a = lib.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    w = lib.tensor([5.0, 6.0], requires_grad=True)
    product = a * w
    total = a.sum(1, keepdim=True)
    nodes = (product.grad_fn, total.grad_fn, a.reciprocal().grad_fn)
    return [
        [outcome(lambda n=n, name=name: getattr(n, "_saved_" + name)) for n in nodes]
        for name in ("self", "other", "result", "keepdim", "nothing")
    ]


@scenario
def errors_of_hooks(lib: Any) -> Any:
    def attempt(register: Callable[[Any], Any]) -> Any:
        a = lib.tensor([1.0, 2.0], requires_grad=True)
        b = a * a
        register(b)
        return outcome(lambda: b.sum().backward()), numbers(a.grad)

    return [
        attempt(lambda b: b.register_hook(lambda g: g[0])),
        attempt(lambda b: b.register_hook(lambda g: g.double())),
        attempt(lambda b: b.register_hook(lambda g: 3)),
        attempt(lambda b: b.grad_fn.register_prehook(lambda gs: (gs[0], gs[0]))),
        attempt(lambda b: b.grad_fn.register_prehook(lambda gs: 3)),
        attempt(lambda b: b.grad_fn.register_hook(lambda i, o: 3)),
        attempt(lambda b: b.grad_fn.register_hook(lambda i, o: (i[0],))),
        attempt(lambda b: b.grad_fn.register_hook(lambda i, o: (i[0], 1))),
        outcome(lambda: lib.ones(1).register_hook(print)),
        outcome(lambda: lib.ones(1).retain_grad()),
    ]


@pytest.mark.parametrize("run", SCENARIOS, ids=lambda f: f.__name__)
def test_the_same_happens_as_in_torch(run: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want, got = run(torch), run(ad)
    assert got == want
