"""`autograd.grad` and `backward` with composites for outputs, inputs and cotangents."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

import adjoint as ad
from adjoint.autograd import grad


@dataclass
class Body:
    position: Any
    velocity: Any
    name: str = "body"


@dataclass
class State:
    bodies: list[Body] = field(default_factory=list)
    step: Any = 0


class Pair(NamedTuple):
    x: Any
    y: Any


def state_of(count: int = 4) -> State:
    bodies = [Body(ad.ones(3) * (i + 1), ad.ones(3), f"b{i}") for i in range(count)]
    return ad.requires_grad(State(bodies, ad.tensor(5)))


def doubled(state: State) -> State:
    return ad.map(lambda x: x * 2, state)


def test_the_gradient_has_the_structure_of_the_input() -> None:
    state = state_of()
    loss = sum((b.position**2).sum() + b.velocity.sum() for b in state.bodies)
    gradient = grad(loss, state)
    assert isinstance(gradient, State) and isinstance(gradient.bodies[2], Body)
    assert gradient.bodies[2].position.tolist() == [6.0] * 3
    assert gradient.bodies[2].velocity.tolist() == [1.0] * 3
    assert gradient.bodies[2].name == "b2"
    assert gradient.step is None  # integers have no gradient
    assert state.bodies[0].position.grad is None


@pytest.mark.parametrize("make", [Pair, lambda x, y: {"x": x, "y": y}, lambda x, y: [x, (y,)]])
def test_small_structures(make: Any) -> None:
    x, y = ad.tensor(2.0, requires_grad=True), ad.tensor(3.0, requires_grad=True)
    given = make(x, y)
    gradient = grad(x * x * y, given)
    assert type(gradient) is type(given)
    assert [g.item() for g in ad.flatten(gradient)[0]] == [12.0, 4.0]


def test_flat_sequences_and_tensors_give_tuples_as_ever() -> None:
    x, y = ad.tensor(2.0, requires_grad=True), ad.tensor(3.0, requires_grad=True)
    for inputs in ((x, y), [x, y], iter((x, y)), {1: x, 2: y}.values()):
        result = grad(x * y, inputs, retain_graph=True)
        assert type(result) is tuple and [g.item() for g in result] == [3.0, 2.0]
    assert type(grad(x * y, x)) is tuple
    ordered = grad(x * y, OrderedDict(b=x, a=y))
    assert type(ordered) is OrderedDict and list(ordered) == ["b", "a"]


def test_edges_are_no_composites() -> None:
    x = ad.tensor(2.0, requires_grad=True)
    edge = ad.autograd.graph.get_gradient_edge(x)
    assert grad(x * x, edge)[0].item() == 4.0
    assert grad(x * x, [edge])[0].item() == 4.0
    out = ad.autograd.graph.get_gradient_edge(x * x)
    assert grad(out, {"x": x}, ad.tensor(1.0))["x"].item() == 4.0


def test_composites_for_outputs_and_cotangents() -> None:
    state = state_of(2)
    ones = ad.map(ad.ones_like, ad.detach(state))
    gradient = grad(doubled(state), state, ones)
    assert gradient.bodies[1].velocity.tolist() == [2.0] * 3
    (x,) = grad(doubled(state), [state.bodies[0].velocity], ones)
    assert x.tolist() == [2.0] * 3


def test_scalars_need_no_cotangent_and_none_may_stand_for_a_part() -> None:
    x = ad.tensor([1.0, 2.0], requires_grad=True)
    outputs = {"sum": x.sum(), "parts": (x * 3, x.prod()), "n": 1}
    gradient = grad(outputs, Pair(x, "y"), {"sum": None, "parts": [ad.ones(2), None], "n": None})
    assert isinstance(gradient, Pair) and gradient.x.tolist() == [6.0, 5.0] and gradient.y == "y"
    assert grad(Pair(x.sum(), None), [x])[0].tolist() == [1.0, 1.0]


def test_cotangents_that_do_not_fit_are_refused_with_the_path() -> None:
    state = state_of()
    wrong = ad.map(ad.ones_like, ad.detach(state))
    wrong.bodies[3].velocity = ad.ones(4)
    with pytest.raises(
        RuntimeError, match=r"state.bodies\[3\].velocity: expected \[3\], got \[4\]"
    ):
        grad(doubled(state), state, wrong)
    wrong.bodies[3].velocity = 2.0
    with pytest.raises(RuntimeError, match=r"state.bodies\[3\].velocity: expected \[3\], got 2.0"):
        ad.backward(doubled(state), wrong)
    wrong.bodies.pop()
    with pytest.raises(
        RuntimeError,
        match=r"grad_tensors is not built like the outputs: state.bodies: expected 4 items, got 3",
    ):
        ad.backward(doubled(state), wrong)
    with pytest.raises(RuntimeError, match=r"state: expected a State, got a Pair"):
        grad(doubled(state), state, Pair(1, 2))
    assert all(b.position.grad is None for b in state.bodies)


def test_missing_cotangents_are_named() -> None:
    state = state_of()
    with pytest.raises(
        RuntimeError,
        match=r"implicitly created only for scalar outputs, and state.bodies\[0\].position has",
    ):
        grad(doubled(state), state)
    with pytest.raises(
        RuntimeError, match=r"outputs\['x'\], like all of it, does not require grad"
    ):
        ad.backward({"x": ad.ones(1)})
    with pytest.raises(RuntimeError, match=r"an empty composite"):
        ad.backward({})


def test_unused_and_unwilling_tensors_are_named() -> None:
    state = state_of(2)
    loss = state.bodies[0].position.sum()
    with pytest.raises(
        RuntimeError, match=r"not have been used in the graph: state.bodies\[0\].vel"
    ):
        grad(loss, state, retain_graph=True)
    free = grad(loss, state, allow_unused=True, retain_graph=True)
    assert free.bodies[0].position.tolist() == [1.0] * 3 and free.bodies[1].velocity is None
    zero = grad(loss, state, materialize_grads=True, retain_graph=True)
    assert zero.bodies[1].velocity.tolist() == [0.0] * 3
    state.bodies[1].velocity = ad.ones(3)
    with pytest.raises(RuntimeError, match=r"does not require grad: state.bodies\[1\].velocity"):
        grad(loss, state)
    assert grad(loss, state, allow_unused=True).bodies[1].velocity is None


def test_backward_fills_the_leaves() -> None:
    state = state_of(2)
    ad.backward(sum(b.velocity.sum() for b in state.bodies))
    assert ad.grads(state).bodies[1].velocity.tolist() == [1.0] * 3
    assert ad.grads(state).bodies[1].position is None


def test_backward_restricted_to_a_composite() -> None:
    state = state_of(2)
    loss = sum((b.position * b.velocity).sum() for b in state.bodies)
    ad.backward(loss, inputs={"only": state.bodies[0]}, retain_graph=True)
    assert state.bodies[0].velocity.grad is not None and state.bodies[1].velocity.grad is None
    loss.backward(inputs=state.bodies[1])
    assert state.bodies[1].velocity.grad is not None
    with pytest.raises(RuntimeError, match=r"cannot be empty, and inputs has no tensor"):
        ad.backward(loss, inputs={"n": ad.tensor(1)})


def test_second_derivatives_of_composites() -> None:
    pair = ad.requires_grad(Pair(ad.tensor(2.0), ad.tensor(3.0)))
    first = grad(pair.x**2 * pair.y**2, pair, create_graph=True)
    second = grad(first, pair)  # of the sum of both
    assert second.x.item() == pytest.approx(2 * 9 + 4 * 2 * 3)
    assert second.y.item() == pytest.approx(2 * 4 + 4 * 2 * 3)


def test_batched_cotangents() -> None:
    pair = ad.requires_grad(Pair(ad.ones(2), ad.ones(2)))
    out = {"sum": pair.x + pair.y}
    rows = grad(out, pair, {"sum": ad.eye(2)}, is_grads_batched=True, retain_graph=True)
    assert rows.x.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(RuntimeError, match=r"outputs\['sum'\]: expected \[batch, 2\], got \[2\]"):
        grad(out, pair, {"sum": ad.ones(2)}, is_grads_batched=True)


def test_a_tensor_in_two_places_accumulates_once() -> None:
    w = ad.tensor([2.0], requires_grad=True)
    tied = {"encoder": w, "decoder": {"w": w}}
    loss = (tied["encoder"] * tied["decoder"]["w"]).sum()
    gradient = grad(loss, tied, retain_graph=True)
    assert gradient["encoder"] is gradient["decoder"]["w"]
    assert gradient["encoder"].tolist() == [4.0]  # the sum over both places
    ad.backward(loss)
    assert w.grad is not None and w.grad.tolist() == [4.0]
    stepped = ad.map(lambda p, g: p - g, tied, gradient)
    assert stepped["encoder"] is stepped["decoder"]["w"]


def test_complex_leaves() -> None:
    z = ad.tensor(1 + 2j, requires_grad=True)
    assert grad((z * z.conj()).real, {"z": z})["z"].item() == 2 + 4j


def test_values_beside_the_tensors_of_cotangents_must_agree() -> None:
    x = ad.ones(2, requires_grad=True)
    out = {"y": x * 2, "name": "a"}
    assert ad.equal(ad.autograd.grad(out, x, {"y": ad.ones(2), "name": "a"})[0], 2 * ad.ones(2))
    with pytest.raises(RuntimeError, match=r"\['name'\]: expected 'a', got 'b'"):
        ad.autograd.grad(out, x, {"y": ad.ones(2), "name": "b"})
