"""Composites as vectors: each operation is done, and recorded, tensor by tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import adjoint as ad


@ad.composite(arithmetic=True)
@dataclass
class State:
    x: Any
    v: Any


@ad.composite(arithmetic=True)
@dataclass(frozen=True, slots=True)
class Named:
    parts: Any
    name: str = "n"
    count: Any = None


def state(x: float, v: float, requires_grad: bool = False) -> State:
    return State(*(ad.full((2,), a, requires_grad=requires_grad) for a in (x, v)))


def values(s: State) -> list[float]:
    return [s.x[0].item(), s.v[0].item()]


def test_operators() -> None:
    a, b = state(1.0, 2.0), state(10.0, 20.0)
    assert values(a + b) == [11.0, 22.0] and values(b - a) == [9.0, 18.0]
    assert values(a * 2) == values(2 * a) == values(2.0 * a) == [2.0, 4.0]
    assert values(a / 2) == [0.5, 1.0] and values(-a) == [-1.0, -2.0] and +a is a
    assert values(sum([a, b])) == [11.0, 22.0]
    assert values(np.float64(2) * a) == [2.0, 4.0]
    assert values(a + 0.5 * 0.1 * b) == pytest.approx([1.5, 3.0])
    assert type(a + b) is State


def test_operations_are_recorded_leaf_by_leaf() -> None:
    a, b = state(1.0, 2.0, True), state(10.0, 20.0, True)
    dt = ad.tensor(0.5, requires_grad=True)
    end = a + dt * b
    gradient = ad.autograd.grad((end.x * 3).sum() + end.v.sum(), {"a": a, "b": b, "dt": dt})
    assert values(gradient["a"]) == [3.0, 1.0] and values(gradient["b"]) == [1.5, 0.5]
    assert gradient["dt"].item() == 2 * (30 + 20)


def test_dot_and_norm() -> None:
    a = state(3.0, 4.0, True)
    assert a.dot(state(1.0, 2.0)).item() == 22.0
    assert a.norm().item() == pytest.approx(50**0.5)
    gradient = ad.autograd.grad(a.norm(), a)
    assert values(gradient) == pytest.approx([3 / 50**0.5, 4 / 50**0.5])
    zero = state(0.0, 0.0, True)
    assert values(ad.autograd.grad(zero.norm(), zero)) == [0.0, 0.0]
    mixed = Named([ad.tensor([3.0]), ad.tensor([4.0], dtype=ad.float64)])
    assert mixed.norm().item() == 5.0 and mixed.norm().dtype is ad.float64
    assert Named([], count=ad.tensor(1)).norm().item() == 0.0


def test_in_place_operators() -> None:
    a, b = state(1.0, 2.0), state(10.0, 20.0)
    same, memory = a, a.x
    a += b
    assert a is same and a.x is memory and values(a) == [11.0, 22.0]
    a -= b
    a *= 4
    a /= 2
    assert a is same and values(a) == [2.0, 4.0]
    a += a
    assert values(a) == [4.0, 8.0]
    frozen = Named([ad.ones(1)])
    kept = frozen
    frozen += frozen
    assert frozen is kept and frozen.parts[0].item() == 2.0


def test_in_place_is_recorded() -> None:
    a = state(1.0, 2.0, True)
    y = 1 * a
    y += 2 * a
    assert values(ad.autograd.grad(y.x.sum() + y.v.sum(), a)) == [3.0, 3.0]


def test_in_place_refuses_leaves_before_it_changes_anything() -> None:
    a = State(ad.ones(1), ad.ones(1, requires_grad=True))
    for change in ("a += a", "a *= 2"):
        with pytest.raises(RuntimeError, match=r"state.v is a leaf Variable that requires grad"):
            exec(change, {"a": a})
    assert a.x.item() == 1.0
    with ad.no_grad():
        a += a
    assert a.v.item() == 2.0


def test_in_place_on_one_tensor_in_two_places() -> None:
    w = ad.ones(1)
    tied = State(w, w)
    tied += tied
    assert w.item() == 2.0  # once
    with pytest.raises(ValueError, match=r"state.x and state.v are one tensor"):
        tied += State(ad.ones(1), ad.ones(1))
    assert w.item() == 2.0
    assert (tied + tied).x is not None and (2 * tied).x.item() == 4.0
    doubled = tied + tied
    assert doubled.x is doubled.v and tied.dot(tied).item() == 4.0 and tied.norm().item() == 2.0


def test_what_does_not_agree_is_refused_with_the_path() -> None:
    a = state(1.0, 2.0)
    with pytest.raises(ValueError, match=r"\+\(\): state.v: expected \[2\], got \[3\]"):
        a + State(ad.ones(2), ad.ones(3))
    with pytest.raises(ValueError, match=r"-\(\): state.v: expected \[2\], got None"):
        a - State(ad.ones(2), None)
    with pytest.raises(ValueError, match=r"dot\(\): named.name: expected 'n', got 'm'"):
        Named(ad.ones(1)).dot(Named(ad.ones(1), "m"))
    for wrong in ("x", ad.ones(2), [a], 1):
        with pytest.raises(TypeError):
            a + wrong
    for wrong in ("x", a, ad.ones(2)):
        with pytest.raises(TypeError):
            a * wrong


def test_integers_and_other_values_are_carried_from_the_left() -> None:
    a = Named({"w": ad.ones(2)}, count=ad.tensor(7))
    b = ad.map(lambda t: t * 3, a)
    total = 0.5 * a + b
    assert total.parts["w"].tolist() == [3.5, 3.5] and total.count.item() == 7
    assert total.name == "n"
    ad.requires_grad(a)
    slope = ad.autograd.grad((a.parts["w"] ** 2).sum(), a)
    assert slope.count is None
    assert (a - 0.5 * slope).parts["w"].tolist() == [0.0, 0.0]


def test_what_a_class_defines_itself_stays() -> None:
    @ad.composite(arithmetic=True)
    class Mine(ad.composite.VectorSpace):
        def __init__(self, x: Any) -> None:
            self.x = x

        def __neg__(self) -> str:
            return "mine"

    a = Mine(ad.ones(1))
    assert -a == "mine" and (a + a).x.item() == 2.0


def test_deriving_from_vector_space_is_enough_for_dataclasses() -> None:
    @dataclass
    class Derived(ad.composite.VectorSpace):
        x: Any

    assert (2 * Derived(ad.ones(1)) - Derived(ad.ones(1))).x.item() == 1.0
