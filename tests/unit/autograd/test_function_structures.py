"""Custom functions of nested arguments and with nested results."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections import deque, namedtuple
from types import SimpleNamespace
from typing import Any

import pytest

import adjoint as ad
from tests.unit.autograd.test_function import leaf, make

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass(frozen=True, slots=True)
class Params:
    w: Any
    b: Any
    steps: int = 3


@dataclasses.dataclass
class State:
    params: Params
    extra: list


def test_gradients_have_the_structure_of_the_arguments():
    seen = []

    def forward(ctx, state, scale, x):
        seen.append(ctx.needs_input_grad)
        ctx.save_for_backward(state.params.w, x)
        ctx.scale = scale
        return state.params.w * x * scale + state.params.b

    def backward(ctx, g):
        w, x = ctx.saved_tensors
        return (
            State(Params(g * x * ctx.scale, g), [None]),
            None,
            g * w * ctx.scale,
        )

    w, b, x = leaf(3.0), leaf(1.0), leaf(2.0)
    y = make(forward, backward).apply(State(Params(w, b), [ad.ones(1)]), 2, x)
    assert y.tolist() == [13.0]
    y.backward()
    assert [t.grad.tolist() for t in (w, b, x)] == [[4.0], [1.0], [6.0]]
    assert seen == [(State(Params(True, True, False), [False]), False, True)]


def test_results_keep_their_structure_and_backward_gets_gradients_in_it():
    got = []

    def forward(ctx, x):
        return {"y": x * 2, "more": [x * 3, 7]}

    def backward(ctx, g):
        got.append(g)
        return g["y"] * 2 + g["more"][0] * 3

    x = leaf(1.0)
    out = make(forward, backward).apply(x)
    assert out["more"][1] == 7
    (out["y"] + out["more"][0]).backward()
    assert x.grad.tolist() == [5.0]
    assert got[0]["more"][1] == 7  # carried along


def test_a_dataclass_as_result():
    cls = make(
        lambda ctx, x: State(Params(x * 2, x * 3), []),
        lambda ctx, g: g.params.w * 2 + g.params.b * 3,
    )
    x = leaf(1.0)
    out = cls.apply(x)
    assert isinstance(out, State)
    assert out.params.steps == 3
    out.params.b.backward()
    assert x.grad.tolist() == [3.0]


def test_a_named_tuple_spreads_like_a_tuple():
    x = leaf(1.0)
    out = make(lambda ctx, x: Pair(x * 2, x * 3), lambda ctx, ga, gb: ga * 2 + gb * 3).apply(x)
    assert type(out) is Pair
    (out.a + out.b).backward()
    assert x.grad.tolist() == [5.0]


def test_nested_items_of_a_tuple():
    x = leaf(1.0)
    cls = make(lambda ctx, x: (x * 2, [x * 3]), lambda ctx, g, rest: g * 2 + rest[0] * 3)
    y, (z,) = cls.apply(x)
    (y + z).backward()
    assert x.grad.tolist() == [5.0]


def test_containers_without_gradients_are_plain_arguments():
    seen = []

    def forward(ctx, items, options, x):
        seen.append(ctx.needs_input_grad)
        return x * items[0]

    cls = make(forward, lambda ctx, g: (None, None, g))
    cls.apply([ad.ones(1), ad.ones(1)], {"a": 1}, leaf(1.0))
    assert seen == [(False, False, True)]


def test_none_stands_for_a_whole_argument():
    x, w = leaf(1.0), leaf(2.0)
    y = make(lambda ctx, pair, z: pair[0] * pair[1] * z, lambda ctx, g: (None, g)).apply([x, w], x)
    y.backward()
    assert x.grad.tolist() == [1.0]
    assert w.grad is None


def test_saved_changed_and_returned_parts_are_known():
    def forward(ctx, d):
        ctx.mark_dirty(d["x"])
        d["x"].mul_(2)
        ctx.save_for_backward(d["w"])
        return [d["x"], d["w"]]

    cls = make(forward, lambda ctx, g: {"x": g[0] * 2, "w": g[1] * ctx.saved_tensors[0]})
    a, w = leaf(1.0), leaf(3.0)
    x = a * 1
    out = cls.apply({"x": x, "w": w})
    assert out[0] is x
    assert out[1] is not w
    (out[0] + out[1]).sum().backward()
    assert (a.grad.tolist(), w.grad.tolist()) == ([2.0], [3.0])


def test_second_derivatives():
    def forward(ctx, d):
        ctx.save_for_backward(d["x"])
        return d["x"] ** 3

    cls = make(forward, lambda ctx, g: {"x": 3 * ctx.saved_tensors[0] ** 2 * g})
    x = leaf(2.0)
    (first,) = ad.autograd.grad(cls.apply({"x": x}), x, create_graph=True)
    assert ad.autograd.grad(first, x)[0].tolist() == [12.0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            lambda g: g,
            r"Fn\.backward returned a gradient .* not built like its argument: d: expected a dict",
        ),
        (lambda g: {"a": g}, r"d: expected the entries 'a', 'b', got the entries 'a'"),
        (lambda g: {"a": [g], "b": g}, r"d\['a'\]: expected 2 items, got 1 items"),
        (
            lambda g: {"a": [g, ad.ones(5)], "b": g},
            r"'d\['a'\]\[1\]', which has shape \[2\]",
        ),
        (
            lambda g: {"a": [g, 3], "b": g},
            r"Variable or None \(got int\).*'d\['a'\]\[1\]'",
        ),
        (lambda g: ({}, {}), r"incorrect number of gradients \(expected 1, got 2\).*\('d'\)"),
    ],
)
def test_gradients_built_otherwise_are_refused(given, message):
    cls = make(lambda ctx, d: d["a"][0] * d["b"], lambda ctx, g: given(g))
    y = cls.apply({"a": [leaf(1.0, 2.0), leaf(1.0, 2.0)], "b": leaf(1.0, 2.0)})
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


class Holder:
    def __init__(self, t):
        self.t = t


def through_numpy(x, hidden):
    return ad.from_numpy(x.detach().numpy() * hidden.detach().numpy())


@pytest.mark.parametrize("read", [lambda x, t: x * t, through_numpy])
def test_tensors_hidden_in_objects_are_missed(read):
    cls = make(lambda ctx, x, holder: read(x, holder.t), lambda ctx, g: (g, None), "Fn")
    x, w = leaf(1.0), leaf(2.0)
    for argument in (x, x.detach()):
        y = cls.apply(argument, Holder(w))
        assert y.requires_grad
        with pytest.raises(RuntimeError, match=r"the gradient of holder\.t \(argument 'hol") as e:
            y.backward()
        assert "allow_hidden_tensors = True" in str(e.value)
    nested = make(lambda ctx, x, h: read(x, h[0]["h"].t), lambda ctx, g: (g, None), "Fn")
    y = nested.apply(x, [{"h": Holder(w)}])
    with pytest.raises(RuntimeError, match=r"the gradient of h\[0\]\['h'\]\.t \(argument 'h'"):
        y.backward()
    assert not cls.apply(ad.ones(1), Holder(ad.ones(1))).requires_grad
    with ad.no_grad():
        assert not cls.apply(x, Holder(w)).requires_grad


def test_objects_that_hold_tensors_may_be_passed_along():
    cls = make(lambda ctx, x, trainer: x * 2, lambda ctx, g: (g * 2, None))
    net = ad.nn.Linear(2, 2)
    trainer = SimpleNamespace(net=net, optimizer=ad.optim.SGD(net.parameters(), 0.1), w=leaf(2.0))
    for argument in (trainer, trainer.optimizer, Holder(trainer.w)):
        x = leaf(1.0)
        cls.apply(x, argument).backward()
        assert x.grad.item() == 2
        assert not cls.apply(x.detach(), argument).requires_grad
    said = make(lambda ctx, x, h: x * h.t.detach(), lambda ctx, g: (g * 2, None))
    said.apply(leaf(1.0), Holder(trainer.w)).backward()  # detach() means what it says


class Slotted:
    __slots__ = ("empty", "t")

    def __init__(self, t):
        self.t = t


HIDING = [
    (lambda t: {t}, r"list(h)[0]"),
    (lambda t: frozenset([t]), r"list(h)[0]"),
    (lambda t: {"a{}": t}.values(), r"list(h)[0]"),
    (lambda t: {"a": t}.items(), r"list(h)[0][1]"),
    (lambda t: SimpleNamespace(t=t), "h.t"),
    (Slotted, "h.t"),
    (lambda t: Holder(Holder(t)), "h.t.t"),
    (lambda t: Holder(Slotted([t])), "h.t.t[0]"),
    (lambda t: Holder([1, {"a{}": t}]), "h.t[1]['a{}']"),
]


FOUND: list[ad.Tensor] = []  # what forward reads: no name leads to it


@pytest.mark.parametrize(("hide", "path"), HIDING, ids=[path for _, path in HIDING])
def test_hidden_tensors_are_found_wherever_they_are(hide, path):
    x = leaf(1.0)
    cls = make(lambda ctx, x, h: through_numpy(x, FOUND[0]), lambda ctx, g: (g, None), "Fn")
    FOUND[:] = [leaf(2.0)]
    y = cls.apply(x, hide(FOUND[0]))
    with pytest.raises(RuntimeError) as e:
        y.backward()
    assert str(e.value).startswith(f"the gradient of {path} (argument 'h', float32 [1]) is lost")
    cls.apply(x, None).backward()  # nothing to watch


def test_a_deque_is_a_structure():
    cls = make(lambda ctx, d: d[0] * d[1], lambda ctx, g: deque([g * 2, g * 3]))
    x, y = leaf(1.0), leaf(2.0)
    cls.apply(deque([x, y])).backward()
    assert (x.grad.item(), y.grad.item()) == (2, 3)


def test_objects_that_hold_one_another_end():
    a, b = Holder(None), Holder(None)
    a.t, a.u, b.t, b.u = b, b, a, a
    make(lambda ctx, x, h: x * 2, lambda ctx, g: (g, None)).apply(leaf(1.0), a)


def test_cyclic_arguments_end():
    loop: list[Any] = []
    loop.append(loop)
    x = leaf(1.0)
    make(lambda ctx, x, loop: x * 2, lambda ctx, g: (g, None)).apply(x, loop)


def test_plain_calls_do_not_load_what_structures_need():
    code = (
        "import sys, adjoint as ad\n"
        "before = set(sys.modules)\n"
        "class F(ad.autograd.Function):\n"
        "    forward = staticmethod(lambda ctx, x, k: x * k)\n"
        "    backward = staticmethod(lambda ctx, g: (g, None))\n"
        "F.apply(ad.ones(1, requires_grad=True), 2).backward()\n"
        "assert 'adjoint.autograd._structures' not in sys.modules\n"
        "assert set(sys.modules) == before\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
